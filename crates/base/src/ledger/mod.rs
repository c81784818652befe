//! The ledger of calls: how many may be outstanding, which of them are stuck, and whether the
//! runtime answers at all. The engine and the guard each use one.
//!
//! ```text
//!   has_room? --> begin --> outstanding --> answered, failed or lost: the window opens
//!                               |
//!                               \-- overdue, while later calls are answered: stuck
//! ```
//!
//! **At most one call per (RPC, id) is outstanding.** A call has no deadline here: a stuck call stays
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
//! ledger.advance(now + second);
//! assert_eq!(ledger.unresponsive_since(), Some(now));
//!
//! ledger.answered(&(Rpc::ListContainers, None), now + 2 * second);
//! assert_eq!(ledger.unresponsive_since(), None);
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

mod entry;
mod evidence;
pub mod limits;
mod liveness;
mod stuck;
mod window;

pub use evidence::percentile_95;

use entry::Entry;
use evidence::Evidence;
use window::Window;

use crate::id::Id;
use crate::{About, OutstandingCall};
use limits::{OVERDUE_AT_LATEST, RESERVED_CALLS, STUCK_FACTOR, SUSPECT_AFTER};

/// What identifies a call. At most one call of each key is outstanding.
pub type Key = (Rpc, Option<Id>);

/// The calls about one id.
const STATUS_CALLS: [Rpc; 2] = [Rpc::ContainerStatus, Rpc::PodSandboxStatus];

/// The configured limits of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// How many calls may be outstanding at once.
    pub outstanding_calls: usize,
    /// After which time a status call counts as overdue if any other call is answered.
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
    window: Window,
    /// When a call was last answered, or was sent while no other call was outstanding.
    last_answer: Instant,
    /// How long the last answered call took. Calls that were overtaken by later ones do not count.
    last_took: Duration,
    /// The end of the last stall: a time of at least [`SUSPECT_AFTER`] without any answer.
    stall_ended: Option<Instant>,
    /// When a call was last answered with an error.
    last_failure: Option<Instant>,
    /// Whether the last call to end found no connection, or lost it.
    is_unreachable: bool,
    status_overdue: Duration,
    outstanding: BTreeMap<Key, Entry>,
    evidence: Evidence,
}

