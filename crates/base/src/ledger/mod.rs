//! The ledger of calls: how many may be outstanding, which of them are stuck, and whether the runtime
//! answers at all. The guard uses it too.
//!
//! ```text
//!   has_room? --> begin --> outstanding --> end: the window opens, the answer is evidence
//!                               |
//!                               \-- silent while others, asked later, are answered: stuck, named
//! ```
//!
//! **At most one call per (RPC, id) is ever outstanding.** A call has no deadline: one that
//! is stuck stays outstanding, alone, and ends when the runtime answers or the connection is
//! gone. So a wedged runtime holds at most [`Places::outstanding_calls`], and while
//! nothing answers the window shrinks. Only calls that are stuck *while others of their kind
//! are answered* give their place to others, up to [`STUCK_FACTOR`] windows in all.
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
//! assert_eq!(ledger.silent_since(), Some(now));
//!
//! ledger.answered(&(Rpc::ListContainers, None), now + 2 * second);
//! assert_eq!(ledger.silent_since(), None);
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
    LATE, LONGEST_STATUS, RESERVED, SLOW, SMALLEST_WINDOW, STUCK_FACTOR, SUSPECT, TIMES_USUAL,
    WITNESSES,
};

/// By what calls are told apart: of the same, one at most is outstanding.
pub type Key = (Rpc, Option<Id>);

/// What is asked of one id.
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

/// The calls that are outstanding now.
#[derive(Clone, Debug)]
pub struct Ledger {
    most: usize,
    open: usize,
    /// When the window last opened or shrank.
    moved: Instant,
    /// When something was last answered, or asked while nothing else was outstanding.
    answered: Instant,
    /// How long that had taken.
    took: Duration,
    /// The end of the last time in which nothing was answered for a while.
    stalled: Option<Instant>,
    /// When a call last failed.
    failed: Option<Instant>,
    /// The last call to end has lost its connection, or found none.
    is_away: bool,
    status_overdue: Duration,
    outstanding: BTreeMap<Key, Entry>,
    evidence: Evidence,
}

#[derive(Clone, Debug)]
struct Entry {
    about: About,
    /// When it was wanted, by which its wanter knows it.
    since: Instant,
    /// When it was made: the same, and later if it had to wait for its turn; `None` while it does.
    made: Option<Instant>,
    /// Since when it has been waited for: the same, and now while it has to wait for its turn.
    waits: Instant,
    /// Its answer is taken for how it is with what it asks for.
    is_look: bool,
    /// Who else wants to ask the same, and waits for its end: one id in two pods.
    behind: Vec<About>,
    /// How, and since when that is known.
    stuck: Option<(Stuck, Instant)>,
}

/// How it is known that a call is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// Others of its kind are answered.
    Alone,
    /// The runtime answers, but no others of its kind.
    WithItsKind,
}

impl Entry {
    fn is_alone(&self) -> bool {
        matches!(self.stuck, Some((Stuck::Alone, _)))
    }
}

impl Ledger {
    /// Nothing is outstanding, and the window is open.
    pub fn new(places: Places, now: Instant) -> Self {
        let most = places.outstanding_calls.max(SMALLEST_WINDOW + RESERVED);
        Self {
            most,
            open: most,
            moved: now,
            answered: now,
            took: Duration::ZERO,
            stalled: None,
            failed: None,
            is_away: false,
            status_overdue: places.status_overdue,
            outstanding: BTreeMap::new(),
            evidence: Evidence::default(),
        }
    }

    /// Whether one more status call may be made.
    pub fn has_room(&self) -> bool {
        // As is usual; the rest need not be counted.
        if self.outstanding.len() + RESERVED < self.open {
            return true;
        }
        let (total, in_window) = self.load();
        total + RESERVED < self.most * STUCK_FACTOR && in_window + RESERVED < self.open
    }

    /// Whether a witness may be called, although all other places may be taken.
    pub fn has_room_for_witness(&self) -> bool {
        let (total, in_window) = self.load();
        total + RESERVED <= self.most * STUCK_FACTOR && in_window + RESERVED <= self.most
    }

