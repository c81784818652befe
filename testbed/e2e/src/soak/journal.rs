//! Records the true state of each sandbox and container, all of which this process changes itself, and
//! finds answers that contradict it.
//!
//! ```text
//!   made ------------- may end ---- ended --- may vanish ---- gone
//!    | exists and runs    | either    | exited    | either      | does not exist
//! ```
//!
//! An answer was true at some time between its request and its arrival. So a rule applies only if the
//! journal has one value during this whole interval.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A guard may list a state that was confirmed at most this long before the request (docs/guard.md).
const MAX_AGE: Duration = Duration::from_secs(1);

/// A guard omits an id that another client removed after two answers without it.
const OMITTED_WITHIN: Duration = Duration::from_secs(5);

/// The kind of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sandbox,
    Container,
}

/// The states of both kinds that a kubelet distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// CREATED or UNKNOWN.
    Other,
    /// READY or RUNNING.
    Runs,
    /// NOTREADY or EXITED.
    Ended,
}

/// How an answer contradicts the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A list does not contain an existing id.
    Omitted,
    /// A list contains an id twice.
    Doubled,
    /// An answer shows a state that the id does not have.
    FalseState,
    /// An answer shows an exited container, or a stopped sandbox, as running.
    Aged,
    /// A status is NotFound although the id exists.
    FalseNotFound,
    /// A list contains a removed id. A kubelet then makes one more status call.
    Stale,
}

/// An answer that contradicts the journal.
#[derive(Clone, Debug)]
pub(super) struct Contradiction {
    pub(super) rule: Rule,
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) shown: Option<State>,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    kind: Kind,
    made: Instant,
    may_end: Option<Instant>,
    ended: Option<Instant>,
    may_vanish: Option<Instant>,
    gone: Option<Instant>,
}

/// The times of the request and the answer.
pub(super) type Interval = (Instant, Instant);

impl Life {
    fn exists_throughout(&self, (sent, answered): Interval) -> bool {
        self.made <= sent && self.may_vanish.is_none_or(|time| answered < time)
    }

    fn runs_throughout(&self, (sent, answered): Interval) -> bool {
        self.made <= sent && self.may_end.is_none_or(|time| answered < time)
    }

    /// The rule that an answer with this state breaks. The state may be as old as `max_age`.
    fn broken_by(&self, shown: State, interval: Interval, max_age: Duration) -> Option<Rule> {
        let ended_before = |ended: Instant| ended + max_age <= interval.0;
        match shown {
            State::Runs if self.ended.is_some_and(ended_before) => Some(Rule::Aged),
            State::Ended | State::Other if self.runs_throughout(interval) => Some(Rule::FalseState),
            State::Runs | State::Ended | State::Other => None,
        }
    }
}

/// The changes of all sandboxes and containers by this process.
#[derive(Debug, Default)]
pub(super) struct Journal {
    lives: BTreeMap<String, Life>,
}

impl Journal {
    /// Records that the id exists and runs from now on.
    pub(super) fn made(&mut self, kind: Kind, id: &str) {
        let life = Life {
            kind,
            made: Instant::now(),
            may_end: None,
            ended: None,
            may_vanish: None,
            gone: None,
        };
        self.lives.insert(id.to_owned(), life);
    }

    /// Records that the id may end from now on.
    pub(super) fn may_end(&mut self, id: &str) {
        self.note(id, |life| &mut life.may_end);
    }

    /// Records that the runtime itself has reported the end of the id.
    pub(super) fn ended(&mut self, id: &str) {
        self.note(id, |life| &mut life.ended);
    }

    /// Records that the id may be removed from now on.
    pub(super) fn may_vanish(&mut self, id: &str) {
        self.may_end(id);
        self.note(id, |life| &mut life.may_vanish);
    }

    /// Records that the removal of the id was answered.
    pub(super) fn gone(&mut self, id: &str) {
        self.may_vanish(id);
        self.note(id, |life| &mut life.gone);
    }

    fn note(&mut self, id: &str, of: impl Fn(&mut Life) -> &mut Option<Instant>) {
        if let Some(life) = self.lives.get_mut(id) {
            of(life).get_or_insert_with(Instant::now);
        }
    }

