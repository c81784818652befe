//! The events: one when a problem begins, one when its cause is found, and one when it ends, on the
//! Node and on each pod with a stuck container; and once a day one for each possible future problem.
//!
//! At most [`MAX_EVENTS_AT_ONCE`] new events are created at once, and then one a minute: further
//! events are left out, and counted. If the beginning is left out, so is the end. An event that
//! happens again within [`SERIES_ENDS_AFTER`] is not a new event: it is counted in the `series` of the
//! first one, as in client-go's recorder (tools/events/event_broadcaster.go).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::{Moment, WallTime};
use pleg::out::health::{HealthState, Reason, StuckCall};
use pleg::out::status_report::{GuardStatus, StatusReport};
use pleg::runtime::Rpc;
use pleg_text::GoDuration;
use tokio::time::Instant;

use crate::condition::sentence;
use crate::config::is_domain;
use crate::node_condition::HEARTBEAT;
use crate::summary::shortened;

/// The maximum number of events at once.
const MAX_EVENTS_AT_ONCE: u32 = 10;

/// The maximum number of events that wait for an unreachable API server.
const MAX_QUEUED_EVENTS: usize = 32;

/// The interval after which one more event is allowed.
const REFILL_INTERVAL: Duration = Duration::from_secs(60);

/// client-go's recorder ends a series after this time (`finishTime`).
const SERIES_ENDS_AFTER: Duration = Duration::from_secs(360);

/// The minimum interval between two warnings of the same cause.
const MIN_WARNING_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The reasons of the events that end a problem.
const ALL_SEEN: &str = "AllSeen";
const CONTAINER_ANSWERS: &str = "ContainerAnswers";

/// The reason of the event which reports that no kubelet uses the guard.
const BYPASSED: &str = "GuardBypassed";

/// The maximum length of a note in bytes: the API refuses longer ones.
const MAX_NOTE_BYTES: usize = 1024;

/// The object of an event.
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
    /// Whether it is a warning, or the end of a problem.
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    /// A hash that distinguishes the event from others with the same reason. The note cannot, because
    /// it contains ages.
    pub(crate) subject: u64,
    pub(crate) note: String,
    pub(crate) time: WallTime,
    /// If the event has happened again: how often, and when last.
    pub(crate) series: Option<(u32, WallTime)>,
}

impl NewEvent {
    fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.reason, it.subject);
        key(self) == key(other) && self.regarding == other.regarding
    }
}

/// An event that may happen again.
#[derive(Debug)]
struct RecentEvent {
    event: NewEvent,
    last: Instant,
    /// When the series was last queued to be written.
    written: Option<Instant>,
    /// Whether the series has changed since then.
    is_pending: bool,
}

#[derive(Debug)]
pub(crate) struct Episodes {
    /// The problem of the node.
    node: Option<NodeProblem>,
    /// The cause that was reported last: of a problem, or of a fault that no call shows.
    diagnosed: Option<String>,
    /// The calls that are stuck, and whether that was reported.
    stuck: BTreeMap<(Rpc, Id), Stuck>,
    /// Possible future problems, and when they were reported.
    warned: BTreeMap<String, Instant>,
    /// Queued events that may still recur. There are few.
    recent: Vec<RecentEvent>,
    queue: VecDeque<NewEvent>,
    /// How many more events may be created at once.
    left: u32,
    /// The time up to which `left` was refilled.
    refilled: Instant,
    /// The number of events that were left out.
    pub(crate) left_out: u64,
}

#[derive(Debug)]
struct NodeProblem {
    level: Level,
    since: Instant,
    is_reported: bool,
}

/// The severity. An increase within one episode is reported too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Degraded,
    Guarding,
    LimitReached,
    Unhealthy,
}

#[derive(Debug)]
struct Stuck {
    pod: PodRef,
    container: Option<String>,
    since: Instant,
    is_reported: bool,
}