    /// How many calls are outstanding, and how many of them take a place in the window.
    fn load(&self) -> (usize, usize) {
        let made = || self.made();
        let total = made().count();
        let stuck = made().filter(|(_, entry, _)| entry.is_alone()).count();
        (total, total - stuck)
    }

    /// Whether any call is outstanding. One that is still to be made is not.
    pub fn awaits_answers(&self) -> bool {
        self.made().next().is_some()
    }

    /// Whether this call is outstanding, or waits for its turn.
    pub fn is_outstanding(&self, key: &Key) -> bool {
        self.outstanding.contains_key(key)
    }

    /// When this call was made, if it is outstanding.
    pub fn asked(&self, key: &Key) -> Option<Instant> {
        self.outstanding.get(key).map(|entry| entry.since)
    }

    /// The same of a call for the whole node.
    pub fn node_call(&self, call: Rpc) -> Option<Instant> {
        self.asked(&(call, None))
    }

    /// Whether this call is outstanding, and its answer is taken for how it is with its id.
    pub fn is_look(&self, key: &Key) -> bool {
        let entry = self.outstanding.get(key);
        entry.is_some_and(|entry| entry.is_look)
    }

    /// Since when a call for the whole node has been waited for.
    pub fn node_call_waits(&self, call: Rpc) -> Option<Instant> {
        let entry = self.outstanding.get(&(call, None));
        entry.map(|entry| entry.waits)
    }

    /// A call is made whose answer is taken for how it is with what it asks for.
    pub fn begin(&mut self, about: About, now: Instant) {
        self.begin_as(about, true, now);
    }

    /// The same of one that was made at `since`, while another of its key was outstanding, which
    /// has ended now.
    pub fn take_over(&mut self, about: About, since: Instant, now: Instant) {
        self.note_first(now);
        self.insert(about, true, since, Some(since));
    }

    /// A call is made, perhaps for something else, as a pid.
    pub fn begin_as(&mut self, about: About, is_look: bool, now: Instant) {
        self.note_first(now);
        self.insert(about, is_look, now, Some(now));
    }

    /// A call is wanted that has to wait for its turn.
    pub fn postpone(&mut self, about: About, is_look: bool, now: Instant) {
        self.insert(about, is_look, now, None);
    }

    /// It is sent now.
    pub fn make_postponed(&mut self, key: &Key, now: Instant) {
        self.note_first(now);
        if let Some(entry) = self.outstanding.get_mut(key) {
            entry.made = Some(now);
            entry.waits = now;
        }
    }

    /// All but those that are still to be made, and when each was made.
    fn made(&self) -> impl Iterator<Item = (&Key, &Entry, Instant)> {
        let all = self.outstanding.iter();
        all.filter_map(|(key, entry)| Some((key, entry, entry.made?)))
    }

    /// While no call was outstanding no answer was missing.
    fn note_first(&mut self, now: Instant) {
        if !self.awaits_answers() {
            self.moved = now;
            self.answered = now;
        }
    }

    fn insert(&mut self, about: About, is_look: bool, since: Instant, made: Option<Instant>) {
        let key = (about.call, about.id.clone());
        let entry = Entry {
            about,
            since,
            made,
            waits: since,
            is_look,
            behind: Vec::new(),
            stuck: None,
        };
        self.outstanding.insert(key, entry);
    }

    /// Somebody waits for the end of an outstanding call to ask the same.
    pub fn wait_behind(&mut self, key: &Key, about: &About) {
        if let Some(entry) = self.outstanding.get_mut(key)
            && entry.about.pod != about.pod
            && entry.behind.iter().all(|other| other.pod != about.pod)
        {
            entry.behind.push(about.clone());
        }
    }

    /// The runtime answered a call by an error; gives what it asked for.
    pub fn failed(&mut self, key: &Key, now: Instant) -> Option<About> {
        let entry = self.end(key, now)?;
        self.evidence.failed(entry.since);
        self.failed = Some(now);
        Some(entry.about)
    }

