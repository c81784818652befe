//! The ledger of calls: how many may be outstanding, which of them are stuck, and whether the
//! runtime answers at all. The engine and the guard each use one.
//!
//! ```text
//!   has_room? --> begin --> outstanding --> answered, failed or lost: the window opens
//!                               |
//!                               \-- overdue, while later calls are answered: stuck
//! ```
//!
//! **At most one call per (RPC, id) is outstanding.** A call has no deadline: a stuck call stays
//! outstanding and ends when the runtime answers or the connection is lost. So a runtime that
//! answers nothing holds at most [`Places::outstanding_calls`], and the window shrinks
//! meanwhile. A call leaves the window only while it is stuck *and later calls of its kind are
//! answered*; up to [`STUCK_FACTOR`] windows may be outstanding in all.
//!
//! ```
//! use std::time::Duration;
//!
//! use cri::Rpc;
//! use base::About;
//! use base::ledger::{Ledger, Places};
//! use tokio::time::Instant;
//!
//! let (now, second) = (Instant::now(), Duration::from_secs(1));
//! let mut ledger = Ledger::new(Places::default(), now);
//! ledger.begin(About::node(Rpc::ListContainers), now);
//! ledger.pass(now + second);
//! assert_eq!(ledger.unresponsive_since(), Some(now));
//!
//! ledger.answered(&(Rpc::ListContainers, None), now + 2 * second);
//! assert_eq!(ledger.unresponsive_since(), None);
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

mod evidence;
pub mod limits;
mod liveness;

pub use evidence::percentile_95;

use evidence::Evidence;
use liveness::expires_as_witness_at;

use crate::id::{Id, PodUid};
use crate::{About, OutstandingCall};
use limits::{
    MAX_STATUS_OVERDUE, OVERDUE_AT_LATEST, OVERDUE_FACTOR, RESERVED_CALLS, SLOW_AFTER,
    SMALLEST_WINDOW, STUCK_AFTER_LATER_ANSWERS, STUCK_FACTOR, SUSPECT,
};

/// What identifies a call. At most one call of each key is outstanding.
pub type Key = (Rpc, Option<Id>);

/// The calls about one id.
const STATUS_CALLS: [Rpc; 2] = [Rpc::ContainerStatus, Rpc::PodSandboxStatus];

/// What bounds a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// How many calls may be outstanding at once.
    pub outstanding_calls: usize,
    /// When a status call counts as overdue if any other call is answered.
    pub status_overdue: Duration,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            outstanding_calls: 64,
            status_overdue: Duration::from_secs(5),
        }
    }
}

/// The outstanding calls, and what the answers show about the runtime.
#[derive(Clone, Debug)]
pub struct Ledger {
    max_outstanding: usize,
    window: usize,
    /// When the window last grew or shrank.
    window_changed: Instant,
    /// When a call was last answered, or was sent while no other call was outstanding.
    last_answer: Instant,
    /// How long the call took that was answered then, unless others overtook it.
    last_took: Duration,
    /// The end of the last stall: a time of at least [`SUSPECT`] without any answer.
    stall_ended: Option<Instant>,
    /// When a call was last answered with an error.
    last_failure: Option<Instant>,
    /// Whether the last call to end found no connection, or lost it.
    is_unreachable: bool,
    status_overdue: Duration,
    outstanding: BTreeMap<Key, Entry>,
    evidence: Evidence,
}

#[derive(Clone, Debug)]
struct Entry {
    about: About,
    /// When the call was wanted. The caller identifies the call by this time.
    since: Instant,
    /// When the call was sent; `None` while it is postponed.
    sent: Option<Instant>,
    /// Since when an answer is awaited: the time of sending, or the current time while the call is
    /// postponed.
    awaited_since: Instant,
    /// Whether the answer is used as the state of the requested id.
    is_observation: bool,
    /// The other callers that want the same call and wait for its end: one id may be listed in two
    /// pods.
    also_wanted_by: Vec<About>,
    /// The evidence that the call is stuck, and since when it exists.
    stuck: Option<(Stuck, Instant)>,
}

/// The evidence that a call is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// At least three later calls of its kind were answered: its container is the culprit.
    Outlier,
    /// Later calls are answered, but none of its kind.
    WithItsKind,
}

impl Entry {
    /// Whether the call does not count towards the window.
    fn is_outlier(&self) -> bool {
        matches!(self.stuck, Some((Stuck::Outlier, _)))
    }
}

impl Ledger {
    /// A ledger without calls, and with an open window.
    pub fn new(places: Places, now: Instant) -> Self {
        let max_outstanding = places
            .outstanding_calls
            .max(SMALLEST_WINDOW + RESERVED_CALLS);
        Self {
            max_outstanding,
            window: max_outstanding,
            window_changed: now,
            last_answer: now,
            last_took: Duration::ZERO,
            stall_ended: None,
            last_failure: None,
            is_unreachable: false,
            status_overdue: places.status_overdue,
            outstanding: BTreeMap::new(),
            evidence: Evidence::default(),
        }
    }

