//! Which lists are available: by the open relist, and by how each list was answered before.

use tokio::time::Instant;

use super::open_relist::OpenRelist;
use super::{Relister, State};
use crate::engine::list_history::is_of_the_list;
use crate::engine::lists::{Ages, PerList};
use crate::out::coverage::{ListState, Lists};
use crate::runtime::CallError;

impl Relister {
    /// The state of both lists together.
    pub(crate) fn state_of_lists(&self, ages: Ages) -> Lists {
        if self.history.stuck(ages).any() {
            Lists::Stuck
        } else if let Some(error) = self.failure() {
            match (error, ages.version) {
                // There is a connection again, and no call on it is answered.
                (CallError::Unavailable(_), Some(age)) if age >= self.history.overdue_after() => {
                    Lists::Stuck
                }
                _ if self.no_runtime.is_some() && is_of_the_list(error) => {
                    Lists::Unserved(error.clone())
                }
                _ => Lists::Failed(error.clone()),
            }
        } else if self.history.still_unavailable().any() {
            Lists::Stuck
        } else {
            self.history.punctuality()
        }
    }

    /// Notes which lists are not taken in now. An answered list that waits for the other one counts
    /// as taken in.
    pub(crate) fn note_unseen_lists(&mut self, ages: Ages) {
        let received = self.of_relist(OpenRelist::received);
        let absent = self.unseen_lists(ages).but_not(received);
        let unavailable = self.unavailable(ages);
        self.history.note_absent(absent, unavailable);
    }

    /// The lists that do not show what is new: they are unavailable, or they are slow each time and
    /// not awaited beside an unavailable one.
    pub(crate) fn unseen_lists(&self, ages: Ages) -> PerList<bool> {
        let unavailable = self.unavailable(ages).or(self.history.absent());
        let slow = self.history.slow().zip(unavailable.of_the_other());
        unavailable.or(slow.map(|(is_slow, is_other_unavailable)| is_slow && is_other_unavailable))
    }

    /// The state of each list.
    pub(crate) fn each_list(&self, ages: Ages) -> PerList<ListState> {
        let lists = self.unavailable(ages).zip(self.history.slow());
        lists.map(
            |(is_unavailable, is_slow)| match (is_unavailable, is_slow) {
                (true, _) => ListState::Unavailable,
                (false, true) => ListState::Slow,
                (false, false) => ListState::Comes,
            },
        )
    }

    /// Which lists are unavailable: they are stuck or fail, or they did when last answered.
    pub(super) fn unavailable(&self, ages: Ages) -> PerList<bool> {
        // Without a connection no sweep replaces a list either, unless one list is answered and the
        // other is stuck.
        let unreachable = matches!(self.no_runtime, Some(CallError::Unavailable(_)));
        let stuck = self.history.stuck(ages);
        // No list is requested before the first answer to `Version`.
        let is_waiting = ages
            .version
            .is_some_and(|age| age >= self.history.overdue_after());
        let is_blocked = unreachable || is_waiting && matches!(self.state, State::AwaitingVersion);
        let answered = self
            .of_relist(OpenRelist::answered)
            .zip(stuck.of_the_other());
        let is_blocked = answered
            .map(|(is_answered, is_other_stuck)| is_blocked && !(is_answered && is_other_stuck));
        is_blocked
            .or(self.history.failing())
            .or(stuck)
            .or(self.history.still_unavailable())
    }

    /// Notes that pods were observed as of `time` without these lists, because they were
    /// unavailable.
    pub(crate) fn note_observed_without(&mut self, lists: PerList<bool>, time: Instant) {
        self.history.note_observed_without(lists, time);
    }

    /// Why lists are unavailable: none can be requested, or one fails.
    pub(crate) fn failure(&self) -> Option<&CallError> {
        let failure = self.no_runtime.as_ref();
        failure.or_else(|| self.history.failure())
    }

    /// Whether a list has failed in the open relist.
    pub(crate) fn is_failing(&self) -> bool {
        self.of_relist(OpenRelist::failed).any()
    }

    fn of_relist(&self, of: impl Fn(&OpenRelist) -> PerList<bool>) -> PerList<bool> {
        match &self.state {
            State::OpenRelist(open_relist) => of(open_relist),
            State::Waiting { .. } | State::AwaitingVersion => PerList::default(),
        }
    }

    /// Whether a kubelet could not have received the last lists.
    pub(crate) fn has_failed_kubelet(&self) -> bool {
        self.failure().is_some()
            || self.history.absent().any()
            || self.good.for_kubelet != self.good.last
    }
}
