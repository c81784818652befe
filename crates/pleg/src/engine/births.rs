//! Births. After the kernel has reported that the task directory of an id appeared or disappeared,
//! the status of the id is requested until it shows the change.
//!
//! ```text
//!   Appeared(id)    --> status, after 50 ms and again --> it has started --> hint
//!   Disappeared(id) --> the same                      --> it has ended   --> hint
//!                         \--> known from another source, or after 5 s: dropped
//! ```
//!
//! The directory of a container appears about 100 ms before its process starts. Its name is the id
//! and nothing more, so only a status shows what the id is. The hint causes an inspection, which is
//! the fact.

use std::collections::BTreeMap;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::call::{Call, Purpose, Request};
use super::limits::{BIRTH_PAUSE, FIRST_RETRY_PAUSE, MAX_UNKNOWN_IDS, PARALLEL_CALLS};
use super::sweeper::about;
use crate::kernel::UnwatchedBirths;
use crate::model::id::Id;
use crate::out::status_report::BirthsStatus;
use crate::records::diff::State;
use crate::runtime::About;

/// What happened to the directory of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Appeared,
    Disappeared,
}

/// Whether births are watched, and the ids that are followed.
#[derive(Debug, Default)]
pub(crate) struct Births {
    are_watched: bool,
    why: Option<UnwatchedBirths>,
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

/// What a status showed of an id that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The change: it has started, or has ended.
    Done,
    /// Not the change yet.
    NotYet,
    /// There is no such container, or no such sandbox.
    NotFound,
    /// Nothing: an error, or the id is not followed any more.
    Nothing,
}

impl Births {
    pub(crate) fn are_watched(&self) -> bool {
        self.are_watched
    }

    pub(crate) fn on_watched(&mut self) {
        self.are_watched = true;
        self.why = None;
    }

    /// Births are no longer watched. Returns whether they were.
    pub(crate) fn on_unwatched(&mut self, why: UnwatchedBirths) -> bool {
        self.why = Some(why);
        std::mem::replace(&mut self.are_watched, false)
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

    /// Stops following ids after a time, and ids whose change `is_known` once their next request is
    /// due.
    pub(crate) fn drop_finished(&mut self, is_known: impl Fn(&Id, Change) -> bool, now: Instant) {
        self.followed.retain(|id, followed| {
            let is_old = now >= followed.since + FIRST_RETRY_PAUSE;
            let has_become_known = now >= followed.next && is_known(id, followed.change);
            !is_old && !has_become_known
        });
    }

    /// The next call, if one is due.
    pub(crate) fn next_call(&self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        if self.followed.is_empty() || !ledger.has_room() {
            return None;
        }
        if self.count_awaited(ledger) >= PARALLEL_CALLS {
            return None;
        }
        let due = self.followed.iter();
        let mut due = due.filter(|(_, followed)| now >= followed.next);
        let request = due.find_map(|(id, followed)| {
            let request = followed.request(id);
            (!ledger.is_outstanding(&request.key())).then_some(request)
        })?;
        let about = about(&request, None, None);
        let purpose = Purpose::Birth;
        Some((Call { request, purpose }, about))
    }

    /// How many of the requested calls may still be answered. A stuck call takes no place from the
    /// others.
    fn count_awaited(&self, ledger: &Ledger) -> usize {
        let requests = self.followed.iter();
        let requests = requests.map(|(id, followed)| followed.request(id));
        requests
            .filter(|request| ledger.is_awaited(&request.key()))
            .count()
    }

    /// What a status that shows an id in this state means for the change that is awaited of it.
    pub(crate) fn shown(&self, id: &Id, state: State) -> Shown {
        let change = self.followed.get(id).map(|followed| followed.change);
        match (change, state) {
            (None, _) => Shown::Nothing,
            (Some(Change::Appeared), State::Running | State::Exited) => Shown::Done,
            (Some(Change::Disappeared), State::Exited | State::Unknown) => Shown::Done,
            (Some(_), _) => Shown::NotYet,
        }
    }

    /// A status call ended.
    pub(crate) fn on_status(&mut self, request: &Request, shown: Shown, now: Instant) {
        let (_, Some(id)) = request.key() else {
            return;
        };
        let Some(followed) = self.followed.get_mut(&id) else {
            return;
        };
        let is_container = matches!(request, Request::Container(_));
        match shown {
            Shown::Done => {
                self.followed.remove(&id);
            }
            Shown::NotFound if is_container => {
                followed.is_sandbox_next = true;
                followed.next = now;
            }
            Shown::NotYet | Shown::NotFound | Shown::Nothing => {
                // A sandbox that is not found may be a container that was not found by mistake.
                followed.is_sandbox_next = !is_container && shown == Shown::NotYet;
                followed.pause = match shown {
                    Shown::NotYet => BIRTH_PAUSE,
                    _ => followed.pause * 3 / 2,
                };
                followed.next = now + followed.pause;
            }
        }
    }

    /// When the next status call is due.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        let alarms = self.followed.values().map(|followed| followed.next);
        // What is already due is requested, or waits for room: an answer ends that, not time.
        alarms.filter(|next| *next > now).min()
    }

    pub(crate) fn status(&self) -> BirthsStatus {
        BirthsStatus {
            watched: self.are_watched,
            why: self.why.as_ref().map(ToString::to_string),
        }
    }
}
