//! Failures and rules for which not every line counts: some last until another line shows that they are
//! over, others are counted for each container.

use std::collections::BTreeMap;

use super::names;
use super::results::Hits;
use crate::rules::{Counted, Failure};
use crate::series::SECOND;

const MAX_CONTAINERS: usize = 500;
/// A failure is over after this time without a line that shows it.
const OVER_AFTER: i64 = 60 * SECOND;
const OTHER_LINES: u64 = 40;

/// The failures and rules in one input for which not every line counts.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    lasting: BTreeMap<&'static str, Lasting<Counter>>,
    of_rules: BTreeMap<usize, Lasting<Hits>>,
    /// Failures that are counted per container, by what failed and the container.
    per_container: BTreeMap<(&'static str, String), Counter>,
}

/// How many lines show a failure.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) failure: &'static Failure,
    pub(super) lines: u64,
    /// The number of the first line.
    pub(super) line: u64,
}

#[derive(Debug, Default)]
struct Lasting<T> {
    counter: T,
    /// The number and the time of the last line.
    last: (u64, Option<i64>),
}

impl<T> Lasting<T> {
    /// Records another line, and returns its counter.
    fn line(&mut self, number: u64, time: Option<i64>) -> &mut T {
        self.last = (number, time.or(self.last.1));
        &mut self.counter
    }

    /// Whether the failure or rule still lasts at the end of an input of this many lines, which ends at
    /// this time.
    fn lasts(&self, lines: u64, time: Option<i64>) -> bool {
        let (number, last) = self.last;
        match last.zip(time) {
            Some((last, end)) => end - last <= OVER_AFTER,
            None => lines - number <= OTHER_LINES,
        }
    }
}

impl Repeated {
    /// The counter for a line of a rule that counts only while it lasts.
    pub(super) fn of_rule(&mut self, rule: usize, number: u64, time: Option<i64>) -> &mut Hits {
        self.of_rules.entry(rule).or_default().line(number, time)
    }

    /// Counts a line that shows a failure; returns false if the caller has to count it.
    pub(super) fn line(
        &mut self,
        failure: &'static Failure,
        line: &[u8],
        number: u64,
        time: Option<i64>,
    ) -> bool {
        let new = || Counter {
            failure,
            lines: 0,
            line: number,
        };
        match failure.counted {
            Counted::Together => return false,
            Counted::UntilOver => {
                let lasting = self.lasting.entry(&failure.says);
                let lasting = lasting.or_insert_with(|| Lasting {
                    counter: new(),
                    last: (number, time),
                });
                lasting.line(number, time).lines += 1;
            }
            Counted::PerContainer => {
                let container = names::id(line).unwrap_or_default();
                let key = (failure.says.as_str(), container);
                let is_known = self.per_container.contains_key(&key);
                if is_known || self.per_container.len() < MAX_CONTAINERS {
                    self.per_container.entry(key).or_insert_with(new).lines += 1;
                }
            }
        }
        true
    }

    /// Forgets all lasting failures and rules, because the node is ready or registered with the API server.
    pub(super) fn end_lasting(&mut self) {
        self.lasting.clear();
        self.of_rules.clear();
    }

    /// Ends an input of this many lines, whose last line has this time. Returns the rules and the failures
    /// that count.
    pub(super) fn end(self, lines: u64, time: Option<i64>) -> (Vec<(usize, Hits)>, Vec<Counter>) {
        let rules = self.of_rules.into_iter();
        let rules = rules.filter(|(_, lasting)| lasting.lasts(lines, time));
        let rules = rules.map(|(rule, lasting)| (rule, lasting.counter));
        let lasting = self.lasting.into_values();
        let lasting = lasting.filter(|lasting| lasting.lasts(lines, time));
        let failures = lasting.map(|lasting| lasting.counter);
        let failures = failures.chain(self.per_container.into_values());
        let failures = failures.filter(|counter| counter.lines >= counter.failure.lines);
        (rules.collect(), failures.collect())
    }
}
