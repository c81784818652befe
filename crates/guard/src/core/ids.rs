//! Whether every id that the runtime has is known.
//!
//! ```text
//!   host, stream --an id that no row has--> asked for as a container --has it--> a row
//!                                               | not found
//!                                               v
//!                                           asked for as a sandbox --has it--> a row
//!                                               | not found
//!                                               v
//!                                           neither, as of then: folders come before what they
//!                                           are for, so it is asked again
//! ```
//!
//! While one of them is in question a list could omit what is there, and is not answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::id::Id;
use tokio::time::Instant;

use super::HostIds;
use super::rows::{Asked, Rows};
use crate::wire::Kind;

/// How often the host is asked for ids.
const HOST: Duration = Duration::from_secs(1);

/// What the host told so long ago is not all.
const LATELY: Duration = Duration::from_secs(2);

/// One that is still in question is asked for again after this, or after so long for each of all
/// of them: most are asked for twice, as a container and as a sandbox.
const AGAIN: Duration = Duration::from_millis(500);
const AGAIN_EACH: Duration = Duration::from_millis(2);

/// One of which only a list tells in which sandbox it is.
const AGAIN_SOMEWHERE: Duration = Duration::from_secs(2);

/// How many may be in question at once.
const MOST: usize = 1024;

/// What is known of which ids there are.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    questions: BTreeMap<Id, Question>,
    /// Since when there may be some of a kind that nobody has told us of.
    missed: [Option<Instant>; 2],
    host: Host,
}

/// An id of which there is no row.
#[derive(Clone, Copy, Debug)]
struct Question {
    told: Told,
    next_as: As,
    /// When it is asked for next.
    next: Instant,
}

/// What the runtime has told of it.
#[derive(Clone, Copy, Debug)]
enum Told {
    Nothing,
    /// It is a container, in a sandbox that the runtime does not tell.
    Somewhere,
    /// No container and no sandbox had it when it was asked then, and both answers took so long.
    Neither {
        asked: Instant,
        took: Duration,
    },
}

/// As what it is asked for.
#[derive(Clone, Copy, Debug)]
enum As {
    Container,
    /// No container had it when it was asked then.
    Sandbox {
        no_container: Instant,
    },
}

impl As {
    fn kind(self) -> Kind {
        match self {
            Self::Container => Kind::Container,
            Self::Sandbox { .. } => Kind::Sandbox,
        }
    }
}

impl Question {
    /// Whether a list that is answered now may omit something because of it: what was neither so
    /// long ago that it has been asked for again since may be there.
    fn is_open(&self, again: Duration, now: Instant) -> bool {
        match self.told {
            Told::Nothing | Told::Somewhere => true,
            Told::Neither { asked, took } => now >= asked + LATELY.max((took + again) * 2),
        }
    }

    /// What was neither may have become one, which matters while lists need it.
    fn is_to_be_asked(&self, is_urgent: bool) -> bool {
        is_urgent || !matches!(self.told, Told::Neither { .. })
    }
}

/// What the host was asked.
#[derive(Clone, Debug)]
struct Host {
    asking: Option<Instant>,
    next: Instant,
    is_wanted: bool,
    knows: HostKnows,
}

/// What the host knows of the runtime's ids.
#[derive(Clone, Copy, Debug)]
enum HostKnows {
    /// It was not asked yet.
    NotAsked,
    /// It told all that there were at this time.
    All(Instant),
    /// It told more than can be asked for at once.
    More,
    /// It cannot tell.
    Nothing,
}

