//! The state of one pod between its syncs.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::{WallClock, WallTime};
use sync_loop::{SyncRequest, Waker};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::line::{Kind, Line, Lines};
use crate::decide::{ContainerView, Memory, Outcome, Phase, Planned, Report, Step, View, Why};
use crate::probe::{Change, CheckResult, DueCheck, FailedProbe, Prober};
use crate::spec::PodSpec;

/// The shortest time between two requests for a view.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// An event of a pod between two syncs.
pub(super) enum PodEvent {
    /// A step has ended.
    Ended(Step, Outcome, Instant),
    /// A check has ended.
    Checked(DueCheck, CheckResult),
    /// A requested view has arrived.
    View(View),
}

/// Sends events to a pod, and wakes it.
#[derive(Clone)]
pub(super) struct EventSender {
    events: mpsc::UnboundedSender<PodEvent>,
    waker: Waker,
}

impl EventSender {
    /// Sends an event. It is ignored if the pod has ended.
    pub(super) fn send(&self, event: PodEvent) {
        let _ = self.events.send(event);
        self.waker.wake();
    }
}

pub(super) struct Pod {
    pub(super) pod: PodRef,
    pub(super) memory: Memory,
    pub(super) prober: Prober,
    /// Its specification, if this run has read its manifest.
    pub(super) spec: Option<Arc<PodSpec>>,
    pub(super) sender: EventSender,
    events: mpsc::UnboundedReceiver<PodEvent>,
    /// The last view that arrived on request, while it is newer than the sync loop's view.
    requested_view: Option<View>,
    pub(super) view_request: ViewRequest,
    /// The last report.
    reported: Option<Report>,
}

/// The last request for a view.
pub(super) enum ViewRequest {
    None,
    /// A task waits for a view as of a time after this one.
    Pending(Instant, AbortHandle),
    /// A view as of a time after `after` has arrived. If it was not sufficient, the next one is
    /// requested at `again_at`.
    Answered {
        after: Instant,
        again_at: Instant,
    },
}

