//! How each of the two lists was answered, from one relist to the next.
//!
//! ```text
//!   answered:     quick --slow once--> late --slow again--> slow --quick again--> quick
//!   outstanding:  suspect (the other one was answered) --> overdue --> stuck
//!   failed:       until it is answered again
//! ```
//!
//! A list is *late* when it is answered after its limit once, and *slow* when that happens each
//! time.

use std::time::Duration;

use tokio::time::Instant;

use super::call::List;
use super::limits::{MAX_LIST_OVERDUE, SLOW_PAUSE_DIVISOR};
use super::list_times::ListTimes;
use super::lists::{Ages, PerList};
use crate::out::coverage::Lists;
use crate::runtime::CallError;

/// How both lists were answered.
#[derive(Debug)]
pub(crate) struct ListHistory {
    lists: PerList<OneList>,
    pace: Pace,
    times: ListTimes,
}

/// How quickly lists were answered: in the last relists, or beside a list that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// In time.
    Quick,
    /// Late, for the first time.
    Late,
    /// Late each time.
    Slow,
}

/// How one list was answered.
#[derive(Debug, Default)]
struct OneList {
    /// Its last answer, if that was an error other than a lost connection.
    failed: Option<CallError>,
    /// How long its last successful call took.
    took: Duration,
    /// The same, if that was late.
    late: Option<Duration>,
    /// Why it was not taken in; `None` once it is answered.
    absent: Option<Absent>,
    /// As of when pods were last observed without this list. Only a list that is requested later
    /// shows what was new then.
    observed_without: Option<Instant>,
    /// When the newest list that was taken in was requested.
    taken_in: Option<Instant>,
}

/// Why a list was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Absent {
    /// It is slow each time, and is not awaited beside an unavailable list.
    NotAwaited,
    /// It was overdue or failed.
    Unavailable,
}

impl ListHistory {
    /// `overdue` is the lower bound of the limit after which a list is late.
    pub(super) fn new(overdue: Duration) -> Self {
        Self {
            lists: PerList::default(),
            pace: Pace::Quick,
            times: ListTimes::new(overdue),
        }
    }

    /// A list of a relist arrived after `took`.
    pub(super) fn received(&mut self, list: List, took: Duration) {
        let late = self.late(took);
        self.times.learn(took);
        let list = &mut self.lists[list];
        list.failed = None;
        list.took = took;
        list.late = late;
        list.absent = None;
    }

    /// A list of a relist failed. A lost connection is no evidence about the list.
    pub(super) fn failed(&mut self, list: List, error: &CallError) {
        let failed = is_of_the_list(error).then(|| error.clone());
        let list = &mut self.lists[list];
        if failed.is_some() && list.failed != failed {
            tracing::debug!("unable to list: {error}");
        }
        list.failed = failed;
    }

    /// A list of a sweep arrived after `took`.
    pub(super) fn received_beside_a_sweep(&mut self, list: List, took: Duration) {
        if self.failing().of_the_other()[list] {
            // The other list fails, so relists are rare, and no stuck call delays this list: its
            // time counts as that of a relist.
            self.received(list, took);
            self.relist_ended();
            return;
        }
        let late = self.late(took);
        let list = &mut self.lists[list];
        list.failed = None;
        list.absent = None;
        // A list that is in time in relists does not become late because the other one is stuck.
        list.late = list.late.and(late);
    }

    /// A list of a sweep failed. Returns whether that is new.
    pub(super) fn failed_beside_a_sweep(&mut self, list: List, error: &CallError) -> bool {
        is_of_the_list(error) && self.lists[list].failed.replace(error.clone()).is_none()
    }

    fn late(&self, took: Duration) -> Option<Duration> {
        (took >= self.overdue_after()).then_some(took)
    }

    /// Notes that these lists are not taken in, some of them because they are `unavailable`. What
    /// is new stays unobserved until they are answered, even if the outstanding calls end.
    pub(super) fn note_absent(&mut self, absent: PerList<bool>, unavailable: PerList<bool>) {
        for list in [List::Sandboxes, List::Containers] {
            let why = match unavailable[list] {
                true => Absent::Unavailable,
                false => Absent::NotAwaited,
            };
            let known = &mut self.lists[list].absent;
            *known = (*known).max(absent[list].then_some(why));
        }
    }