impl Ledger {
    /// A ledger without calls, and with an open window.
    pub fn new(places: Places, now: Instant) -> Self {
        Self {
            window: Window::new(places.outstanding_calls, now),
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
        if self.outstanding.len() + RESERVED_CALLS < self.window.size() {
            return true;
        }
        let (statuses, in_window) = self.load();
        statuses + RESERVED_CALLS < self.window.max() * STUCK_FACTOR
            && in_window + RESERVED_CALLS < self.window.size()
    }

    /// Whether a witness may be sent. It may use a place that status calls leave free.
    pub fn has_room_for_witness(&self) -> bool {
        let (statuses, in_window) = self.load();
        statuses + RESERVED_CALLS <= self.window.max() * STUCK_FACTOR
            && in_window + RESERVED_CALLS <= self.window.max()
    }

    /// How many status calls are outstanding, and how many of them count towards the window. Lists and
    /// `Version` have places of their own.
    fn load(&self) -> (usize, usize) {
        let statuses = || self.sent().filter(|((_, id), ..)| id.is_some());
        let stuck = statuses().filter(|(_, entry, _)| entry.is_outlier());
        let (all, stuck) = (statuses().count(), stuck.count());
        (all, all - stuck)
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

    /// Adds a call that is sent now. Its answer will be used as the state of its id.
    pub fn begin(&mut self, about: About, now: Instant) {
        self.begin_as(about, true, now);
    }

    /// Adds a call that was sent at `since`, while another call with the same key was outstanding.
    /// The other call has just ended.
    pub fn take_over(&mut self, about: About, since: Instant, now: Instant) {
        self.note_first_call(now);
        self.insert(about, true, since, Some(since));
    }

    /// Adds a call that is sent now. If it is not an observation, its answer is used for something
    /// else, such as a PID.
    pub fn begin_as(&mut self, about: About, is_observation: bool, now: Instant) {
        self.note_first_call(now);
        self.insert(about, is_observation, now, Some(now));
    }

    /// Adds a call that is not sent yet.
    pub fn postpone(&mut self, about: About, is_observation: bool, now: Instant) {
        self.insert(about, is_observation, now, None);
    }

    /// Records that a postponed call is sent now.
    pub fn send_postponed(&mut self, key: &Key, now: Instant) {
        self.note_first_call(now);
        if let Some(entry) = self.outstanding.get_mut(key) {
            entry.sent = Some(now);
        }
    }

    /// The calls that were sent, with the time of sending.
    fn sent(&self) -> impl Iterator<Item = (&Key, &Entry, Instant)> {
        let all = self.outstanding.iter();
        all.filter_map(|(key, entry)| Some((key, entry, entry.sent?)))
    }

    /// The outstanding and the postponed status calls.
    fn statuses(&self) -> impl Iterator<Item = (Rpc, &Entry)> {
        let all = self.outstanding.iter();
        let statuses = all.filter(|((_, id), _)| id.is_some());
        statuses.map(|((call, _), entry)| (*call, entry))
    }

    /// If no call is outstanding, the time before `now` does not count as time without answers.
    fn note_first_call(&mut self, now: Instant) {
        if !self.has_outstanding_calls() {
            self.window.note_first_call(now);
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
            is_observation,
            also_wanted_by: Vec::new(),
            stuck: None,
        };
        self.outstanding.insert(key, entry);
    }

    /// Records that the caller of `about` wants a call that is already outstanding, and waits for its
    /// end.
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

    /// Ends a call that was answered with an error. Returns what it was about.
    pub fn failed(&mut self, key: &Key, now: Instant) -> Option<About> {
        let entry = self.end(key, now)?;
        self.evidence.failed(entry.since);
        self.last_failure = Some(now);
        Some(entry.about)
    }

    fn end(&mut self, key: &Key, now: Instant) -> Option<Entry> {
        let entry = self.outstanding.remove(key)?;
        self.is_unreachable = false;
        if now >= self.last_answer + SUSPECT_AFTER {
            self.stall_ended = Some(now);
        }
        self.last_answer = now;
        // If later calls were answered first, this call was slow for a reason of its own.
        if !self.evidence.has_answered_after(entry.since) {
            self.last_took = entry.age(now);
        }
        self.window.grow(now);
        Some(entry)
    }

    /// Ends a call that was answered successfully. Returns what it was about.
    pub fn answered(&mut self, key: &Key, now: Instant) -> Option<About> {
        let entry = self.end(key, now)?;
        self.evidence.answered(key.0, entry.since);
        // A stuck call, or a call during a stall, shows nothing about the usual duration.
        let was_stalled = self.stall_ended.is_some_and(|end| entry.since < end);
        let took = entry.age(now);
        if entry.stuck.is_none() && key.1.is_some() && !was_stalled {
            let pod = entry.about.pod.as_ref().map(|pod| &pod.uid);
            self.evidence.measured(key.0, pod, took, now);
        }
        match entry.stuck {
            None if took < SUSPECT_AFTER => self.evidence.note_prompt(key),
            // One slow answer does not show that this id is always slow.
            None if self.evidence.own_time(key).is_zero() => {}
            // The call was only slow, so its id needs a longer limit. If it took longer than the
            // configured limit, there was a fault, which shows nothing about the next call.
            _ if took < OVERDUE_AT_LATEST.max(self.status_overdue) => {
                self.evidence.note_slow(key.clone(), took, now);
            }
            _ => {}
        }
        Some(entry.about)
    }

    /// Ends a call whose connection was lost before the answer. Returns what it was about.
    pub fn lost(&mut self, key: &Key) -> Option<About> {
        self.is_unreachable = true;
        self.cancelled(key)
    }

    /// Ends a call that its caller does not need any more, which shows nothing about the runtime. Returns
    /// what it was about.
    pub fn cancelled(&mut self, key: &Key) -> Option<About> {
        Some(self.outstanding.remove(key)?.about)
    }

    /// All outstanding calls.
    pub fn outstanding(&self) -> impl Iterator<Item = OutstandingCall> {
        self.sent().map(|(_, entry, sent)| OutstandingCall {
            about: entry.about.clone(),
            since: sent,
        })
    }
}