    /// Whether the id runs, and no change has begun that ends it.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.lives
            .get(id)
            .is_some_and(|life| life.may_end.is_none())
    }

    /// Forgets ids that were removed before this time.
    pub(super) fn forget_gone(&mut self, before: Instant) {
        self.lives
            .retain(|_, life| life.gone.is_none_or(|gone| gone >= before));
    }

    /// Finds the contradictions of a complete list.
    pub(super) fn check_list(
        &self,
        kind: Kind,
        rows: &[(String, State)],
        interval: Interval,
    ) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut add = |rule, id: &str, shown| {
            found.push(Contradiction {
                rule,
                kind,
                id: id.to_owned(),
                shown,
            });
        };
        let mut listed = BTreeSet::new();
        for (id, shown) in rows {
            if !listed.insert(id.as_str()) {
                add(Rule::Doubled, id, Some(*shown));
            }
            let Some(life) = self.lives.get(id) else {
                continue;
            };
            if let Some(rule) = life.broken_by(*shown, interval, MAX_AGE) {
                add(rule, id, Some(*shown));
            }
            if life
                .gone
                .is_some_and(|gone| gone + OMITTED_WITHIN <= interval.0)
            {
                add(Rule::Stale, id, Some(*shown));
            }
        }
        for (id, life) in &self.lives {
            let is_omitted = life.kind == kind && !listed.contains(id.as_str());
            if is_omitted && life.exists_throughout(interval) {
                add(Rule::Omitted, id, None);
            }
        }
        found
    }

    /// Finds the contradiction of a status. A state of `None` is NotFound.
    pub(super) fn check_status(
        &self,
        kind: Kind,
        id: &str,
        shown: Option<State>,
        interval: Interval,
    ) -> Option<Contradiction> {
        let life = self.lives.get(id)?;
        let rule = match shown {
            None => life
                .exists_throughout(interval)
                .then_some(Rule::FalseNotFound),
            Some(state) => life.broken_by(state, interval, Duration::ZERO),
        };
        rule.map(|rule| Contradiction {
            rule,
            kind,
            id: id.to_owned(),
            shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Interval {
        (Instant::now(), Instant::now())
    }

    fn broken(journal: &Journal, rows: &[(&str, State)], interval: Interval) -> Vec<Rule> {
        let rows: Vec<_> = rows
            .iter()
            .map(|(id, state)| ((*id).to_owned(), *state))
            .collect();
        let found = journal.check_list(Kind::Container, &rows, interval);
        found.into_iter().map(|found| found.rule).collect()
    }

    #[test]
    fn each_dangerous_list_is_recognized() {
        let mut journal = Journal::default();
        journal.made(Kind::Container, "a");
        journal.made(Kind::Sandbox, "s");
        assert_eq!(broken(&journal, &[("a", State::Runs)], now()), []);
        assert_eq!(broken(&journal, &[], now()), [Rule::Omitted]);
        let doubled = [("a", State::Runs), ("a", State::Runs)];
        assert_eq!(broken(&journal, &doubled, now()), [Rule::Doubled]);
        for state in [State::Ended, State::Other] {
            assert_eq!(broken(&journal, &[("a", state)], now()), [Rule::FalseState]);
        }
    }

    #[test]
    fn during_a_change_both_answers_are_right_and_after_it_only_one() {
        let mut journal = Journal::default();
        journal.made(Kind::Container, "a");
        let before = Instant::now();
        journal.may_end("a");
        for state in [State::Runs, State::Ended] {
            let interval = (before, Instant::now());
            assert_eq!(broken(&journal, &[("a", state)], interval), []);
        }
        journal.ended("a");
        let later = Instant::now() + MAX_AGE;
        let aged = broken(&journal, &[("a", State::Runs)], (later, later));
        assert_eq!(aged, [Rule::Aged]);
        journal.may_vanish("a");
        assert_eq!(broken(&journal, &[], now()), []);
        journal.gone("a");
        let later = Instant::now() + OMITTED_WITHIN;
        let stale = broken(&journal, &[("a", State::Ended)], (later, later));
        assert_eq!(stale, [Rule::Stale]);
    }

    #[test]
    fn a_status_that_is_not_found_for_an_existing_id_is_false() {
        let mut journal = Journal::default();
        journal.made(Kind::Container, "a");
        let check = |journal: &Journal, shown| {
            let found = journal.check_status(Kind::Container, "a", shown, now());
            found.map(|found| found.rule)
        };
        assert_eq!(check(&journal, None), Some(Rule::FalseNotFound));
        assert_eq!(check(&journal, Some(State::Runs)), None);
        journal.may_end("a");
        journal.ended("a");
        assert_eq!(check(&journal, Some(State::Runs)), Some(Rule::Aged));
    }
}
