//! How it is with the two lists, from one relist to the next.
//!
//! ```text
//!   one that comes:        quick --late once--> late --late again--> slow --quick again--> quick
//!   one that is awaited:   suspect (the other one has come) --> overdue --> stuck
//!   one that was refused:  failed, until it comes
//! ```

use std::time::Duration;

use tokio::time::Instant;

use super::call::List;
use super::limits::{LONGEST_LIST, SLOW_PAUSE};
use super::list_times::ListTimes;
use super::lists::{Ages, Missing};
use crate::out::coverage::Lists;
use crate::runtime::CallError;

/// How it is with both lists.
#[derive(Debug)]
pub(crate) struct Standing {
    sandboxes: OneList,
    containers: OneList,
    pace: Pace,
    times: ListTimes,
}

/// How the lists came that came: in the last relists, or beside one that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// In time.
    Quick,
    /// Late, for the first time.
    Late,
    /// Late each time.
    Slow,
}

/// How it is with one of them.
#[derive(Debug, Default)]
struct OneList {
    /// Why it failed by itself when last answered, and not for want of a connection.
    failed: Option<CallError>,
    /// How long it took when it was last answered well.
    took: Duration,
    /// It was late when last answered, and took so long.
    late: Option<Duration>,
    /// Why it was not taken in, as long as it has not come since.
    lacking: Option<Lacking>,
    /// As of when something was seen without it last: what was new then, only a list shows that is
    /// requested later.
    without: Option<Instant>,
    /// When the newest was requested that is taken in.
    taken_in: Option<Instant>,
}

/// Why a list was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lacking {
    /// It is slow each time, and nobody waited for it beside one that was not to be had.
    NotAwaited,
    /// It was not to be had.
    Unavailable,
}

impl Standing {
    /// Lists are late after `overdue` at the earliest.
    pub(super) fn new(overdue: Duration) -> Self {
        Self {
            sandboxes: OneList::default(),
            containers: OneList::default(),
            pace: Pace::Quick,
            times: ListTimes::new(overdue),
        }
    }

    fn of(&mut self, list: List) -> &mut OneList {
        match list {
            List::Sandboxes => &mut self.sandboxes,
            List::Containers => &mut self.containers,
        }
    }

    /// A relist was told this list after so long.
    pub(super) fn came(&mut self, list: List, took: Duration) {
        let late = (took >= self.overdue_after()).then_some(took);
        self.times.learn(took);
        let list = self.of(list);
        list.failed = None;
        list.took = took;
        list.late = late;
        list.lacking = None;
    }

    /// A relist was refused this list. For want of a connection that says nothing of the list.
    pub(super) fn failed(&mut self, list: List, error: &CallError) {
        let failed = by_itself(error).then(|| error.clone());
        let list = self.of(list);
        if failed.is_some() && list.failed != failed {
            tracing::debug!("unable to list: {error}");
        }
        list.failed = failed;
    }

    /// A sweep was told this list after so long.
    pub(super) fn came_beside_a_sweep(&mut self, list: List, took: Duration) {
        if self.other_fails(list) {
            // Relists are far from each other then, and nothing that hangs makes it late.
            self.came(list, took);
            self.relist_ended();
            return;
        }
        let late = (took >= self.overdue_after()).then_some(took);
        let list = self.of(list);
        list.failed = None;
        list.lacking = None;
        // What was never late in a relist is not late beside one that hangs.
        list.late = list.late.and(late);
    }

    fn other_fails(&self, list: List) -> bool {
        let fails = self.failed_by_themselves();
        match list {
            List::Sandboxes => fails.containers,
            List::Containers => fails.sandboxes,
        }
    }

    /// These lists are not taken in, the `unavailable` of them because they are not to be had: what
    /// is new is not seen before they come, whatever ends the calls that hang or are refused now.
    pub(super) fn note_lacking(&mut self, lists: Missing, unavailable: Missing) {
        for (list, is_lacking, is_unavailable) in [
            (&mut self.sandboxes, lists.sandboxes, unavailable.sandboxes),
            (
                &mut self.containers,
                lists.containers,
                unavailable.containers,
            ),
        ] {
            let why = match is_unavailable {
                true => Lacking::Unavailable,
                false => Lacking::NotAwaited,
            };
            list.lacking = list.lacking.max(is_lacking.then_some(why));
        }
    }

    /// Which lists were not taken in, and have not come since.
    pub(super) fn lacking(&self) -> Missing {
        Missing {
            sandboxes: self.sandboxes.lacking.is_some(),
            containers: self.containers.lacking.is_some(),
        }
    }

    /// Which lists were not to be had, and have not come since.
    pub(super) fn unavailable_since(&self) -> Missing {
        let was_unavailable = Some(Lacking::Unavailable);
        Missing {
            sandboxes: self.sandboxes.lacking == was_unavailable,
            containers: self.containers.lacking == was_unavailable,
        }
    }