    fn end(&mut self, key: &Key, now: Instant) -> Option<Entry> {
        let entry = self.outstanding.remove(key)?;
        self.is_away = false;
        if now >= self.answered + SUSPECT {
            self.stalled = Some(now);
        }
        self.answered = now;
        // A call that others overtook was slow by itself.
        if !self.evidence.any_after(entry.since) {
            self.took = now.duration_since(entry.waits);
        }
        self.open = (self.open * 2).min(self.most);
        self.moved = now;
        Some(entry)
    }

    /// The runtime answered a call well; gives what it asked for.
    pub fn answered(&mut self, key: &Key, now: Instant) -> Option<About> {
        let entry = self.end(key, now)?;
        self.evidence.answered(key.0, entry.since);
        // Neither what was stuck nor a stall of the whole runtime is the measure of what is
        // usual.
        let stalled = self.stalled.is_some_and(|end| entry.since < end);
        let took = now.duration_since(entry.waits);
        if entry.stuck.is_none() && key.1.is_some() && !stalled {
            let pod = entry.about.pod.as_ref().map(|pod| &pod.uid);
            self.evidence.took(key.0, pod, took, now);
        }
        match entry.stuck {
            // He is only slow, which was not known; what takes longer was a fault.
            Some(_) if took < LATE => self.evidence.is_slower(key.clone(), took, now),
            None if took < SUSPECT => self.evidence.is_prompt(key),
            _ => {}
        }
        Some(entry.about)
    }

    /// The connection was lost before the answer.
    pub fn lost(&mut self, key: &Key) -> Option<About> {
        self.is_away = true;
        Some(self.outstanding.remove(key)?.about)
    }

    /// Lets time pass: names who is stuck, and shrinks the window while nothing answers.
    pub fn pass(&mut self, now: Instant) {
        for entry in self.outstanding.values_mut() {
            if entry.made.is_none() {
                entry.waits = now;
            }
        }
        while self.awaits_answers() && now >= self.moved + SUSPECT {
            self.moved += SUSPECT;
            self.open = (self.open / 2).max(SMALLEST_WINDOW + RESERVED);
        }
        self.evidence.pass(now);
        let soonest = SUSPECT.min(self.status_overdue);
        let is_late = |entry: &Entry| !entry.is_alone() && now >= entry.waits + soonest;
        if !self.outstanding.values().any(is_late) {
            return;
        }
        let waiting = self.waiting();
        for ((call, id), entry) in &mut self.outstanding {
            if id.is_none() || !is_late(entry) {
                continue;
            }
            let usual = self.evidence.usual(*call, entry.since);
            let age = now.duration_since(entry.waits);
            // One that was answered right after this one was made may be the last before
            // the whole runtime stopped.
            let later = entry.waits + age / 2;
            let own = self.evidence.own(&(*call, id.clone()));
            if age >= suspect_after(usual).max(own * 3 / 2)
                && self.evidence.of_kind_since(*call, later)
                && self.evidence.answers_since(*call, entry.since) >= WITNESSES
            {
                entry.stuck = Some((Stuck::Alone, now));
            } else if entry.stuck.is_none()
                && age >= overdue_after(usual, self.status_overdue, waiting[call] == 1)
                && self.evidence.good_since(later)
            {
                entry.stuck = Some((Stuck::WithItsKind, now));
            }
        }
    }

    /// How many status calls of each kind wait for their answer and are not known to be stuck.
    fn waiting(&self) -> BTreeMap<Rpc, usize> {
        let mut waiting = BTreeMap::new();
        for ((call, id), entry, _) in self.made() {
            if id.is_some() && entry.stuck.is_none() {
                *waiting.entry(*call).or_default() += 1;
            }
        }
        waiting
    }