    /// Whether one more status call may be sent.
    pub fn has_room(&self) -> bool {
        // The usual case: all calls fit into the window, so the stuck calls need not be counted.
        if self.outstanding.len() + RESERVED_CALLS < self.window {
            return true;
        }
        let (total, in_window) = self.load();
        total + RESERVED_CALLS < self.max_outstanding * STUCK_FACTOR
            && in_window + RESERVED_CALLS < self.window
    }

    /// Whether a witness may be sent. It may use a place that status calls leave free.
    pub fn has_room_for_witness(&self) -> bool {
        let (total, in_window) = self.load();
        total + RESERVED_CALLS <= self.max_outstanding * STUCK_FACTOR
            && in_window + RESERVED_CALLS <= self.max_outstanding
    }

    /// How many calls are outstanding, and how many of them count towards the window.
    fn load(&self) -> (usize, usize) {
        let sent = || self.sent();
        let total = sent().count();
        let stuck = sent().filter(|(_, entry, _)| entry.is_outlier()).count();
        (total, total - stuck)
    }

    /// Whether any call is outstanding. A postponed call is not.
    pub fn has_outstanding_calls(&self) -> bool {
        self.sent().next().is_some()
    }

    /// Whether this call is outstanding or postponed.
    pub fn is_outstanding(&self, key: &Key) -> bool {
        self.outstanding.contains_key(key)
    }

    /// When this call was wanted, if it is outstanding or postponed.
    pub fn wanted_since(&self, key: &Key) -> Option<Instant> {
        self.outstanding.get(key).map(|entry| entry.since)
    }

    /// When this call for the whole node was sent, if it is outstanding.
    pub fn node_call(&self, call: Rpc) -> Option<Instant> {
        self.wanted_since(&(call, None))
    }

    /// Whether this call is outstanding, and its answer will be used as the state of its id.
    pub fn is_observation(&self, key: &Key) -> bool {
        let entry = self.outstanding.get(key);
        entry.is_some_and(|entry| entry.is_observation)
    }

    /// Since when a call for the whole node has been waiting for its answer.
    pub fn node_call_waits(&self, call: Rpc) -> Option<Instant> {
        let entry = self.outstanding.get(&(call, None));
        entry.map(|entry| entry.awaited_since)
    }

    /// Adds a call that is sent now. Its answer will be used as the state of its id.
    pub fn begin(&mut self, about: About, now: Instant) {
        self.begin_as(about, true, now);
    }

    /// Adds a call that was sent at `since`, while another call with its key was outstanding. That
    /// call has just ended.
    pub fn take_over(&mut self, about: About, since: Instant, now: Instant) {
        self.note_first_call(now);
        self.insert(about, true, since, Some(since));
    }

    /// Adds a call that is sent now. If it is no observation, its answer is used for something
    /// else, such as a PID.
    pub fn begin_as(&mut self, about: About, is_observation: bool, now: Instant) {
        self.note_first_call(now);
        self.insert(about, is_observation, now, Some(now));
    }

    /// Adds a call that is not sent yet.
    pub fn postpone(&mut self, about: About, is_observation: bool, now: Instant) {
        self.insert(about, is_observation, now, None);
    }

    /// Notes that a postponed call is sent now.
    pub fn send_postponed(&mut self, key: &Key, now: Instant) {
        self.note_first_call(now);
        if let Some(entry) = self.outstanding.get_mut(key) {
            entry.sent = Some(now);
            entry.awaited_since = now;
        }
    }

    /// The calls that were sent, with the time of sending.
    fn sent(&self) -> impl Iterator<Item = (&Key, &Entry, Instant)> {
        let all = self.outstanding.iter();
        all.filter_map(|(key, entry)| Some((key, entry, entry.sent?)))
    }

    /// The time before this call does not count as a time without answers: no call was outstanding.
    fn note_first_call(&mut self, now: Instant) {
        if !self.has_outstanding_calls() {
            self.window_changed = now;
            self.last_answer = now;
        }
    }

    fn insert(
        &mut self,
        about: About,
        is_observation: bool,
        since: Instant,
        sent: Option<Instant>,
    ) {
        let key = (about.call, about.id.clone());
        let entry = Entry {
            about,
            since,
            sent,
            awaited_since: since,
            is_observation,
            also_wanted_by: Vec::new(),
            stuck: None,
        };
        self.outstanding.insert(key, entry);
    }