    /// Something was seen as of this time without these lists, since they are not to be had.
    pub(super) fn did_without(&mut self, lists: Missing, time: Instant) {
        for (list, is_missing) in [
            (&mut self.sandboxes, lists.sandboxes),
            (&mut self.containers, lists.containers),
        ] {
            list.without = list.without.max(is_missing.then_some(time));
        }
    }

    /// All is known that this list shows, which was requested then.
    pub(super) fn taken_in_as_of(&mut self, list: List, asked: Instant) {
        let list = self.of(list);
        list.without.take_if(|time| *time <= asked);
        list.taken_in = list.taken_in.max(Some(asked));
    }

    /// As of when all is known that this list shows.
    pub(super) fn knows(&self, list: List) -> Option<Instant> {
        match list {
            List::Sandboxes => self.sandboxes.taken_in,
            List::Containers => self.containers.taken_in,
        }
    }

    /// Which lists do not show yet what was there when something was last seen without them.
    pub(super) fn behind(&self) -> Missing {
        Missing {
            sandboxes: self.sandboxes.without.is_some(),
            containers: self.containers.without.is_some(),
        }
    }

    /// As of when something was last seen without a list that is behind.
    pub(super) fn behind_since(&self) -> Option<Instant> {
        self.sandboxes.without.max(self.containers.without)
    }

    /// A sweep was refused this list. Says whether that is new.
    pub(super) fn failed_beside_a_sweep(&mut self, list: List, error: &CallError) -> bool {
        by_itself(error) && self.of(list).failed.replace(error.clone()).is_none()
    }

    /// A relist has ended, in which a list may have failed by itself.
    pub(super) fn relist_ended(&mut self) {
        self.pace = match (self.slowest(), self.pace) {
            (None, _) => Pace::Quick,
            (Some(_), Pace::Quick) => Pace::Late,
            (Some(_), Pace::Late | Pace::Slow) => Pace::Slow,
        };
    }

    /// How the lists came of the last relists.
    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// Why a list failed by itself, if one did.
    pub(super) fn failure(&self) -> Option<&CallError> {
        let failed = [&self.sandboxes.failed, &self.containers.failed];
        failed.into_iter().flatten().next()
    }

    /// The list that is to be asked for beside a sweep in place of those that are `missing`: the other
    /// one, or one of both that may come.
    pub(super) fn beside_a_sweep(
        &self,
        missing: Missing,
        ages: Ages,
        now: Instant,
    ) -> Option<List> {
        match (missing.sandboxes, missing.containers) {
            (false, true) => Some(List::Sandboxes),
            (true, false) => Some(List::Containers),
            _ => self.to_try_again().or_else(|| self.slow_beside(ages, now)),
        }
    }

    /// The list that is slow each time, beside one that hangs or is not asked for again: it is asked
    /// for after a pause, unless it failed when last answered.
    fn slow_beside(&self, ages: Ages, now: Instant) -> Option<List> {
        let does_not_come = self.stuck(ages).or(self.failed_by_themselves());
        let (name, list) = match (does_not_come.sandboxes, does_not_come.containers) {
            (false, true) => (List::Sandboxes, &self.sandboxes),
            (true, false) => (List::Containers, &self.containers),
            _ => return None,
        };
        let late = list.late.filter(|_| self.pace == Pace::Slow)?;
        let next = list.taken_in? + late + late / SLOW_PAUSE;
        (now >= next).then_some(name)
    }

    /// The list that failed, and is to be tried again by a sweep in place of both: a relist
    /// that waits for the other one does not.
    fn to_try_again(&self) -> Option<List> {
        let may_pass = |list: &OneList| {
            let failed = list.failed.as_ref();
            failed.is_some_and(|error| !matches!(error, CallError::TooLarge(_)))
        };
        match (may_pass(&self.sandboxes), may_pass(&self.containers)) {
            (true, true) | (false, false) => None,
            (true, false) => Some(List::Sandboxes),
            (false, true) => Some(List::Containers),
        }
    }

    /// How long the slower list took, if one was late when last answered.
    pub(super) fn slowest(&self) -> Option<Duration> {
        self.sandboxes.late.max(self.containers.late)
    }

    /// Whether lists came late, and those that are asked for since are not in yet.
    pub(crate) fn is_catching_up(&self) -> bool {
        matches!(self.punctuality(), Lists::Late(_))
    }

