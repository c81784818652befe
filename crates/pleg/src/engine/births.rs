//! Births: an id that the runtime is about to start, or whose process has ended, is followed until a
//! status shows it.
//!
//! ```text
//!   Appeared(id)    --> status, after 20 ms and then ever longer pauses --> it has started --> hint
//!   Disappeared(id) --> the same                                        --> it has ended   --> hint
//!                         \--> something else has shown it, or five seconds have passed: dropped
//! ```
//!
//! The directory of a container appears some 100 ms before its process is started. Its name is the id
//! and nothing more: only its status shows what it is. A hint is not a fact: the inspection that
//! follows it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::call::{Call, Purpose, Question};
use super::limits::{BIRTH_PAUSE, LONGEST_BIRTH, MOST_UNKNOWN, SIDE_BY_SIDE, UNWATCHED};
use super::sweeper::about;
use crate::kernel::UnwatchedBirths;
use crate::model::id::Id;
use crate::out::status_report::BirthsStatus;
use crate::runtime::About;

/// What happened to the directory of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Appeared,
    Disappeared,
}

/// Whether births are watched, and the ids that are followed.
#[derive(Debug, Default)]
pub(crate) struct Births {
    are_watched: bool,
    why: Option<UnwatchedBirths>,
    followed: BTreeMap<Id, Followed>,
    requested: BTreeSet<Id>,
}

#[derive(Debug)]
struct Followed {
    happened: Happened,
    since: Instant,
    next: Instant,
    pause: Duration,
    /// It has no status as a container: it may be a sandbox.
    may_be_sandbox: bool,
}

/// What a status showed of an id that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// What was waited for: it has started, or has ended.
    Done,
    /// It has not yet.
    NotYet,
    /// There is no such container, or no such sandbox.
    NotFound,
    /// An error, which shows nothing.
    Nothing,
}

impl Births {
    pub(crate) fn are_watched(&self) -> bool {
        self.are_watched
    }

    pub(crate) fn watched(&mut self) {
        self.are_watched = true;
        self.why = None;
    }

    /// Births are no longer watched; says whether they were.
    pub(crate) fn unwatched(&mut self, why: UnwatchedBirths) -> bool {
        self.why = Some(why);
        std::mem::replace(&mut self.are_watched, false)
    }

    /// Follows an id; says whether there is room for it.
    pub(crate) fn follow(&mut self, id: Id, happened: Happened, now: Instant) -> bool {
        if self.followed.len() >= MOST_UNKNOWN && !self.followed.contains_key(&id) {
            return false;
        }
        let followed = Followed {
            happened,
            since: now,
            next: now + BIRTH_PAUSE,
            pause: BIRTH_PAUSE,
            may_be_sandbox: false,
        };
        self.followed.insert(id, followed);
        true
    }

    /// Drops what has been followed for long, and what is `known` by something else by the time that
    /// it would be requested.
    pub(crate) fn pass(&mut self, known: impl Fn(&Id, Happened) -> bool, now: Instant) {
        self.followed.retain(|id, followed| {
            let is_old = now >= followed.since + UNWATCHED;
            let is_known = now >= followed.next && known(id, followed.happened);
            !is_old && !is_known
        });
    }

    /// The next call to be made.
    pub(crate) fn next_call(&mut self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        if self.followed.is_empty() || !ledger.has_room() {
            return None;
        }
        if self.waited_for(ledger) >= SIDE_BY_SIDE {
            return None;
        }
        let (id, question) = self.followed.iter().find_map(|(id, followed)| {
            let question = match followed.may_be_sandbox {
                false => Question::Container(id.clone()),
                true => Question::Sandbox(id.clone()),
            };
            let is_free = !self.requested.contains(id) && !ledger.is_outstanding(&question.key());
            (now >= followed.next && is_free).then(|| (id.clone(), question))
        })?;
        let about = about(&question, None, None);
        self.requested.insert(id);
        let purpose = Purpose::Birth;
        Some((Call { question, purpose }, about))
    }

    /// How many of those that are requested may still be answered: one that is stuck takes no place
    /// from the others.
    fn waited_for(&self, ledger: &Ledger) -> usize {
        let is_stuck = |id: &Id| {
            let questions = [
                Question::Container(id.clone()),
                Question::Sandbox(id.clone()),
            ];
            let mut keys = questions.iter().map(Question::key);
            keys.any(|key| ledger.is_stuck(&key))
        };
        self.requested.iter().filter(|id| !is_stuck(id)).count()
    }

    /// What has happened to an id that is followed.
    pub(crate) fn happened(&self, id: &Id) -> Option<Happened> {
        self.followed.get(id).map(|followed| followed.happened)
    }

    /// A status was answered, or failed.
    pub(crate) fn on_status(&mut self, question: &Question, shown: Shown, now: Instant) {
        let (_, Some(id)) = question.key() else {
            return;
        };
        self.requested.remove(&id);
        let Some(followed) = self.followed.get_mut(&id) else {
            return;
        };
        let is_container = matches!(question, Question::Container(_));
        match shown {
            Shown::Done => {
                self.followed.remove(&id);
            }
            Shown::NotFound if is_container => {
                followed.may_be_sandbox = true;
                followed.next = now;
            }
            Shown::NotYet | Shown::NotFound | Shown::Nothing => {
                // A sandbox that is not found may be a container that was not found for once.
                followed.may_be_sandbox = !is_container && shown == Shown::NotYet;
                followed.pause = followed.pause * 3 / 2;
                if shown == Shown::NotYet {
                    followed.pause = followed.pause.min(LONGEST_BIRTH);
                }
                followed.next = now + followed.pause;
            }
        }
    }

    /// When the next status is to be requested.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.followed.iter();
        let waiting = waiting.filter(|(id, _)| !self.requested.contains(*id));
        // What is due and was not requested waits for room, which an answer makes, and not time.
        let alarms = waiting.map(|(_, followed)| followed.next);
        alarms.filter(|next| *next > now).min()
    }

    pub(crate) fn status(&self) -> BirthsStatus {
        BirthsStatus {
            watched: self.are_watched,
            why: self.why.as_ref().map(ToString::to_string),
        }
    }
}