    /// Notes another caller that wants an outstanding call and waits for its end.
    pub fn wait_behind(&mut self, key: &Key, about: &About) {
        if let Some(entry) = self.outstanding.get_mut(key)
            && entry.about.pod != about.pod
            && entry
                .also_wanted_by
                .iter()
                .all(|other| other.pod != about.pod)
        {
            entry.also_wanted_by.push(about.clone());
        }
    }

    /// Notes that a call was answered with an error. Returns what it was about.
    pub fn failed(&mut self, key: &Key, now: Instant) -> Option<About> {
        let entry = self.end(key, now)?;
        self.evidence.failed(entry.since);
        self.last_failure = Some(now);
        Some(entry.about)
    }

    fn end(&mut self, key: &Key, now: Instant) -> Option<Entry> {
        let entry = self.outstanding.remove(key)?;
        self.is_unreachable = false;
        if now >= self.last_answer + SUSPECT {
            self.stall_ended = Some(now);
        }
        self.last_answer = now;
        // If later calls were answered first, this call was slow for a reason of its own.
        if !self.evidence.has_answered_after(entry.since) {
            self.last_took = now.duration_since(entry.awaited_since);
        }
        self.window = (self.window * 2).min(self.max_outstanding);
        self.window_changed = now;
        Some(entry)
    }

    /// Notes that a call was answered successfully. Returns what it was about.
    pub fn answered(&mut self, key: &Key, now: Instant) -> Option<About> {
        let entry = self.end(key, now)?;
        self.evidence.answered(key.0, entry.since);
        // A stuck call, or a call during a stall, shows nothing about the usual duration.
        let was_stalled = self.stall_ended.is_some_and(|end| entry.since < end);
        let took = now.duration_since(entry.awaited_since);
        if entry.stuck.is_none() && key.1.is_some() && !was_stalled {
            let pod = entry.about.pod.as_ref().map(|pod| &pod.uid);
            self.evidence.measured(key.0, pod, took, now);
        }
        match entry.stuck {
            None if took < SUSPECT => self.evidence.note_prompt(key),
            // It is slow each time.
            None if self.evidence.own_time(key).is_zero() => {}
            // The call was only slow, so its id needs a longer limit. If it took longer than that,
            // there was a fault, which shows nothing about the next call.
            _ if took < OVERDUE_AT_LATEST.max(self.status_overdue) => {
                self.evidence.note_slow(key.clone(), took, now);
            }
            _ => {}
        }
        Some(entry.about)
    }

    /// Notes that the connection was lost before the answer. Returns what the call was about.
    pub fn lost(&mut self, key: &Key) -> Option<About> {
        self.is_unreachable = true;
        Some(self.outstanding.remove(key)?.about)
    }

    /// Updates which calls are stuck, and shrinks the window while nothing is answered.
    pub fn pass(&mut self, now: Instant) {
        for entry in self.outstanding.values_mut() {
            if entry.sent.is_none() {
                entry.awaited_since = now;
            }
        }
        while self.has_outstanding_calls() && now >= self.window_changed + SUSPECT {
            self.window_changed += SUSPECT;
            self.window = (self.window / 2).max(SMALLEST_WINDOW + RESERVED_CALLS);
        }
        self.evidence.drop_outdated(now);
        let soonest = SUSPECT.min(self.status_overdue);
        let is_suspect =
            |entry: &Entry| !entry.is_outlier() && now >= entry.awaited_since + soonest;
        if !self.outstanding.values().any(is_suspect) {
            return;
        }
        let not_stuck = self.not_stuck();
        for ((call, id), entry) in &mut self.outstanding {
            if id.is_none() || !is_suspect(entry) {
                continue;
            }
            let usual = self.evidence.usual(*call, entry.since);
            let age = now.duration_since(entry.awaited_since);
            // An answer must be to a call from the second half of this call's time. An earlier one
            // may be the last answer before the runtime became unresponsive.
            let later = entry.awaited_since + age / 2;
            let own = self.evidence.own_time(&(*call, id.clone()));
            if age >= suspect_after(usual).max(own * 3 / 2)
                && self.evidence.has_success_of_kind_since(*call, later)
                && self.evidence.answers_since(*call, entry.since) >= STUCK_AFTER_LATER_ANSWERS
            {
                entry.stuck = Some((Stuck::Outlier, now));
            } else if entry.stuck.is_none()
                && age >= overdue_after(usual, self.status_overdue, not_stuck[call] == 1)
                && self.evidence.has_success_since(later)
            {
                entry.stuck = Some((Stuck::WithItsKind, now));
            }
        }
    }

    /// How many status calls of each kind are outstanding and not known to be stuck.
    fn not_stuck(&self) -> BTreeMap<Rpc, usize> {
        let mut waiting = BTreeMap::new();
        for ((call, id), entry, _) in self.sent() {
            if id.is_some() && entry.stuck.is_none() {
                *waiting.entry(*call).or_default() += 1;
            }
        }
        waiting
    }

