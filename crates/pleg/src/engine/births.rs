//! Births. After the kernel has reported that the task directory of an id appeared or disappeared,
//! the status of the id is requested until it shows the change.
//!
//! ```text
//!   Appeared(id)    --> status, after 50 ms and again --> it has started --> hint
//!   Disappeared(id) --> the same                      --> it has ended   --> hint
//!                         \--> known from another source, or after 5 s: dropped
//! ```
//!
//! The directory of a container appears about 100 ms before its process starts. Its name is only
//! the id, so a status call must show what the id belongs to. The hint causes an inspection, and only
//! that changes the state of the pod.

use std::collections::BTreeMap;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::call::{Call, Purpose, Request};
use super::limits::{BIRTH_PAUSE, FIRST_RETRY_PAUSE, MAX_UNKNOWN_IDS};
use crate::kernel::UnwatchedBirths;
use crate::model::id::Id;
use crate::out::status_report::BirthsStatus;
use crate::records::diff::State;
use crate::runtime::{About, CallError};

/// What happened to the directory of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Appeared,
    Disappeared,
}

impl Change {
    /// Whether this state of the container or sandbox shows the change.
    pub(crate) fn is_shown_by(self, state: State) -> bool {
        match self {
            Self::Appeared => matches!(state, State::Running | State::Exited),
            Self::Disappeared => state != State::Running,
        }
    }
}

/// Whether births are watched, and the ids that are followed.
#[derive(Debug, Default)]
pub(crate) struct Births {
    /// Whether births are watched, or why not; `None` until that is known.
    watched: Option<Result<(), UnwatchedBirths>>,
    followed: BTreeMap<Id, Followed>,
}

#[derive(Debug)]
struct Followed {
    change: Change,
    since: Instant,
    next: Instant,
    pause: Duration,
    /// No container has this id, so the next request is for a sandbox.
    is_sandbox_next: bool,
}

impl Followed {
    /// The next call about this id.
    fn request(&self, id: &Id) -> Request {
        match self.is_sandbox_next {
            false => Request::Container(id.clone()),
            true => Request::Sandbox(id.clone()),
        }
    }
}

impl Births {
    pub(crate) fn are_watched(&self) -> bool {
        matches!(self.watched, Some(Ok(())))
    }

    /// Records whether births are watched from now on.
    pub(crate) fn on_watched(&mut self, watched: Result<(), UnwatchedBirths>) {
        self.watched = Some(watched);
    }

    /// Follows an id. Returns whether there is room for it.
    pub(crate) fn follow(&mut self, id: Id, change: Change, now: Instant) -> bool {
        if self.followed.len() >= MAX_UNKNOWN_IDS && !self.followed.contains_key(&id) {
            return false;
        }
        let followed = Followed {
            change,
            since: now,
            next: now + BIRTH_PAUSE,
            pause: BIRTH_PAUSE,
            is_sandbox_next: false,
        };
        self.followed.insert(id, followed);
        true
    }

    /// Stops following an id after [`FIRST_RETRY_PAUSE`], or earlier if its change `is_known` when its
    /// next request is due.
    pub(crate) fn drop_finished(&mut self, is_known: impl Fn(&Id, Change) -> bool, now: Instant) {
        self.followed.retain(|id, followed| {
            let is_old = now >= followed.since + FIRST_RETRY_PAUSE;
            let has_become_known = now >= followed.next && is_known(id, followed.change);
            !is_old && !has_become_known
        });
    }

    /// The next call, if one is due.
    pub(crate) fn next_call(&self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        if !ledger.has_room() {
            return None;
        }
        let due = self
            .followed
            .iter()
            .filter(|(_, followed)| now >= followed.next);
        let request = due
            .map(|(id, followed)| followed.request(id))
            .find(|request| !ledger.is_outstanding(&request.key()))?;
        let about = request.about(None, None);
        let purpose = Purpose::Birth;
        Some((Call { request, purpose }, about))
    }

    /// Takes in the answer to a status call. Returns whether it shows the change: the start or the end.
    pub(crate) fn on_status(
        &mut self,
        request: &Request,
        answer: Result<State, &CallError>,
        now: Instant,
    ) -> bool {
        let Some((id, followed)) = request
            .id()
            .and_then(|id| Some((id, self.followed.get_mut(id)?)))
        else {
            return false;
        };
        let is_container = matches!(request, Request::Container(_));
        match answer {
            Ok(state) if followed.change.is_shown_by(state) => {
                self.followed.remove(id);
                return true;
            }
            Err(CallError::NotFound(_)) if is_container => {
                followed.is_sandbox_next = true;
                followed.next = now;
            }
            _ => {
                // If no sandbox is found either, the id may be a container that was wrongly not found.
                followed.is_sandbox_next = !is_container && answer.is_ok();
                followed.pause = match answer {
                    Ok(_) => BIRTH_PAUSE,
                    Err(_) => followed.pause * 3 / 2,
                };
                followed.next = now + followed.pause;
            }
        }
        false
    }

    /// When the next status call is due.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        let alarms = self.followed.values().map(|followed| followed.next);
        // What is already due waits for an answer, not for a time.
        alarms.filter(|next| *next > now).min()
    }

    pub(crate) fn status(&self) -> BirthsStatus {
        BirthsStatus {
            watched: self.are_watched(),
            why: match &self.watched {
                Some(Err(why)) => Some(why.to_string()),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_births_takes_bounded_memory_and_a_list_replaces_the_others() {
        let (mut births, now) = (Births::default(), Instant::now());
        let mut follow = |id: usize| births.follow(format!("{id}").into(), Change::Appeared, now);
        assert!((0..MAX_UNKNOWN_IDS).all(&mut follow));
        assert!(!follow(MAX_UNKNOWN_IDS), "the caller requests a list");
        assert!(follow(0), "it is followed already");
    }
}
