//! Which lists are available, and what that means for both together.

use std::time::Duration;

use super::{Relister, is_no_connection};
use crate::engine::call::List;
use crate::engine::lister::{Lister, twice};
use crate::engine::lists::{Ages, PerList};
use crate::out::coverage::{ListState, Lists};
use crate::runtime::CallError;

impl Relister {
    /// The state of both lists together.
    pub(crate) fn state_of_lists(&self, ages: Ages) -> Lists {
        if self.stuck(ages).any() {
            Lists::Stuck
        } else if let Some(error) = self.failure() {
            match (error, ages.version) {
                // There is a connection again, but no call on it is answered.
                (CallError::Unavailable(_), Some(age)) if age >= self.overdue_after() => {
                    Lists::Stuck
                }
                _ if self.connection.failure.is_some() && !is_no_connection(error) => {
                    Lists::Unserved(error.clone())
                }
                _ => Lists::Failed(error.clone()),
            }
        } else if self.each(|list| list.was_unavailable).any() {
            Lists::Stuck
        } else {
            match self.slowest() {
                None => Lists::Good,
                Some(took) if self.slow().any() => Lists::Slow(took),
                Some(took) => Lists::Late(took),
            }
        }
    }

    /// Whether a list was late when last answered, and none is slow: the next answer will show
    /// whether the list catches up.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.slowest().is_some() && !self.slow().any()
    }

    /// Whether a list was late when last answered.
    pub(crate) fn are_late(&self) -> bool {
        self.slowest().is_some()
    }

    /// Notes which lists are unavailable now, until they are answered.
    pub(crate) fn note_unavailable_lists(&mut self, ages: Ages) {
        let unavailable = self.unavailable(ages);
        for list in List::BOTH {
            self.lists[list].was_unavailable |= unavailable[list];
        }
    }

    /// The lists that do not show what is new: they are unavailable, or they are slow each time
    /// beside an unavailable one.
    pub(crate) fn unseen_lists(&self, ages: Ages) -> PerList<bool> {
        let unavailable = self.unavailable(ages);
        let slow = self.slow().zip(unavailable.of_the_other());
        unavailable.or(slow.map(|(is_slow, is_other_unavailable)| is_slow && is_other_unavailable))
    }

    /// The state of each list.
    pub(crate) fn each_list(&self, ages: Ages) -> PerList<ListState> {
        let lists = self.unavailable(ages).zip(self.slow());
        lists.map(
            |(is_unavailable, is_slow)| match (is_unavailable, is_slow) {
                (true, _) => ListState::Unavailable,
                (false, true) => ListState::Slow,
                (false, false) => ListState::Comes,
            },
        )
    }

    /// Which lists are unavailable: they are stuck or fail, or they did when last answered.
    fn unavailable(&self, ages: Ages) -> PerList<bool> {
        // Without a connection no sweep replaces a list either.
        let is_unreachable = self.is_unreachable();
        self.each(|list| is_unreachable || list.was_unavailable || list.failure().is_some())
            .or(self.stuck(ages))
    }

    /// Why lists are unavailable: none can be requested, or one fails.
    pub(crate) fn failure(&self) -> Option<&CallError> {
        let [one, other] = self.lists.as_ref().map(Lister::failure).both();
        self.connection.failure.as_ref().or(one).or(other)
    }

    /// Whether a kubelet could not have received the last lists.
    pub(crate) fn has_failed_kubelet(&self) -> bool {
        self.failure().is_some()
            || self.each(|list| list.was_unavailable).any()
            || self.complete.for_kubelet != self.complete.last
    }

    /// How long a kubelet, which requests one list after the other, would have waited for the last
    /// lists, and how much longer that is than this process waited.
    pub(crate) fn for_kubelet_took(&self) -> (Duration, Duration) {
        let [one, other] = self.each(|list| list.took).both();
        (one + other, one.min(other))
    }

    /// Which lists fail although there is a connection.
    pub(crate) fn failing(&self) -> PerList<bool> {
        self.each(|list| list.failure().is_some())
    }

    /// Which lists are slow: their last two answers were late.
    pub(crate) fn slow(&self) -> PerList<bool> {
        self.each(Lister::is_slow)
    }

    /// How long the slower list took, if one was late when last answered.
    fn slowest(&self) -> Option<Duration> {
        let [one, other] = self.each(|list| list.punctuality.delay()).both();
        one.max(other)
    }

    /// Which lists a sweep replaces: they fail, are overdue, or are late each time. While the other
    /// one is answered, a list is replaced earlier.
    pub(crate) fn missing(&self, ages: Ages) -> PerList<bool> {
        let (suspect, overdue) = (self.times.suspect(), self.times.overdue());
        let others = ages.lists.of_the_other();
        let overdue_lists = ages.lists.zip(others).map(|(age, other)| {
            let is_other_answered = other.is_none_or(|other| other < suspect);
            let limit = if is_other_answered { suspect } else { overdue };
            age.is_some_and(|age| age >= limit)
        });
        self.failing().or(self.slow()).or(overdue_lists)
    }

    /// Which lists are stuck: they take longer than is usual, or more than twice their last
    /// duration if they are late each time.
    pub(crate) fn stuck(&self, ages: Ages) -> PerList<bool> {
        let lists = ages.lists.zip(self.stuck_after());
        lists.map(|(age, limit)| age.is_some_and(|age| age >= limit))
    }

    fn stuck_after(&self) -> PerList<Duration> {
        let overdue = self.overdue_after();
        self.each(|list| list.punctuality.stuck_after(overdue))
    }

    /// Whether any call for the whole node is overdue.
    pub(crate) fn is_overdue(&self, ages: Ages) -> bool {
        let ages = [ages.version, ages.oldest_list()];
        let overdue = self.overdue_after();
        ages.into_iter().flatten().any(|age| age >= overdue)
    }

    /// Whether `Version` is suspect. Lists are then requested without its answer.
    pub(crate) fn is_version_suspect(&self, ages: Ages) -> bool {
        ages.version.is_some_and(|age| age >= self.times.suspect())
    }

    /// How long a list may take before it is overdue.
    pub(crate) fn overdue_after(&self) -> Duration {
        self.times.overdue()
    }

    /// How long `Version` may take beside late lists before it is overdue.
    pub(crate) fn version_overdue_after(&self) -> Duration {
        let [one, other] = self.stuck_after().both();
        one.max(other)
    }

    /// The ages of a list at which its state changes.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Duration> {
        let slow = self.slowest().map(twice);
        [Some(self.times.suspect()), Some(self.times.overdue()), slow]
            .into_iter()
            .flatten()
    }
}