    /// Which lists were not taken in, and have not been answered since.
    pub(super) fn absent(&self) -> PerList<bool> {
        self.each(|list| list.absent.is_some())
    }

    /// Which lists were unavailable, and have not been answered since.
    pub(super) fn still_unavailable(&self) -> PerList<bool> {
        self.each(|list| list.absent == Some(Absent::Unavailable))
    }

    fn each<T>(&self, of: impl Fn(&OneList) -> T) -> PerList<T> {
        self.lists.as_ref().map(of)
    }

    /// Notes that pods were observed as of `time` without these lists, because they were
    /// unavailable.
    pub(super) fn note_observed_without(&mut self, lists: PerList<bool>, time: Instant) {
        for list in [List::Sandboxes, List::Containers] {
            let observed_without = &mut self.lists[list].observed_without;
            *observed_without = (*observed_without).max(lists[list].then_some(time));
        }
    }

    /// A list that was requested at `requested` has been taken in.
    pub(super) fn taken_in_as_of(&mut self, list: List, requested: Instant) {
        let list = &mut self.lists[list];
        list.observed_without.take_if(|time| *time <= requested);
        list.taken_in = list.taken_in.max(Some(requested));
    }

    /// When the newest taken-in answer of this list was requested.
    pub(super) fn taken_in(&self, list: List) -> Option<Instant> {
        self.lists[list].taken_in
    }

    /// Which lists do not yet show what existed when pods were last observed without them.
    pub(super) fn outdated(&self) -> PerList<bool> {
        self.each(|list| list.observed_without.is_some())
    }

    /// As of when pods were last observed without an outdated list.
    pub(super) fn outdated_since(&self) -> Option<Instant> {
        let [one, other] = self.each(|list| list.observed_without).both();
        one.max(other)
    }

    /// A relist has ended; one of its lists may have failed.
    pub(super) fn relist_ended(&mut self) {
        self.pace = match (self.slowest(), self.pace) {
            (None, _) => Pace::Quick,
            (Some(_), Pace::Quick) => Pace::Late,
            (Some(_), Pace::Late | Pace::Slow) => Pace::Slow,
        };
    }

    /// How quickly the lists of the last relists were answered.
    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// Why a list fails, if one does.
    pub(super) fn failure(&self) -> Option<&CallError> {
        let failed = self.lists.as_ref().both().map(|list| list.failed.as_ref());
        failed.into_iter().flatten().next()
    }

    /// The list to request beside a sweep that replaces those that are `missing`: the other one, or
    /// one of both that may be answered.
    pub(super) fn beside_a_sweep(
        &self,
        missing: PerList<bool>,
        ages: Ages,
        now: Instant,
    ) -> Option<List> {
        match missing.of_the_other().single() {
            Some(other) => Some(other),
            None => self.to_retry().or_else(|| self.slow_beside(ages, now)),
        }
    }

    /// The list that is slow each time, while the other one is stuck or fails. It is requested
    /// after a pause.
    fn slow_beside(&self, ages: Ages, now: Instant) -> Option<List> {
        let unanswered = self.stuck(ages).or(self.failing());
        let list = unanswered.of_the_other().single()?;
        let OneList { late, taken_in, .. } = &self.lists[list];
        let late = late.filter(|_| self.pace == Pace::Slow)?;
        let next = (*taken_in)? + late + late / SLOW_PAUSE_DIVISOR;
        (now >= next).then_some(list)
    }

    /// The failed list to request again beside a sweep that replaces both. A relist would wait for
    /// the other one.
    fn to_retry(&self) -> Option<List> {
        let may_pass = |list: &OneList| {
            let failed = list.failed.as_ref();
            failed.is_some_and(|error| !matches!(error, CallError::TooLarge(_)))
        };
        self.each(may_pass).single()
    }

    /// How long the slower list took, if one was late when last answered.
    pub(super) fn slowest(&self) -> Option<Duration> {
        let [one, other] = self.each(|list| list.late).both();
        one.max(other)
    }

    /// Whether lists were late, and those requested since are outstanding.
    pub(crate) fn is_catching_up(&self) -> bool {
        matches!(self.punctuality(), Lists::Late(_))
    }