    /// The status calls that are stuck, and what waits behind them. A call may outlive its
    /// pod: one that is gone is named only if nobody who is known waits for the call.
    pub fn stuck(
        &self,
        is_known: impl Fn(&PodUid) -> bool,
    ) -> impl Iterator<Item = OutstandingCall> {
        let stuck = self.outstanding.values();
        let stuck = stuck.filter(|entry| entry.stuck.is_some());
        stuck.flat_map(move |entry| {
            let of_known = |about: &&About| about.pod.as_ref().is_none_or(|pod| is_known(&pod.uid));
            let abouts = std::iter::once(&entry.about).chain(&entry.behind);
            let mut named: Vec<About> = abouts.filter(of_known).cloned().collect();
            // Whose it is was not known when the call was made.
            if named.iter().any(|about| about.pod.is_some()) {
                named.retain(|about| about.pod.is_some());
            }
            if named.is_empty() {
                named.push(entry.about.clone());
            }
            let since = entry.made.unwrap_or(entry.since);
            named
                .into_iter()
                .map(move |about| OutstandingCall { about, since })
        })
    }

    /// Whether this status call is stuck.
    pub fn is_stuck(&self, key: &Key) -> bool {
        let entry = self.outstanding.get(key);
        entry.is_some_and(|entry| entry.stuck.is_some())
    }

    /// Since when this call is known to be overdue while later calls of its kind were answered, if it
    /// is overdue by what is usual now: a runtime may have become slow since. When a runtime that was
    /// stopped as a whole goes on, its oldest calls may be answered last: this knowledge is certain
    /// only a moment later.
    pub fn stuck_alone_since(&self, key: &Key, now: Instant) -> Option<Instant> {
        let entry = self.outstanding.get(key)?;
        let usual = self.evidence.usual(key.0, entry.since);
        match entry.stuck? {
            (Stuck::Alone, since) if now >= entry.waits + usual * TIMES_USUAL => Some(since),
            (Stuck::Alone | Stuck::WithItsKind, _) => None,
        }
    }

    /// All that is outstanding.
    pub fn outstanding(&self) -> impl Iterator<Item = OutstandingCall> {
        self.made().map(|(_, entry, made)| OutstandingCall {
            about: entry.about.clone(),
            since: made,
        })
    }

    /// When time alone will change what is said here.
    pub fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.outstanding.iter();
        let waiting = waiting.filter(|((_, id), entry)| {
            id.is_some() && entry.stuck.is_none() && entry.made.is_some()
        });
        let soonest = SUSPECT.min(self.status_overdue);
        let named = waiting.filter_map(|((call, _), entry)| {
            if now < entry.waits + soonest {
                return Some(entry.waits + soonest);
            }
            let usual = self.evidence.usual(*call, entry.since);
            let own = self.evidence.own(&(*call, entry.about.id.clone()));
            let steps = [
                SUSPECT,
                suspect_after(usual),
                own * 3 / 2,
                LATE,
                overdue_after(usual, self.status_overdue, true),
                overdue_after(usual, self.status_overdue, false),
            ];
            let steps = steps.map(|step| entry.waits + step);
            let last = self.last_asked(*call);
            let steps = steps
                .into_iter()
                .chain(last.map(|last| expires_as_witness_at(entry, last)));
            steps.filter(|time| *time > now).min()
        });
        let witness = self.failed.map(|failed| failed + SLOW);
        let witness = witness.filter(|_| self.awaits_answers());
        let shrinks = self.awaits_answers() && self.open > SMALLEST_WINDOW + RESERVED;
        let shrinks = shrinks.then(|| self.moved + SUSPECT);
        let others = shrinks.into_iter().chain(witness);
        let others = others.chain(self.sign_of_life_at());
        named.chain(others).filter(|time| *time > now).min()
    }
}

/// When a call is suspect while others of its kind are answered.
fn suspect_after(usual: Duration) -> Duration {
    (usual * TIMES_USUAL).clamp(SUSPECT, LONGEST_STATUS)
}

/// When it is stuck as far as the runtime answers anything: later if others of its kind wait
/// too, for then it is rather the kind that is slow.
fn overdue_after(usual: Duration, overdue: Duration, is_alone: bool) -> Duration {
    let least = if is_alone { overdue } else { overdue * 2 };
    (usual * 2).clamp(least, LONGEST_STATUS.max(least))
}