impl Ids {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            questions: BTreeMap::new(),
            missed: [None; 2],
            host: Host {
                asking: None,
                next: now,
                is_wanted: false,
                knows: HostKnows::NotAsked,
            },
        }
    }

    /// There may be some of this kind that nobody told us of.
    pub(super) fn may_have_missed(&mut self, kind: Kind, now: Instant) {
        self.missed[kind as usize] = Some(now);
    }

    /// Whether there may be some of this kind that nobody told us of.
    pub(super) fn missed_some(&self, kind: Kind) -> bool {
        self.missed[kind as usize].is_some()
    }

    /// A complete list was asked for at this time, and came.
    pub(super) fn saw_all(&mut self, kind: Kind, asked: Instant) {
        self.missed[kind as usize].take_if(|missed| asked >= *missed);
    }

    /// Whether all of this kind are known. What others have made is known within seconds, unless
    /// nobody can tell.
    pub(super) fn are_all_known(&self, kind: Kind, now: Instant) -> bool {
        let missed = self.missed[kind as usize];
        let host_told_all = match self.host.knows {
            HostKnows::Nothing => missed.is_none(),
            HostKnows::All(told) => now < told + LATELY && missed.is_none_or(|it| told >= it),
            HostKnows::NotAsked | HostKnows::More => false,
        };
        let again = self.again();
        let mut questions = self.questions.values();
        host_told_all && !questions.any(|question| question.is_open(again, now))
    }

    fn again(&self) -> Duration {
        let count = u32::try_from(self.questions.len()).unwrap_or(u32::MAX);
        AGAIN.max(AGAIN_EACH.saturating_mul(count))
    }

    /// There is a row of this id.
    pub(super) fn found(&mut self, id: &Id) {
        self.questions.remove(id);
    }

    /// There are rows of these ids.
    pub(super) fn found_in(&mut self, rows: &Rows) {
        self.questions.retain(|id, _| rows.get(id).is_none());
    }

    /// This is a container's, and nobody has told in which sandbox that is.
    pub(super) fn is_somewhere(&mut self, id: &Id, now: Instant) {
        self.ask_what_it_is(id, now);
        if let Some(question) = self.questions.get_mut(id) {
            question.told = Told::Somewhere;
            question.next_as = As::Container;
        }
    }

    /// No container or no sandbox has this id. An answer that took longer than `overdue` was held
    /// up: the next one comes sooner.
    pub(super) fn is_not_of(
        &mut self,
        kind: Kind,
        id: &Id,
        (asked, answered): Asked,
        overdue: Duration,
    ) {
        let Some(question) = self.questions.get_mut(id) else {
            return;
        };
        match (question.next_as, kind) {
            // It was one: a single answer does not make it none.
            (As::Container, Kind::Container) if matches!(question.told, Told::Somewhere) => {
                question.told = Told::Nothing;
                question.next = answered + AGAIN;
            }
            (As::Container, Kind::Container) => {
                let no_container = asked;
                question.next_as = As::Sandbox { no_container };
                question.next = answered;
            }
            (As::Sandbox { no_container }, Kind::Sandbox) => {
                // A client may have asked for the container before.
                let asked = asked.min(no_container);
                let took = answered.saturating_duration_since(asked).min(overdue);
                question.told = Told::Neither { asked, took };
                question.next_as = As::Container;
                // What was announced came before, and is gone.
                if matches!(self.host.knows, HostKnows::Nothing) {
                    self.found(id);
                }
            }
            (As::Container, Kind::Sandbox) | (As::Sandbox { .. }, Kind::Container) => {}
        }
    }

    /// Somebody spoke of this id.
    pub(super) fn on_met(&mut self, id: &Id, rows: [&Rows; 2], now: Instant) {
        if !is_known(id, rows) && !self.ask_what_it_is(id, now) {
            for kind in [Kind::Sandbox, Kind::Container] {
                self.may_have_missed(kind, now);
            }
        }
    }

    /// The host told the ids that it knows.
    pub(super) fn on_host_ids(&mut self, told: HostIds, rows: [&Rows; 2], now: Instant) {
        let Some(asked) = self.host.asking.take() else {
            return;
        };
        let ids = match (told, self.host.knows) {
            (HostIds::All(ids), _) => ids,
            // What it has told once it can tell: there are none any more.
            (HostIds::CannotTell, HostKnows::All(_) | HostKnows::More) => Vec::new(),
            (HostIds::CannotTell, HostKnows::NotAsked | HostKnows::Nothing) => {
                self.host.knows = HostKnows::Nothing;
                return;
            }
            (HostIds::Unread, _) => return,
        };
        self.host.knows = HostKnows::All(asked);
        let ids: BTreeSet<Id> = ids.into_iter().collect();
        self.questions
            .retain(|id, it| ids.contains(id) || !matches!(it.told, Told::Neither { .. }));
        for id in &ids {
            if !is_known(id, rows) && !self.ask_what_it_is(id, now) {
                self.host.knows = HostKnows::More;
            }
        }
    }

    /// Says whether there is room for it. What there is none for is found by a list, or by the host.
    fn ask_what_it_is(&mut self, id: &Id, now: Instant) -> bool {
        let is_in_question = self.questions.contains_key(id);
        let has_room = self.questions.len() < MOST;
        if has_room && !is_in_question {
            let question = Question {
                told: Told::Nothing,
                next_as: As::Container,
                next: now,
            };
            self.questions.insert(id.clone(), question);
        }
        has_room || is_in_question
    }

    pub(super) fn ask_host_soon(&mut self) {
        self.host.is_wanted = true;
    }

    /// Whether there is more to know than what lists need now.
    fn is_urgent(&self, lists_need_it: bool) -> bool {
        lists_need_it || self.missed.iter().any(Option::is_some)
    }

    /// Whether the host is to be asked now, which it then is.
    pub(super) fn asks_host(&mut self, lists_need_it: bool, now: Instant) -> bool {
        let is_urgent = self.is_urgent(lists_need_it);
        let host = &mut self.host;
        host.is_wanted |= is_urgent;
        let is_due = host.is_wanted && host.asking.is_none() && now >= host.next;
        if is_due {
            host.asking = Some(now);
            host.next = now + HOST;
            host.is_wanted = false;
        }
        is_due
    }

    /// Whether this is in question.
    pub(super) fn has(&self, id: &Id) -> bool {
        self.questions.contains_key(id)
    }

    /// Which are to be asked for now, as what.
    pub(super) fn due(&self, lists_need_it: bool, now: Instant) -> Vec<(Id, Kind)> {
        let is_urgent = self.is_urgent(lists_need_it);
        let questions = self.questions.iter();
        let due = questions.filter(|(_, it)| now >= it.next && it.is_to_be_asked(is_urgent));
        due.map(|(id, it)| (id.clone(), it.next_as.kind()))
            .collect()
    }

    /// It is asked for. Whatever the answer is, it is not asked for again at once.
    pub(super) fn asked(&mut self, id: &Id, now: Instant) {
        let again = self.again();
        if let Some(question) = self.questions.get_mut(id) {
            question.next = now
                + match question.told {
                    Told::Somewhere => again.max(AGAIN_SOMEWHERE),
                    Told::Nothing | Told::Neither { .. } => again,
                };
        }
    }

    /// When something is due; of questions only if calls may be made.
    pub(super) fn alarm(&self, may_ask: bool) -> impl Iterator<Item = Instant> {
        let host = self.host.is_wanted && self.host.asking.is_none();
        let questions = self.questions.values();
        let questions = questions.filter(move |it| may_ask && it.is_to_be_asked(false));
        let host = host.then_some(self.host.next);
        host.into_iter().chain(questions.map(|it| it.next))
    }
}