impl Pod {
    /// Creates the state of a pod at its first request. The request's `since` is when the sync loop
    /// started, or when the previous pod with this UID ended. `adopted` contains the pod's containers
    /// of an earlier run, with their sandboxes.
    pub(super) fn new(request: &SyncRequest<Arc<PodSpec>>, adopted: &[(Id, Id)]) -> Self {
        let mut memory = Memory::new(request.since);
        for (container, sandbox) in adopted {
            memory.adopt(container.clone(), sandbox.clone());
        }
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            pod: request.pod.clone(),
            memory,
            prober: Prober::new(Instant::now(), fastrand::Rng::new()),
            spec: None,
            sender: EventSender {
                events: sender,
                waker: request.waker.clone(),
            },
            events,
            requested_view: None,
            view_request: ViewRequest::None,
            reported: None,
        }
    }

    /// Applies the events since the last sync.
    pub(super) fn apply_events(&mut self, clock: &WallClock, lines: &Lines) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                PodEvent::Ended(step, outcome, at) => self.memory.note_outcome(&step, outcome, at),
                PodEvent::View(view) => {
                    self.requested_view = Some(view);
                    if let ViewRequest::Pending(after, _) = self.view_request {
                        let again_at = Instant::now() + MIN_REQUEST_INTERVAL;
                        self.view_request = ViewRequest::Answered { after, again_at };
                    }
                }
                PodEvent::Checked(check, result) => {
                    if let Some(spec) = &self.spec
                        && let Some(change) = self.prober.apply_result(spec, &check, result)
                    {
                        let (action, why) = probe_change(change);
                        let container = Some(&check.container);
                        lines.send(self.line(clock(), Kind::Probe, container, action, why));
                    }
                }
            }
        }
    }

    /// The newer one of the sync loop's view and the requested view.
    pub(super) fn newest(&mut self, view: View) -> View {
        let requested = self.requested_view.take();
        self.requested_view = requested.filter(|it| it.is_newer_than(&view));
        self.requested_view.clone().unwrap_or(view)
    }

    /// When to request a view as of a time after `wanted`. `None` if no view is wanted, or if such a
    /// request is pending. Cancels a pending request that is not needed or not sufficient.
    pub(super) fn next_view_request(
        &mut self,
        wanted: Option<Instant>,
        now: Instant,
    ) -> Option<Instant> {
        let Some(wanted) = wanted else {
            if let ViewRequest::Pending(_, task) = &self.view_request {
                task.abort();
                self.view_request = ViewRequest::None;
            }
            return None;
        };
        match &self.view_request {
            ViewRequest::Pending(after, _) if *after >= wanted => None,
            ViewRequest::Pending(_, task) => {
                task.abort();
                Some(now)
            }
            ViewRequest::Answered { after, again_at } if *after >= wanted => {
                Some(now.max(*again_at))
            }
            ViewRequest::None | ViewRequest::Answered { .. } => Some(now),
        }
    }

    /// The last report, changed so that the pod waits for the runtime's network.
    pub(super) fn wait_for_network(&self) -> Report {
        Report {
            is_ready: false,
            waits: Some(Why::NetworkNotReady),
            ..self.reported.clone().unwrap_or_else(Report::pending)
        }
    }

    /// A line about this pod.
    pub(super) fn line(
        &self,
        time: WallTime,
        kind: Kind,
        container: Option<&Arc<str>>,
        action: &'static str,
        why: String,
    ) -> Line {
        Line {
            kind,
            time,
            pod: Some(self.pod.clone()),
            container: container.cloned(),
            action,
            why,
        }
    }

    /// Sends a line for each step and for each other change since the last sync. The phase and the
    /// readiness of a pod that is ending are not reported.
    pub(super) fn report_changes(
        &mut self,
        now: WallTime,
        steps: &[Planned],
        report: &Report,
        is_ending: bool,
        lines: &Lines,
    ) {
        let line = |kind, container, action, why| {
            lines.send(self.line(now, kind, container, action, why));
        };
        for Planned { step, why } in steps {
            line(Kind::Step, step.container(), step.action(), why.to_string());
        }
        let wait = |container, waits: Option<&Why>, waited: Option<&Why>| {
            if let Some(why) = waits.filter(|why| is_reportable(why, waited)) {
                line(Kind::Wait, container, why.name(), why.to_string());
            }
        };
        let last = self.reported.as_ref();
        // An ending pod waits for a complete view after each step, so that wait is not reported.
        let waits = report.waits.as_ref();
        let waits = waits.filter(|why| !(is_ending && **why == Why::NotSeen));
        wait(None, waits, last.and_then(|last| last.waits.as_ref()));
        for container in &report.containers {
            let mut before = last.iter().flat_map(|last| &last.containers);
            let before = before.find(|it| it.name == container.name);
            let waited = before.and_then(|it| it.waits.as_ref());
            wait(Some(&container.name), container.waits.as_ref(), waited);
        }
        if !is_ending {
            if last.is_none_or(|last| last.phase != report.phase) {
                line(Kind::Pod, None, report.phase.as_str(), meaning(report));
            }
            let was_ready = last.is_some_and(|last| last.is_ready);
            if report.is_ready && !was_ready {
                let why = "all its containers are ready".to_owned();
                line(Kind::Pod, None, "Ready", why);
            } else if was_ready && !report.is_ready {
                line(Kind::Pod, None, "NotReady", not_ready(report));
            }
        }
        self.reported = Some(report.clone());
    }
}

/// Whether a wait is reported: it is new, and not a part of every start or end.
fn is_reportable(why: &Why, old: Option<&Why>) -> bool {
    let is_usual = matches!(
        why,
        Why::ContainerCreating | Why::PodInitializing | Why::ExitCodePending | Why::Terminating
    );
    !is_usual && old != Some(why)
}

/// The meaning of the phase, and for a failed pod the container that failed.
fn meaning(report: &Report) -> String {
    let meaning = report.phase.meaning().to_owned();
    let mut containers = report.containers.iter();
    let failed = containers.find_map(|it| match &it.state {
        ContainerView::Terminated(exit) if exit.code != Some(0) => Some((&it.name, exit)),
        _ => None,
    });
    let (Phase::Failed, Some((name, exit))) = (report.phase, failed) else {
        return meaning;
    };
    let code = exit.code.map(|code| format!(" with code {code}"));
    let reason = exit.reason.as_ref().map(|reason| format!(" ({reason})"));
    let message = exit.message.as_ref().map(|message| format!(": {message}"));
    let how = [code, reason, message].map(Option::unwrap_or_default);
    format!("{meaning}: container {name} exited{}", how.concat())
}

fn not_ready(report: &Report) -> String {
    let mut containers = report.containers.iter().filter(|it| !it.is_ready);
    match containers.next() {
        Some(container) => format!("container {} is not ready", container.name),
        None => "the pod is not running".to_owned(),
    }
}

/// The action and the reason of the line about a change of a probe.
fn probe_change(change: Change) -> (&'static str, String) {
    match change {
        Change::Started => ("Started", "its startup probe has succeeded".to_owned()),
        Change::Ready => ("Ready", "its readiness probe has succeeded".to_owned()),
        Change::NotReady(message) => ("NotReady", format!("readiness probe failed: {message}")),
        Change::Failed(FailedProbe { kind, message }) => {
            ("Unhealthy", format!("{kind} probe failed: {message}"))
        }
    }
}