    /// The stuck status calls, one entry for each pod that waits for the call. A call may outlive
    /// its pod: a pod that `is_known` denies is reported only if no known pod waits for the call.
    pub fn stuck(
        &self,
        is_known: impl Fn(&PodUid) -> bool,
    ) -> impl Iterator<Item = OutstandingCall> {
        let stuck = self.outstanding.values();
        let stuck = stuck.filter(|entry| entry.stuck.is_some());
        stuck.flat_map(move |entry| {
            let of_known = |about: &&About| about.pod.as_ref().is_none_or(|pod| is_known(&pod.uid));
            let abouts = std::iter::once(&entry.about).chain(&entry.also_wanted_by);
            let mut reported: Vec<About> = abouts.filter(of_known).cloned().collect();
            // The pod of an entry may have been unknown when the call was sent.
            if reported.iter().any(|about| about.pod.is_some()) {
                reported.retain(|about| about.pod.is_some());
            }
            if reported.is_empty() {
                reported.push(entry.about.clone());
            }
            let since = entry.sent.unwrap_or(entry.since);
            reported
                .into_iter()
                .map(move |about| OutstandingCall { about, since })
        })
    }

    /// Whether this status call is stuck.
    pub fn is_stuck(&self, key: &Key) -> bool {
        let entry = self.outstanding.get(key);
        entry.is_some_and(|entry| entry.stuck.is_some())
    }

    /// Since when this call is known to be stuck while later calls of its kind are answered. `None`
    /// if it is not overdue by the usual duration of now: the whole runtime may have become slow
    /// meanwhile. After a stall of the whole runtime its oldest calls may be answered last, so a
    /// caller should wait a moment before it relies on this.
    pub fn stuck_alone_since(&self, key: &Key, now: Instant) -> Option<Instant> {
        let entry = self.outstanding.get(key)?;
        let usual = self.evidence.usual(key.0, entry.since);
        match entry.stuck? {
            (Stuck::Outlier, since) if now >= entry.awaited_since + usual * OVERDUE_FACTOR => {
                Some(since)
            }
            (Stuck::Outlier | Stuck::WithItsKind, _) => None,
        }
    }

    /// All outstanding calls.
    pub fn outstanding(&self) -> impl Iterator<Item = OutstandingCall> {
        self.sent().map(|(_, entry, sent)| OutstandingCall {
            about: entry.about.clone(),
            since: sent,
        })
    }

    /// When the state of the ledger next changes if no call ends.
    pub fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.outstanding.iter();
        let waiting = waiting.filter(|((_, id), entry)| {
            id.is_some() && entry.stuck.is_none() && entry.sent.is_some()
        });
        let soonest = SUSPECT.min(self.status_overdue);
        let next_steps = waiting.filter_map(|((call, _), entry)| {
            if now < entry.awaited_since + soonest {
                return Some(entry.awaited_since + soonest);
            }
            let usual = self.evidence.usual(*call, entry.since);
            let own = self.evidence.own_time(&(*call, entry.about.id.clone()));
            let steps = [
                SUSPECT,
                suspect_after(usual),
                own * 3 / 2,
                OVERDUE_AT_LATEST,
                overdue_after(usual, self.status_overdue, true),
                overdue_after(usual, self.status_overdue, false),
            ];
            let steps = steps.map(|step| entry.awaited_since + step);
            let last = self.last_sent(*call);
            let steps = steps
                .into_iter()
                .chain(last.map(|last| expires_as_witness_at(entry, last)));
            steps.filter(|time| *time > now).min()
        });
        let witness = self.last_failure.map(|failed| failed + SLOW_AFTER);
        let witness = witness.filter(|_| self.has_outstanding_calls());
        let shrinks =
            self.has_outstanding_calls() && self.window > SMALLEST_WINDOW + RESERVED_CALLS;
        let shrinks = shrinks.then(|| self.window_changed + SUSPECT);
        let others = shrinks.into_iter().chain(witness);
        let others = others.chain(self.sign_of_life_at());
        next_steps.chain(others).filter(|time| *time > now).min()
    }
}

/// How long a call may take while later calls of its kind are answered.
fn suspect_after(usual: Duration) -> Duration {
    (usual * OVERDUE_FACTOR).clamp(SUSPECT, MAX_STATUS_OVERDUE)
}

/// How long a call may take while only calls of other kinds are answered. Twice as long if several
/// calls of its kind are outstanding: then the kind is probably slow.
fn overdue_after(usual: Duration, overdue: Duration, is_only_one: bool) -> Duration {
    let least = if is_only_one { overdue } else { overdue * 2 };
    (usual * 2).clamp(least, MAX_STATUS_OVERDUE.max(least))
}