/// Whether there is a row of it, or it was removed. What the runtime only lacked may exist after all.
fn is_known(id: &Id, rows: [&Rows; 2]) -> bool {
    rows.iter()
        .any(|rows| rows.get(id).is_some() || rows.is_removed(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_knows_of_more_ids_than_can_be_in_question_has_not_told_all() {
        let now = Instant::now();
        let rows = [Rows::new(Kind::Sandbox), Rows::new(Kind::Container)];
        let told = |count: usize| {
            let mut ids = Ids::new(now);
            assert!(ids.asks_host(true, now));
            let named = (0..count).map(|id| Id::from(id.to_string())).collect();
            ids.on_host_ids(HostIds::All(named), [&rows[0], &rows[1]], now);
            // Those that there was room for turn out to be known.
            for id in 0..MOST {
                ids.found(&Id::from(id.to_string()));
            }
            ids.are_all_known(Kind::Container, now)
        };
        assert!(told(10));
        assert!(!told(2 * MOST));
    }

    #[test]
    fn one_answer_does_not_make_none_of_what_was_a_container() {
        let now = Instant::now();
        let mut ids = Ids::new(now);
        let id = Id::from("it");
        ids.is_somewhere(&id, now);
        let lacks = |ids: &mut Ids, kind| ids.is_not_of(kind, &id, (now, now), LATELY);
        lacks(&mut ids, Kind::Container);
        lacks(&mut ids, Kind::Sandbox);
        assert!(ids.questions[&id].is_open(AGAIN, now));
        lacks(&mut ids, Kind::Container);
        lacks(&mut ids, Kind::Sandbox);
        assert!(!ids.questions[&id].is_open(AGAIN, now));
    }

    #[test]
    fn what_is_neither_is_so_for_as_long_as_a_slow_runtime_takes_to_say_it_again() {
        let start = Instant::now();
        let mut ids = Ids::new(start);
        let id = Id::from("it");
        assert!(ids.ask_what_it_is(&id, start));
        // Each call takes 1.5 s.
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let overdue = Duration::from_secs(5);
        ids.is_not_of(Kind::Container, &id, (at(0.0), at(1.5)), overdue);
        ids.is_not_of(Kind::Sandbox, &id, (at(1.5), at(3.0)), overdue);
        assert!(!ids.questions[&id].is_open(AGAIN, at(6.5)));
        assert!(ids.questions[&id].is_open(AGAIN, at(7.5)));
    }

    #[test]
    fn that_it_was_neither_before_its_status_hung_says_nothing_of_now() {
        let start = Instant::now();
        let mut ids = Ids::new(start);
        let id = Id::from("it");
        assert!(ids.ask_what_it_is(&id, start));
        let at = |seconds| start + Duration::from_secs(seconds);
        let overdue = Duration::from_secs(5);
        ids.is_not_of(Kind::Container, &id, (at(0), at(0)), overdue);
        ids.is_not_of(Kind::Sandbox, &id, (at(0), at(14)), overdue);
        assert!(ids.questions[&id].is_open(AGAIN, at(14)));
    }
}
