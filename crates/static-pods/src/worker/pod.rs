//! One pod at work: what is known of it, and what is under way.

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
use crate::probe::{Change, CheckToMake, Finding, Prober};
use crate::spec::PodSpec;

/// A look that did not show what was waited for is not asked for again before this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What has happened to a pod since its last sync.
pub(super) enum News {
    /// A step has ended.
    Ended(Step, Outcome, Instant),
    /// A check was made.
    Found(CheckToMake, Finding),
    /// A look was made that was waited for.
    Looked(View),
}

/// Where news of a pod goes; each wakes it.
#[derive(Clone)]
pub(super) struct Reporter {
    news: Arc<Mutex<Vec<News>>>,
    waker: Waker,
}

impl Reporter {
    /// If the pod is gone, nobody takes it in.
    pub(super) fn tell(&self, news: News) {
        self.news().push(news);
        self.waker.wake();
    }

    /// Held for moments.
    fn news(&self) -> MutexGuard<'_, Vec<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Pod {
    pub(super) pod: PodRef,
    pub(super) memory: Memory,
    pub(super) prober: Prober,
    /// Its manifest, once it was read.
    pub(super) spec: Option<Arc<PodSpec>>,
    reporter: Reporter,
    /// The newest look that was waited for.
    looked: Option<View>,
    looking: Looking,
    /// What was last told of it.
    told: Option<Report>,
}

/// Whether a look is waited for.
enum Looking {
    No,
    /// One that was begun after this.
    For(Instant, AbortHandle),
    /// One that was begun after this has come. If it did not show what was waited for, another one
    /// is asked for at that time.
    Came {
        after: Instant,
        again_at: Instant,
    },
}

impl Pod {
    /// `since` is when the sync loop began, or the end of the pod of the same UID before.
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
            reporter: Reporter {
                news: Arc::default(),
                waker,
            },
            looked: None,
            looking: Looking::No,
            told: None,
        }
    }

    pub(super) fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Takes in what has happened since the last sync.
    pub(super) fn take_news(&mut self, clock: &WallClock, lines: &Lines) {
        let news = std::mem::take(&mut *self.reporter.news());
        for news in news {
            match news {
                News::Ended(step, outcome, at) => self.memory.ended(&step, outcome, at),
                News::Looked(view) => {
                    self.looked = Some(view);
                    if let Looking::For(after, _) = self.looking {
                        let again_at = Instant::now() + LOOK_AGAIN;
                        self.looking = Looking::Came { after, again_at };
                    }
                }
                News::Found(check, finding) => {
                    if let Some(spec) = &self.spec
                        && let Some(change) = self.prober.found(spec, &check, finding)
                    {
                        lines.tell(probed(clock(), &self.pod, &check, change));
                    }
                }
            }
        }
    }

    /// The newer one of what the sync loop saw and the look that was waited for.
    pub(super) fn newest(&mut self, seen: View) -> View {
        match self.looked.take() {
            Some(looked) if looked.is_newer_than(&seen) => {
                self.looked = Some(looked.clone());
                looked
            }
            _ => seen,
        }
    }

    /// When a look is to be asked for that is begun after `wanted`: now, or at this time. `None` if
    /// nothing is waited for, or the look is under way.
    pub(super) fn look_at(&mut self, wanted: Option<Instant>, now: Instant) -> Option<Instant> {
        let Some(wanted) = wanted else {
            if let Looking::For(_, task) = &self.looking {
                task.abort();
                self.looking = Looking::No;
            }
            return None;
        };
        match &self.looking {
            Looking::For(after, _) if *after >= wanted => None,
            Looking::For(_, task) => {
                task.abort();
                Some(now)
            }
            Looking::Came { after, again_at } if *after >= wanted => Some(now.max(*again_at)),
            Looking::No | Looking::Came { .. } => Some(now),
        }
    }

    pub(super) fn looks(&mut self, after: Instant, task: AbortHandle) {
        self.looking = Looking::For(after, task);
    }

    /// Nothing is done, and the pod stays as it was.
    pub(super) fn wait_for_network(&self) -> Decision {
        let report = self.told.clone().unwrap_or_else(Report::pending);
        Decision {
            steps: Vec::new(),
            wake_at: None,
            look_after: None,
            report: Report {
                is_ready: false,
                waits: Some(Why::NetworkNotReady),
                ..report
            },
            is_gone: false,
        }
    }

    /// One line for each step, and for whatever else has changed since the last sync. How far a pod
    /// is that is being ended its steps tell.
    pub(super) fn tell(
        &mut self,
        now: WallTime,
        decision: &Decision,
        is_ending: bool,
        lines: &Lines,
    ) {
        let line = |kind, container: Option<&Arc<str>>, action, why: String| {
            lines.tell(Line {
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
        let told = self.told.as_ref();
        let old = told.and_then(|told| told.waits.as_ref());
        let waits = report.waits.as_ref();
        // Each complete look of an end is waited for.
        let waits = waits.filter(|why| !(is_ending && **why == Why::NotSeen));
        if let Some(why) = waits.filter(|why| is_news(why, old)) {
            line(Kind::Wait, None, why.name(), why.to_string());
        }
        for container in &report.containers {
            let old = told.and_then(|told| {
                let mut containers = told.containers.iter();
                containers
                    .find(|it| it.name == container.name)?
                    .waits
                    .as_ref()
            });
            let waits = container.waits.as_ref();
            if let Some(why) = waits.filter(|why| is_news(why, old)) {
                line(
                    Kind::Wait,
                    Some(&container.name),
                    why.name(),
                    why.to_string(),
                );
            }
        }
        if is_ending {
            self.told = Some(report.clone());
            return;
        }
        let was_ready = told.is_some_and(|told| told.is_ready);
        if told.is_none_or(|told| told.phase != report.phase) {
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
        self.told = Some(report.clone());
    }
}

/// Whether what is waited for is told: the usual course of things is not.
fn is_news(why: &Why, old: Option<&Why>) -> bool {
    let is_usual = matches!(
        why,
        Why::ContainerCreating | Why::PodInitializing | Why::ExitCodePending | Why::Terminating
    );
    !is_usual && old != Some(why)
}

/// What the phase means; of a pod that has failed also by which container.
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

fn probed(time: WallTime, pod: &PodRef, check: &CheckToMake, change: Change) -> Line {
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
