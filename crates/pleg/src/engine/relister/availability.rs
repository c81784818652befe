//! Which lists can be had, as of the relist under way and of what each list did before.

use tokio::time::Instant;

use super::asking::Asked;
use super::{Relister, State};
use crate::engine::lists::{Ages, Missing};
use crate::engine::standing::by_itself;
use crate::out::coverage::{ListState, Lists};
use crate::runtime::CallError;

impl Relister {
    /// How it is with the lists.
    pub(crate) fn trouble(&self, ages: Ages) -> Lists {
        if self.standing.stuck(ages).any() {
            Lists::Stuck
        } else if let Some(error) = self.failure() {
            match (error, ages.version) {
                // There is a connection again, and nothing comes over it.
                (CallError::Unavailable(_), Some(age)) if age >= self.standing.overdue_after() => {
                    Lists::Stuck
                }
                _ if self.no_runtime.is_some() && by_itself(error) => {
                    Lists::Unserved(error.clone())
                }
                _ => Lists::Failed(error.clone()),
            }
        } else if self.standing.unavailable_since().any() {
            Lists::Stuck
        } else {
            self.standing.punctuality()
        }
    }

    /// Notes which lists are not taken in now. One that has come waits for the other one.
    pub(crate) fn note_blind(&mut self, ages: Ages) {
        let (sandboxes, containers) = match &self.state {
            State::Asking(asking) => (has_come(&asking.sandboxes), has_come(&asking.containers)),
            State::Waiting { .. } | State::AskingVersion => (false, false),
        };
        let blind = self.blind(ages);
        let lacking = Missing {
            sandboxes: blind.sandboxes && !sandboxes,
            containers: blind.containers && !containers,
        };
        let unavailable = self.unavailable(ages);
        self.standing.note_lacking(lacking, unavailable);
    }

    /// Without which lists what is new cannot be seen: beside one that is not to be had nobody waits
    /// for one that is slow each time.
    pub(crate) fn blind(&self, ages: Ages) -> Missing {
        let Missing {
            sandboxes,
            containers,
        } = self.unavailable(ages).or(self.standing.lacking());
        let slow = self.standing.slow();
        Missing {
            sandboxes: sandboxes || containers && slow.sandboxes,
            containers: containers || sandboxes && slow.containers,
        }
    }

    /// How it is with each list: that of the sandboxes, and that of the containers.
    pub(crate) fn each_list(&self, ages: Ages) -> (ListState, ListState) {
        let state = |is_unavailable, is_slow| match (is_unavailable, is_slow) {
            (true, _) => ListState::Unavailable,
            (false, true) => ListState::Slow,
            (false, false) => ListState::Comes,
        };
        let unavailable = self.unavailable(ages);
        let slow = self.standing.slow();
        (
            state(unavailable.sandboxes, slow.sandboxes),
            state(unavailable.containers, slow.containers),
        )
    }

    /// Which lists are not to be had: they hang or fail, or did so when last heard of.
    pub(super) fn unavailable(&self, ages: Ages) -> Missing {
        // Then nothing is polled in place of a list either, until one is answered again and the
        // other is not.
        let unreachable = matches!(self.no_runtime, Some(CallError::Unavailable(_)));
        let answered = match &self.state {
            State::Asking(asking) => (asking.sandboxes.is_some(), asking.containers.is_some()),
            State::Waiting { .. } | State::AskingVersion => (false, false),
        };
        let stuck = self.standing.stuck(ages);
        // Before the first version is known no list is asked for.
        let is_waiting = ages
            .version
            .is_some_and(|age| age >= self.standing.overdue_after());
        let cannot = unreachable || is_waiting && matches!(self.state, State::AskingVersion);
        let cannot = Missing {
            sandboxes: cannot && !(answered.0 && stuck.containers),
            containers: cannot && !(answered.1 && stuck.sandboxes),
        };
        let failed = self.standing.failed_by_themselves();
        let since = self.standing.unavailable_since();
        cannot.or(failed).or(stuck).or(since)
    }

    /// Something was seen as of this time without these lists, since they are not to be had.
    pub(crate) fn did_without(&mut self, lists: Missing, time: Instant) {
        self.standing.did_without(lists, time);
    }

    /// Why lists are not to be had: none can be asked for, or one fails by itself.
    pub(crate) fn failure(&self) -> Option<&CallError> {
        let failure = self.no_runtime.as_ref();
        failure.or_else(|| self.standing.failure())
    }

    /// Whether a list has failed in the relist under way.
    pub(crate) fn is_failing(&self) -> bool {
        match &self.state {
            State::Asking(asking) => {
                has_failed(&asking.sandboxes) || has_failed(&asking.containers)
            }
            State::Waiting { .. } | State::AskingVersion => false,
        }
    }

    /// Whether a kubelet could not list when we last did.
    pub(crate) fn fails_kubelet(&self) -> bool {
        self.failure().is_some()
            || self.standing.lacking().any()
            || self.good.for_kubelet != self.good.last
    }
}

fn has_failed<R>(asked: &Asked<R>) -> bool {
    asked.as_ref().is_some_and(|said| said.rows.is_err())
}

fn has_come<R>(asked: &Asked<R>) -> bool {
    asked.as_ref().is_some_and(|said| said.rows.is_ok())
}