impl Episodes {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            node: None,
            diagnosed: None,
            stuck: BTreeMap::new(),
            warned: BTreeMap::new(),
            recent: Vec::new(),
            queue: VecDeque::new(),
            left: MAX_EVENTS_AT_ONCE,
            refilled: now,
            left_out: 0,
        }
    }

    /// Queues the events that a report causes.
    pub(crate) fn on_report(&mut self, report: &StatusReport, now: Moment) {
        let instant = now.instant;
        while self.left < MAX_EVENTS_AT_ONCE && instant >= self.refilled + REFILL_INTERVAL {
            self.left += 1;
            self.refilled += REFILL_INTERVAL;
        }
        let may_recur = |it: &RecentEvent| it.is_pending || instant < it.last + SERIES_ENDS_AFTER;
        self.recent.retain(may_recur);
        self.report_node(report, now);
        self.report_pods(report, now);
        self.report_warnings(report, now);
        self.report_bypassed_guard(&report.guard, now);
        self.queue_series(instant);
    }

    fn report_warnings(&mut self, report: &StatusReport, now: Moment) {
        let instant = now.instant;
        self.warned
            .retain(|_, reported| instant < *reported + MIN_WARNING_INTERVAL);
        for warning in &report.warnings {
            if self.warned.contains_key(&warning.cause) {
                continue;
            }
            let note = format!(
                "{} (confidence: {}): {}",
                warning.cause, warning.confidence, warning.sentence
            );
            // A warning for which there is no room is reported tomorrow.
            let cause = hash(&warning.cause);
            self.queue(Regarding::Node, "EarlyWarning", cause, note, now);
            self.warned.insert(warning.cause.clone(), instant);
        }
    }

    fn report_node(&mut self, report: &StatusReport, now: Moment) {
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
            (Some(problem), None) => {
                if problem.is_reported {
                    let lasted = seconds(now.instant - problem.since);
                    let note = format!("all pods are up to date again, after {lasted}");
                    self.queue(Regarding::Node, ALL_SEEN, 0, note, now);
                }
            }
            (problem, Some(level)) => {
                let is_worse = problem.as_ref().is_none_or(|it| level > it.level);
                let was = problem.unwrap_or(NodeProblem {
                    level,
                    since: now.instant,
                    is_reported: false,
                });
                let is_reported = is_worse && {
                    let reason = match level {
                        Level::LimitReached => "GuardLimitReached",
                        _ => health.reason.as_str(),
                    };
                    let note = format!("{}: {}", health.state, health.message);
                    let subject = hash(&culprits(report));
                    self.queue(Regarding::Node, reason, subject, note, now)
                };
                self.node = Some(NodeProblem {
                    level: level.max(was.level),
                    is_reported: is_reported || was.is_reported,
                    ..was
                });
            }
        }
        self.report_cause(report, now);
    }

    fn report_cause(&mut self, report: &StatusReport, now: Moment) {
        let Some(finding) = &report.finding else {
            // While a problem lasts, its cause is reported once.
            self.diagnosed.take_if(|_| self.node.is_none());
            return;
        };
        if self.diagnosed.as_ref() == Some(&finding.cause) {
            return;
        }
        let bundle = finding.bundle.as_ref();
        let bundle = bundle.map(|path| format!("; evidence saved in {path}"));
        let note = format!(
            "{} (confidence: {}): {}{}",
            finding.cause,
            finding.confidence,
            finding.sentence,
            bundle.unwrap_or_default()
        );
        let subject = hash(&(&finding.cause, culprits(report)));
        self.queue(Regarding::Node, "Diagnosed", subject, note, now);
        self.diagnosed = Some(finding.cause.clone());
    }

    fn report_pods(&mut self, report: &StatusReport, now: Moment) {
        let mut stuck = BTreeMap::<(Rpc, Id), &StuckCall>::new();
        for call in stuck_calls(report) {
            if let (Some(id), Some(_)) = (&call.id, &call.pod) {
                stuck.entry((call.call, id.clone())).or_insert(call);
            }
        }
        for (key, known) in std::mem::take(&mut self.stuck) {
            if stuck.contains_key(&key) {
                self.stuck.insert(key, known);
            } else if known.is_reported {
                let lasted = seconds(now.instant - known.since);
                let (call, _) = &key;
                let note = format!("{call} no longer hangs, after {lasted}");
                let regarding = Regarding::Pod(known.pod, known.container);
                self.queue(regarding, CONTAINER_ANSWERS, hash(&key), note, now);
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
            let is_reported = self.queue(regarding, "ContainerStuck", hash(&key), note, now);
            let known = Stuck {
                pod: pod.clone(),
                container,
                since: now.instant.checked_sub(age).unwrap_or(now.instant),
                is_reported,
            };
            self.stuck.insert(key, known);
        }
    }

    /// Queues an event if the kubelet does not use the guard. A kubelet that was reconfigured or
    /// reinstalled bypasses the guard without an error.
    fn report_bypassed_guard(&mut self, guard: &GuardStatus, now: Moment) {
        if !guard.is_bypassed() || self.warned.contains_key(BYPASSED) {
            return;
        }
        let note = "the kubelet does not use the guard: no client has requested lists from it for \
                    10 minutes or longer; see --container-runtime-endpoint of the kubelet";
        self.queue(Regarding::Node, BYPASSED, 0, note.to_owned(), now);
        self.warned.insert(BYPASSED.to_owned(), now.instant);
    }

    /// Queues an event. Returns whether there was room for it.
    fn queue(
        &mut self,
        regarding: Regarding,
        reason: &'static str,
        subject: u64,
        note: String,
        now: Moment,
    ) -> bool {
        let event = NewEvent {
            regarding,
            is_warning: ![ALL_SEEN, CONTAINER_ANSWERS].contains(&reason),
            reason,
            subject,
            note: shortened(&sentence(&note), MAX_NOTE_BYTES),
            time: now.wall,
            series: None,
        };
        let mut recent = self.recent.iter_mut();
        if let Some(recent) = recent.find(|recent| recent.event.is_same(&event)) {
            let count = recent.event.series.map_or(1, |(count, _)| count);
            recent.event.series = Some((count.saturating_add(1), now.wall));
            recent.last = now.instant;
            recent.is_pending = true;
            return true;
        }
        let is_full = self.left == 0 || self.queue.len() >= MAX_QUEUED_EVENTS;
        if is_full || !is_writable(&event.regarding) {
            self.left_out += 1;
            return false;
        }
        if self.left == MAX_EVENTS_AT_ONCE {
            self.refilled = now.instant;
        }
        self.left -= 1;
        self.recent.push(RecentEvent {
            event: event.clone(),
            last: now.instant,
            written: None,
            is_pending: false,
        });
        self.queue.push_back(event);
        true
    }

    /// Forgets recent events about the Node, which was recreated: events about the earlier object are
    /// not shown with it.
    pub(crate) fn on_new_node(&mut self) {
        self.recent
            .retain(|it| it.event.regarding != Regarding::Node);
    }

    /// Queues the series of events that happened again: the first time at once, then at the
    /// interval of a condition's heartbeat.
    fn queue_series(&mut self, now: Instant) {
        let pending = self.recent.iter_mut().filter(|recent| {
            recent.is_pending && recent.written.is_none_or(|at| now >= at + HEARTBEAT)
        });
        for recent in pending {
            let is_it = |event: &NewEvent| event.is_same(&recent.event);
            match self.queue.iter().position(is_it) {
                Some(at) => self.queue[at].series = recent.event.series,
                None if self.queue.len() < MAX_QUEUED_EVENTS => {
                    self.queue.push_back(recent.event.clone());
                }
                None => continue,
            }
            recent.is_pending = false;
            recent.written = Some(now);
        }
    }

    /// The next event. It remains queued until it is written.
    pub(crate) fn next(&self) -> Option<&NewEvent> {
        self.queue.front()
    }

    /// Removes an event that was written, or never will be. If it has happened again meanwhile, it
    /// remains queued.
    pub(crate) fn done(&mut self, event: &NewEvent) {
        if self.queue.front() == Some(event) {
            self.queue.pop_front();
        }
    }
}

/// The stuck calls of the agent and of its guard.
fn stuck_calls(report: &StatusReport) -> impl Iterator<Item = &StuckCall> {
    report.stuck.iter().chain(&report.guard.culprits)
}

/// The ids in the stuck calls.
fn culprits(report: &StatusReport) -> BTreeSet<&Option<Id>> {
    stuck_calls(report).map(|call| &call.id).collect()
}

pub(crate) fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Whether an event about this object can be written. Names from a runtime become part of a path, so
/// names that are invalid in Kubernetes are refused.
fn is_writable(regarding: &Regarding) -> bool {
    match regarding {
        Regarding::Node => true,
        Regarding::Pod(pod, _) => is_domain(&pod.namespace) && is_domain(&pod.name),
    }
}

/// The duration in whole seconds.
fn seconds(duration: Duration) -> GoDuration {
    GoDuration(Duration::from_secs(duration.as_secs()))
}