    /// Whether lists come, and late each time.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.punctuality(), Lists::Slow(_))
    }

    /// How the lists come that come.
    pub(super) fn punctuality(&self) -> Lists {
        match self.slowest() {
            None => Lists::Good,
            Some(took) if self.pace == Pace::Slow => Lists::Slow(took),
            Some(took) => Lists::Late(took),
        }
    }

    /// Which lists are to be done without: they fail by themselves, hang, or are slow each
    /// time. One is suspected early while the other one answers.
    pub(crate) fn missing(&self, ages: Ages) -> Missing {
        let overdue = self.times.overdue();
        let suspect = self.times.suspect();
        let hangs = |age: Option<Duration>, other: Option<Duration>| {
            let others_answer = other.is_none_or(|other| other < suspect);
            let limit = if others_answer { suspect } else { overdue };
            age.is_some_and(|age| age >= limit)
        };
        let slow = self.slow();
        let failed = self.failed_by_themselves();
        Missing {
            sandboxes: failed.sandboxes || slow.sandboxes || hangs(ages.sandboxes, ages.containers),
            containers: failed.containers
                || slow.containers
                || hangs(ages.containers, ages.sandboxes),
        }
    }

    /// Which lists come late each time.
    pub(super) fn slow(&self) -> Missing {
        let slow = |list: &OneList| list.late.is_some() && self.pace == Pace::Slow;
        Missing {
            sandboxes: slow(&self.sandboxes),
            containers: slow(&self.containers),
        }
    }

    /// Which lists fail by themselves.
    pub(super) fn failed_by_themselves(&self) -> Missing {
        Missing {
            sandboxes: self.sandboxes.failed.is_some(),
            containers: self.containers.failed.is_some(),
        }
    }

    /// Which lists hang: they take longer than is usual, or, where they are late each time,
    /// than twice what they took.
    pub(crate) fn stuck(&self, ages: Ages) -> Missing {
        let hangs = |age: Option<Duration>, late: Option<Duration>| {
            age.is_some_and(|age| age >= self.hangs_after(late))
        };
        Missing {
            sandboxes: hangs(ages.sandboxes, self.sandboxes.late),
            containers: hangs(ages.containers, self.containers.late),
        }
    }

    /// Whether the lists that are awaited may still come: they take no longer than is usual, or than
    /// twice what they took when they were late.
    pub(crate) fn will_come(&self, ages: Ages) -> bool {
        let may_come = |age: Option<Duration>, late: Option<Duration>| {
            let limit = self.overdue_after().max(late.map_or(Duration::ZERO, twice));
            age.is_none_or(|age| age < limit)
        };
        may_come(ages.sandboxes, self.sandboxes.late)
            && may_come(ages.containers, self.containers.late)
    }

    /// Whether any call for the whole node is overdue.
    pub(crate) fn is_overdue(&self, ages: Ages) -> bool {
        let ages = [ages.version, ages.sandboxes, ages.containers];
        let overdue = self.overdue_after();
        ages.into_iter().flatten().any(|age| age >= overdue)
    }

    /// Whether `Version` does not come, which waits for no lock: what waits for it goes on without.
    pub(crate) fn is_version_suspect(&self, ages: Ages) -> bool {
        ages.version.is_some_and(|age| age >= self.times.suspect())
    }

    /// After which time a list is overdue.
    pub(crate) fn overdue_after(&self) -> Duration {
        self.times.overdue()
    }

    /// After which time `Version` is overdue, which is asked for beside late lists.
    pub(crate) fn version_overdue_after(&self) -> Duration {
        self.hangs_after(self.slowest())
    }

    /// After which time a call hangs beside lists that took so long when they were `late`.
    fn hangs_after(&self, late: Option<Duration>) -> Duration {
        let overdue = self.overdue_after();
        let late = late.filter(|late| match self.pace {
            Pace::Quick => false,
            // One that took longer than any slow list was stuck.
            Pace::Late => *late < LONGEST_LIST,
            Pace::Slow => true,
        });
        late.map_or(overdue, |late| overdue.max(twice(late)))
    }

    /// Steps in the age of a list at which something changes by time alone.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Duration> {
        let slow = self.slowest().map(twice);
        [Some(self.times.suspect()), Some(self.times.overdue()), slow]
            .into_iter()
            .flatten()
    }

    /// How long a kubelet, which asks for one after the other, would have waited for the last
    /// lists, and how much longer than we did.
    pub(crate) fn for_kubelet_took(&self) -> (Duration, Duration) {
        let (one, other) = (self.sandboxes.took, self.containers.took);
        (one + other, one.min(other))
    }

    /// How long the list took that took longer when last answered well.
    pub(super) fn longest(&self) -> Duration {
        self.sandboxes.took.max(self.containers.took)
    }
}

/// Whether a list failed by itself, and not for want of a connection.
pub(super) fn by_itself(error: &CallError) -> bool {
    !matches!(error, CallError::Unavailable(_))
}

/// When a list hangs that took so long when it was late.
fn twice(late: Duration) -> Duration {
    (late * 2).min(LONGEST_LIST)
}