    /// Whether lists are answered, and late each time.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.punctuality(), Lists::Slow(_))
    }

    /// How punctual the answered lists are.
    pub(super) fn punctuality(&self) -> Lists {
        match self.slowest() {
            None => Lists::Good,
            Some(took) if self.pace == Pace::Slow => Lists::Slow(took),
            Some(took) => Lists::Late(took),
        }
    }

    /// Which lists a sweep replaces: they fail, are overdue, or are late each time. While the other
    /// one is answered, a list is replaced earlier.
    pub(crate) fn missing(&self, ages: Ages) -> PerList<bool> {
        let overdue = self.times.overdue();
        let suspect = self.times.suspect();
        let others = ages.lists.of_the_other();
        let overdue_lists = ages.lists.zip(others).map(|(age, other)| {
            let is_other_answered = other.is_none_or(|other| other < suspect);
            let limit = if is_other_answered { suspect } else { overdue };
            age.is_some_and(|age| age >= limit)
        });
        self.failing().or(self.slow()).or(overdue_lists)
    }

    /// Which lists are late each time.
    pub(super) fn slow(&self) -> PerList<bool> {
        self.each(|list| list.late.is_some() && self.pace == Pace::Slow)
    }

    /// Which lists fail although there is a connection.
    pub(super) fn failing(&self) -> PerList<bool> {
        self.each(|list| list.failed.is_some())
    }

    /// Which lists are stuck: they take longer than is usual, or more than twice their last
    /// duration if they are late each time.
    pub(crate) fn stuck(&self, ages: Ages) -> PerList<bool> {
        let late = self.each(|list| list.late);
        ages.lists
            .zip(late)
            .map(|(age, late)| age.is_some_and(|age| age >= self.stuck_after(late)))
    }

    /// Whether the outstanding lists may still be answered: they take no longer than is usual, or
    /// than twice their last late duration.
    pub(crate) fn can_be_answered(&self, ages: Ages) -> bool {
        let late = self.each(|list| list.late);
        let in_time = ages.lists.zip(late).map(|(age, late)| {
            let limit = self.overdue_after().max(late.map_or(Duration::ZERO, twice));
            age.is_none_or(|age| age < limit)
        });
        in_time.are_both()
    }

    /// Whether any call for the whole node is overdue.
    pub(crate) fn is_overdue(&self, ages: Ages) -> bool {
        let ages = [ages.version, ages.oldest_list()];
        let overdue = self.overdue_after();
        ages.into_iter().flatten().any(|age| age >= overdue)
    }

    /// Whether `Version` is suspect. A relist then proceeds without its answer.
    pub(crate) fn is_version_suspect(&self, ages: Ages) -> bool {
        ages.version.is_some_and(|age| age >= self.times.suspect())
    }

    /// How long a list may take before it is overdue.
    pub(crate) fn overdue_after(&self) -> Duration {
        self.times.overdue()
    }

    /// How long `Version` may take beside late lists before it is overdue.
    pub(crate) fn version_overdue_after(&self) -> Duration {
        self.stuck_after(self.slowest())
    }

    /// How long a call may take before it is stuck, if lists last took `late`.
    fn stuck_after(&self, late: Option<Duration>) -> Duration {
        let overdue = self.overdue_after();
        let late = late.filter(|late| match self.pace {
            Pace::Quick => false,
            // A list that took longer than any slow list takes was stuck, which says nothing about
            // the next one.
            Pace::Late => *late < MAX_LIST_OVERDUE,
            Pace::Slow => true,
        });
        late.map_or(overdue, |late| overdue.max(twice(late)))
    }

    /// The ages of a list at which its state changes.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Duration> {
        let slow = self.slowest().map(twice);
        [Some(self.times.suspect()), Some(self.times.overdue()), slow]
            .into_iter()
            .flatten()
    }

    /// How long a kubelet, which requests one list after the other, would have waited for the last
    /// lists, and how much longer than this process did.
    pub(crate) fn for_kubelet_took(&self) -> (Duration, Duration) {
        let [one, other] = self.each(|list| list.took).both();
        (one + other, one.min(other))
    }

    /// The last successful duration of the list that took longer.
    pub(super) fn longest(&self) -> Duration {
        let [one, other] = self.each(|list| list.took).both();
        one.max(other)
    }
}

/// Whether an error is evidence about the list, and not only about the connection.
pub(super) fn is_of_the_list(error: &CallError) -> bool {
    !matches!(error, CallError::Unavailable(_))
}

/// How long a list that was late may take before it is stuck.
fn twice(late: Duration) -> Duration {
    (late * 2).min(MAX_LIST_OVERDUE)
}
