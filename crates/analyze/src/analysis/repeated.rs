//! Failures and rules of which not every line counts: some last until another line shows that they are over,
//! others are counted per container.

use std::collections::BTreeMap;

use super::names;
use super::results::Seen;
use crate::rules::{Counted, Failure};
use crate::series::SECOND;

const MAX_CONTAINERS: usize = 500;
/// A failure is over after this time without a line, or after this many other lines if they have no time.
const SILENCE: i64 = 60 * SECOND;
const OTHER_LINES: u64 = 40;

/// The failures and rules of this kind in one input.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    lasting: BTreeMap<&'static str, Lasting<Counter>>,
    of_rules: BTreeMap<usize, Lasting<Seen>>,
    /// Lines, by what failed and the container.
    per_container: BTreeMap<(&'static str, String), Counter>,
}

#[derive(Debug)]
struct Counter {
    failure: &'static Failure,
    lines: u64,
    /// The number of the first line.
    line: u64,
}

#[derive(Debug, Default)]
struct Lasting<T> {
    counter: T,
    /// The number and the time of the last line.
    last: (u64, Option<i64>),
}

impl<T> Lasting<T> {
    /// Notes another line, and returns what counts it.
    fn line(&mut self, number: u64, time: Option<i64>) -> &mut T {
        self.last = (number, time.or(self.last.1));
        &mut self.counter
    }

    /// Whether it still lasts at the end of the input.
    fn lasts(&self, lines: u64, time: Option<i64>) -> bool {
        let (number, last) = self.last;
        match last.zip(time) {
            Some((last, end)) => end - last <= SILENCE,
            None => lines - number <= OTHER_LINES,
        }
    }
}

impl Repeated {
    /// What counts a line of a rule that counts until it is over.
    pub(super) fn of_rule(&mut self, rule: usize, number: u64, time: Option<i64>) -> &mut Seen {
        self.of_rules.entry(rule).or_default().line(number, time)
    }

    /// The rules that still hold at the end of the input.
    pub(super) fn end_of_rules(
        &mut self,
        lines: u64,
        time: Option<i64>,
    ) -> impl Iterator<Item = (usize, Seen)> + use<> {
        let of_rules = std::mem::take(&mut self.of_rules).into_iter();
        let lasting = of_rules.filter(move |(_, lasting)| lasting.lasts(lines, time));
        lasting.map(|(rule, lasting)| (rule, lasting.counter))
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
                if self.per_container.len() < MAX_CONTAINERS {
                    let key = (failure.says.as_str(), container);
                    self.per_container.entry(key).or_insert_with(new).lines += 1;
                }
            }
        }
        true
    }

    /// Forgets what lasts: the node is ready, or registered with the API server.
    pub(super) fn end_lasting(&mut self) {
        self.lasting.clear();
        self.of_rules.clear();
    }

    /// The failures that count at the end of the input, with the number of lines and the number of the first.
    /// The input has `lines` lines, and `time` is that of the last one.
    pub(super) fn end(
        self,
        lines: u64,
        time: Option<i64>,
    ) -> impl Iterator<Item = (&'static Failure, u64, u64)> {
        let lasting = self.lasting.into_values();
        let lasting = lasting.filter(move |lasting| lasting.lasts(lines, time));
        let lasting = lasting.map(|lasting| lasting.counter);
        let all = lasting.chain(self.per_container.into_values());
        all.filter(|counter| counter.lines >= counter.failure.lines)
            .map(|counter| (counter.failure, counter.lines, counter.line))
    }
}
