//! The events: one when a trouble begins, one when its cause is found, and one when it ends, on the
//! Node and on each pod of which a container is stuck. And once a day what may become trouble.
//!
//! At most [`BURST`] at once and one a minute after that: what is too much is left out, and
//! counted. Of what was left out the end is not told either.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::WallTime;
use pleg::out::health::{HealthState, Reason, StuckCall};
use pleg::out::status_report::{GuardStatus, StatusReport};
use pleg::runtime::Rpc;
use times::GoDuration;
use tokio::time::Instant;

use crate::condition::sentence;
use crate::config::is_domain;
use crate::summary::shortened;

/// So many events at once.
const BURST: u32 = 10;

/// So many wait while an API server is away.
const MOST_WAITING: usize = 32;

/// And one more after so long.
const REFILL: Duration = Duration::from_secs(60);

/// The same is warned of at most so often.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The reason of the event that nobody uses the guard.
const BYPASSED: &str = "GuardBypassed";

/// No note is longer, in bytes: the API refuses more.
const LONGEST_NOTE: usize = 1024;

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Regarding {
    Node,
    /// A pod, and its container.
    Pod(PodRef, Option<String>),
}

/// An event to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewEvent {
    pub(crate) regarding: Regarding,
    /// Whether it is a warning, or that all is well again.
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) note: String,
    pub(crate) time: WallTime,
}

#[derive(Debug)]
pub(crate) struct Episodes {
    /// The trouble of the node.
    node: Option<Trouble>,
    /// The calls that are stuck, and whether that was told.
    stuck: BTreeMap<(Rpc, Id), Told>,
    /// What may become trouble, and when it was told.
    warned: BTreeMap<String, Instant>,
    queue: VecDeque<NewEvent>,
    left: u32,
    refilled: Instant,
    /// How many were left out.
    pub(crate) left_out: u64,
}

#[derive(Debug)]
struct Trouble {
    level: Level,
    since: Instant,
    is_told: bool,
    /// The cause that was told.
    cause: Option<String>,
}

/// How bad it is; worse within one episode is told too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Degraded,
    Guarding,
    LimitReached,
    Unhealthy,
}

#[derive(Debug)]
struct Told {
    pod: PodRef,
    container: Option<String>,
    since: Instant,
    is_told: bool,
}

