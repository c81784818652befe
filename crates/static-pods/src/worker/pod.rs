//! The state of one pod between its syncs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::{WallClock, WallTime};
use sync_loop::Waker;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::line::{Kind, Line, Lines};
use crate::decide::{
    ContainerView, Decision, Memory, Outcome, Phase, Planned, Report, Step, View, Why,
};
use crate::probe::{Change, CheckResult, DueCheck, Prober};
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
    events: Arc<Mutex<Vec<PodEvent>>>,
    waker: Waker,
}

impl EventSender {
    /// Sends an event. It is ignored if the pod has ended.
    pub(super) fn send(&self, event: PodEvent) {
        self.events().push(event);
        self.waker.wake();
    }

    fn events(&self) -> MutexGuard<'_, Vec<PodEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Pod {
    pub(super) pod: PodRef,
    pub(super) memory: Memory,
    pub(super) prober: Prober,
    /// Its specification, if this run has read its manifest.
    pub(super) spec: Option<Arc<PodSpec>>,
    sender: EventSender,
    /// The newest view that was requested.
    requested_view: Option<View>,
    view_request: ViewRequest,
    /// The last report.
    reported: Option<Report>,
}

/// The last request for a view.
enum ViewRequest {
    None,
    /// A view as of a time after this was requested.
    Pending(Instant, AbortHandle),
    /// A view as of a time after `after` has arrived. If it was not sufficient, the next one is
    /// requested at `again_at`.
    Answered {
        after: Instant,
        again_at: Instant,
    },
}

impl Pod {
    /// `since` is when the sync loop started, or when the previous pod with this UID ended.
    pub(super) fn new(pod: PodRef, since: Instant, adopted: &[(Id, Id)], waker: Waker) -> Self {
        let mut memory = Memory::new(since);
        for (container, sandbox) in adopted {
            memory.adopt(container.clone(), sandbox.clone());
        }
        Self {
            pod,
            memory,
            prober: Prober::new(Instant::now(), fastrand::Rng::new()),
            spec: None,
            sender: EventSender {
                events: Arc::default(),
                waker,
            },
            requested_view: None,
            view_request: ViewRequest::None,
            reported: None,
        }
    }

    pub(super) fn sender(&self) -> EventSender {
        self.sender.clone()
    }

    /// Applies the events since the last sync.
    pub(super) fn apply_events(&mut self, clock: &WallClock, lines: &Lines) {
        let events = std::mem::take(&mut *self.sender.events());
        for event in events {
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
                        lines.send(probed(clock(), &self.pod, &check, change));
                    }
                }
            }
        }
    }

    /// The newer one of the sync loop's view and the requested view.
    pub(super) fn newest(&mut self, view: View) -> View {
        self.requested_view = self
            .requested_view
            .take()
            .filter(|it| it.is_newer_than(&view));
        self.requested_view.clone().unwrap_or(view)
    }

    /// When to request a view as of a time after `wanted`. `None` if no view is wanted, or if the
    /// request is pending.
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

    pub(super) fn view_requested(&mut self, after: Instant, task: AbortHandle) {
        self.view_request = ViewRequest::Pending(after, task);
    }

    /// The decision for a pod that waits for the runtime's network: no steps, and the last report.
    pub(super) fn wait_for_network(&self) -> Decision {
        let report = self.reported.clone().unwrap_or_else(Report::pending);
        Decision {
            steps: Vec::new(),
            wake_at: None,
            needs_view_after: None,
            report: Report {
                is_ready: false,
                waits: Some(Why::NetworkNotReady),
                ..report
            },
            is_gone: false,
        }
    }

    /// Sends a line for each step and for each other change since the last sync. For a pod that
    /// ends, its phase and readiness are not reported.
    pub(super) fn report_changes(
        &mut self,
        now: WallTime,
        decision: &Decision,
        is_ending: bool,
        lines: &Lines,
    ) {
        let line = |kind, container: Option<&Arc<str>>, action, why: String| {
            lines.send(Line {
                kind,
                time: now,
                pod: Some(self.pod.clone()),
                container: container.cloned(),
                action,
                why,
            });
        };
        for Planned { step, why } in &decision.steps {
            line(Kind::Step, step.container(), step.action(), why.to_string());
        }
        if decision.is_gone {
            line(Kind::Pod, None, "Gone", "nothing is left of it".to_owned());
        }
        let report = &decision.report;
        let reported = self.reported.as_ref();
        let old = reported.and_then(|reported| reported.waits.as_ref());
        let waits = report.waits.as_ref();
        // An ending pod waits for a complete view after each step.
        let waits = waits.filter(|why| !(is_ending && **why == Why::NotSeen));
        if let Some(why) = waits.filter(|why| is_reportable(why, old)) {
            line(Kind::Wait, None, why.name(), why.to_string());
        }
        for container in &report.containers {
            let old = reported.and_then(|reported| {
                let mut containers = reported.containers.iter();
                containers
                    .find(|it| it.name == container.name)?
                    .waits
                    .as_ref()
            });
            let waits = container.waits.as_ref();
            if let Some(why) = waits.filter(|why| is_reportable(why, old)) {
                line(
                    Kind::Wait,
                    Some(&container.name),
                    why.name(),
                    why.to_string(),
                );
            }
        }
        if is_ending {
            self.reported = Some(report.clone());
            return;
        }
        let was_ready = reported.is_some_and(|reported| reported.is_ready);
        if reported.is_none_or(|reported| reported.phase != report.phase) {
            line(Kind::Pod, None, report.phase.as_str(), meaning(report));
        }
        match (was_ready, report.is_ready) {
            (false, true) => line(
                Kind::Pod,
                None,
                "Ready",
                "all its containers are ready".into(),
            ),
            (true, false) => line(Kind::Pod, None, "NotReady", not_ready(report)),
            _ => {}
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

fn probed(time: WallTime, pod: &PodRef, check: &DueCheck, change: Change) -> Line {
    let (action, why) = match change {
        Change::Started => ("Started", "its startup probe has succeeded".to_owned()),
        Change::Ready => ("Ready", "its readiness probe has succeeded".to_owned()),
        Change::NotReady(message) => ("NotReady", format!("readiness probe failed: {message}")),
        Change::Failed(failed) => (
            "Unhealthy",
            format!("{} probe failed: {}", failed.kind, failed.message),
        ),
    };
    Line {
        kind: Kind::Probe,
        time,
        pod: Some(pod.clone()),
        container: Some(check.container.clone()),
        action,
        why,
    }
}
