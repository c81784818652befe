//! What is true of each sandbox and container because this process has made it so, and which answers
//! contradict that.
//!
//! ```text
//!   made ------------- may end ---- ended --- may vanish ---- gone
//!    | exists and runs    | either    | exited    | either      | does not exist
//! ```
//!
//! An answer holds at some time between its request and its arrival, so a rule applies only if the
//! journal has one value throughout this interval.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The guard may show what was confirmed this long before the list was requested (docs/guard.md).
const FRESH: Duration = Duration::from_secs(1);

/// An id that another client removed is omitted after two answers without it.
const OMITTED_WITHIN: Duration = Duration::from_secs(5);

/// What a list or a status is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sandbox,
    Container,
}

/// The states of both kinds, as far as they differ in consequence.
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
    /// A list lacks what exists.
    Omitted,
    /// A list has an id twice.
    Doubled,
    /// A state that the id does not have.
    FalseState,
    /// An exited container, or a stopped sandbox, is shown as it was before.
    Aged,
    /// A status is NotFound although the id exists.
    FalseNotFound,
    /// A list has what was removed. It costs a kubelet one status call.
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

/// From the request to the answer.
pub(super) type Interval = (Instant, Instant);

impl Life {
    fn exists_throughout(&self, (asked, answered): Interval) -> bool {
        self.made <= asked && self.may_vanish.is_none_or(|time| answered < time)
    }

    fn runs_throughout(&self, (asked, answered): Interval) -> bool {
        self.made <= asked && self.may_end.is_none_or(|time| answered < time)
    }

    /// The rule that this state breaks. `fresh` is how old the answer may be.
    fn broken_by(&self, shown: State, interval: Interval, fresh: Duration) -> Option<Rule> {
        let ended_before = |ended: Instant| ended + fresh <= interval.0;
        match shown {
            State::Runs if self.ended.is_some_and(ended_before) => Some(Rule::Aged),
            State::Ended | State::Other if self.runs_throughout(interval) => Some(Rule::FalseState),
            State::Runs | State::Ended | State::Other => None,
        }
    }
}

/// What this process has done to all sandboxes and containers.
#[derive(Debug, Default)]
pub(super) struct Journal {
    lives: BTreeMap<String, Life>,
}

impl Journal {
    /// It exists and runs from now on.
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

    /// From now on it may have ended.
    pub(super) fn may_end(&mut self, id: &str) {
        self.note(id, |life| &mut life.may_end);
    }

    /// The runtime itself has reported its end.
    pub(super) fn ended(&mut self, id: &str) {
        self.note(id, |life| &mut life.ended);
    }

    /// From now on it may have been removed.
    pub(super) fn may_vanish(&mut self, id: &str) {
        self.may_end(id);
        self.note(id, |life| &mut life.may_vanish);
    }

    /// Its removal was answered.
    pub(super) fn gone(&mut self, id: &str) {
        self.may_vanish(id);
        self.note(id, |life| &mut life.gone);
    }

    fn note(&mut self, id: &str, of: impl Fn(&mut Life) -> &mut Option<Instant>) {
        if let Some(life) = self.lives.get_mut(id) {
            of(life).get_or_insert_with(Instant::now);
        }
    }

    /// Whether it runs, and nothing was done to end it.
    pub(super) fn runs(&self, id: &str) -> bool {
        self.lives
            .get(id)
            .is_some_and(|life| life.may_end.is_none())
    }

    /// Forgets what was removed long ago.
    pub(super) fn forget_gone(&mut self, before: Instant) {
        self.lives
            .retain(|_, life| life.gone.is_none_or(|gone| gone >= before));
    }

    /// How a complete list contradicts what is known.
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
            if let Some(rule) = life.broken_by(*shown, interval, FRESH) {
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

    /// How a status contradicts what is known; `None` is NotFound.
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
    fn while_something_changes_either_answer_is_right_and_afterwards_only_one() {
        let mut journal = Journal::default();
        journal.made(Kind::Container, "a");
        let before = Instant::now();
        journal.may_end("a");
        for state in [State::Runs, State::Ended] {
            let interval = (before, Instant::now());
            assert_eq!(broken(&journal, &[("a", state)], interval), []);
        }
        journal.ended("a");
        let later = Instant::now() + FRESH;
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
    fn a_status_that_denies_what_exists_is_false() {
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