impl Episodes {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            node: None,
            stuck: BTreeMap::new(),
            warned: BTreeMap::new(),
            queue: VecDeque::new(),
            left: BURST,
            refilled: now,
            left_out: 0,
        }
    }

    pub(crate) fn on_report(&mut self, report: &StatusReport, time: WallTime, now: Instant) {
        while self.left < BURST && now >= self.refilled + REFILL {
            self.left += 1;
            self.refilled += REFILL;
        }
        self.tell_of_the_node(report, time, now);
        self.tell_of_pods(report, time, now);
        self.tell_of_warnings(report, time, now);
        self.tell_of_a_bypassed_guard(&report.guard, time, now);
    }

    fn tell_of_warnings(&mut self, report: &StatusReport, time: WallTime, now: Instant) {
        self.warned.retain(|_, told| now < *told + DAY);
        for warning in &report.warnings {
            if self.warned.contains_key(&warning.cause) {
                continue;
            }
            let note = format!(
                "{} (confidence: {}): {}",
                warning.cause, warning.confidence, warning.sentence
            );
            // Whether there was room or not: tomorrow is early enough.
            self.tell(Regarding::Node, true, "EarlyWarning", note, time, now);
            self.warned.insert(warning.cause.clone(), now);
        }
    }

    fn tell_of_the_node(&mut self, report: &StatusReport, time: WallTime, now: Instant) {
        let health = &report.health;
        let level = match health.state {
            HealthState::Starting => return,
            HealthState::Healthy => None,
            HealthState::Unhealthy => Some(Level::Unhealthy),
            HealthState::Degraded if report.guard.limit_reached => Some(Level::LimitReached),
            HealthState::Degraded if health.reason == Reason::Guarding => Some(Level::Guarding),
            HealthState::Degraded => Some(Level::Degraded),
        };
        match (self.node.take(), level) {
            (None, None) => {}
            (Some(trouble), None) => {
                if trouble.is_told {
                    let lasted = seconds(now - trouble.since);
                    let note = format!("all pods are up to date again, after {lasted}");
                    self.tell(Regarding::Node, false, "AllSeen", note, time, now);
                }
            }
            (trouble, Some(level)) => {
                let is_news = trouble.as_ref().is_none_or(|it| level > it.level);
                let mut was = trouble.unwrap_or(Trouble {
                    level,
                    since: now,
                    is_told: false,
                    cause: None,
                });
                let is_told = is_news && {
                    let reason = match level {
                        Level::LimitReached => "GuardLimitReached",
                        _ => health.reason.as_str(),
                    };
                    let note = format!("{}: {}", health.state, health.message);
                    self.tell(Regarding::Node, true, reason, note, time, now)
                };
                let finding = report.finding.as_ref();
                if let Some(finding) = finding.filter(|it| was.cause.as_ref() != Some(&it.cause)) {
                    let bundle = finding.bundle.as_ref();
                    let bundle = bundle.map(|path| format!("; evidence saved in {path}"));
                    let note = format!(
                        "{} (confidence: {}): {}{}",
                        finding.cause,
                        finding.confidence,
                        finding.sentence,
                        bundle.unwrap_or_default()
                    );
                    self.tell(Regarding::Node, true, "Diagnosed", note, time, now);
                    was.cause = Some(finding.cause.clone());
                }
                self.node = Some(Trouble {
                    level: level.max(was.level),
                    is_told: is_told || was.is_told,
                    ..was
                });
            }
        }
    }

    fn tell_of_pods(&mut self, report: &StatusReport, time: WallTime, now: Instant) {
        let calls = report.stuck.iter().chain(&report.guard.culprits);
        let mut stuck = BTreeMap::<(Rpc, Id), &StuckCall>::new();
        for call in calls {
            if let (Some(id), Some(_)) = (&call.id, &call.pod) {
                stuck.entry((call.call, id.clone())).or_insert(call);
            }
        }
        for (key, told) in std::mem::take(&mut self.stuck) {
            if stuck.contains_key(&key) {
                self.stuck.insert(key, told);
            } else if told.is_told {
                let lasted = seconds(now - told.since);
                let (call, _) = &key;
                let note = format!("{call} no longer hangs, after {lasted}");
                let regarding = Regarding::Pod(told.pod, told.container);
                self.tell(regarding, false, "ContainerAnswers", note, time, now);
            }
        }
        for (key, call) in stuck {
            let (false, Some(pod)) = (self.stuck.contains_key(&key), &call.pod) else {
                continue;
            };
            let container = call.container.as_deref().map(str::to_owned);
            let age = Duration::from_secs_f64(call.since_seconds.clamp(0.0, 1e9));
            let what = match &container {
                Some(container) => format!("container {container} ({})", key.1),
                None => format!("the sandbox ({})", key.1),
            };
            let note = format!(
                "the container runtime has not answered {} of {what} for {}; other calls are \
                 answered",
                key.0,
                seconds(age),
            );
            let regarding = Regarding::Pod(pod.clone(), container.clone());
            let is_told = self.tell(regarding, true, "ContainerStuck", note, time, now);
            let told = Told {
                pod: pod.clone(),
                container,
                since: now.checked_sub(age).unwrap_or(now),
                is_told,
            };
            self.stuck.insert(key, told);
        }
    }

    /// A kubelet that was reconfigured or reinstalled goes past the guard without a word.
    fn tell_of_a_bypassed_guard(&mut self, guard: &GuardStatus, time: WallTime, now: Instant) {
        if !guard.is_bypassed() || self.warned.contains_key(BYPASSED) {
            return;
        }
        let note = "the kubelet does not use the guard: no client has asked it for lists for 10 \
                    minutes or longer; see --container-runtime-endpoint of the kubelet";
        self.tell(Regarding::Node, true, BYPASSED, note.to_owned(), time, now);
        self.warned.insert(BYPASSED.to_owned(), now);
    }

    /// Says whether there was room for it.
    fn tell(
        &mut self,
        regarding: Regarding,
        is_warning: bool,
        reason: &'static str,
        note: String,
        time: WallTime,
        now: Instant,
    ) -> bool {
        if self.left == 0 || self.queue.len() >= MOST_WAITING || !is_writable(&regarding) {
            self.left_out += 1;
            return false;
        }
        if self.left == BURST {
            self.refilled = now;
        }
        self.left -= 1;
        self.queue.push_back(NewEvent {
            regarding,
            is_warning,
            reason,
            note: shortened(&sentence(&note), LONGEST_NOTE),
            time,
        });
        true
    }

    /// The next event, which stays until it was written.
    pub(crate) fn next(&self) -> Option<&NewEvent> {
        self.queue.front()
    }

    /// The next event was written, or never will be.
    pub(crate) fn done(&mut self) {
        self.queue.pop_front();
    }
}

/// A runtime's names become part of a path: what is no name in Kubernetes is none there.
fn is_writable(regarding: &Regarding) -> bool {
    match regarding {
        Regarding::Node => true,
        Regarding::Pod(pod, _) => is_domain(&pod.namespace) && is_domain(&pod.name),
    }
}

/// Whole seconds, as people read them.
fn seconds(duration: Duration) -> GoDuration {
    GoDuration(Duration::from_secs(duration.as_secs()))
}
