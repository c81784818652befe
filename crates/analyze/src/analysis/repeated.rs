//! Failures and rules of which not every line counts: some last until something else is logged, others
//! count for each container apart.

use std::collections::BTreeMap;

use super::names;
use super::results::Seen;
use crate::rules::{Counted, Failure};
use crate::series::SECOND;

const MAX_CONTAINERS: usize = 500;
/// After this time without a line, or this many others if they have no time, it is over.
const SILENCE: i64 = 60 * SECOND;
const OTHER_LINES: u64 = 40;

/// Such failures in one input.
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
    /// Another line; returns what counts it.
    fn line(&mut self, number: u64, time: Option<i64>) -> &mut T {
        self.last = (number, time.or(self.last.1));
        &mut self.counter
    }

    /// Whether it lasts at the end of the input.
    fn lasts(&self, lines: u64, time: Option<i64>) -> bool {
        let (number, last) = self.last;
        match last.zip(time) {
            Some((last, end)) => end - last <= SILENCE,
            None => lines - number <= OTHER_LINES,
        }
    }
}

impl Repeated {
    /// What was seen of a rule that counts until it is over, of which this is another line.
    pub(super) fn of(&mut self, rule: usize, number: u64, time: Option<i64>) -> &mut Seen {
        self.of_rules.entry(rule).or_default().line(number, time)
    }

    /// The rules that hold at the end of the input.
    pub(super) fn end_of_rules(
        &mut self,
        lines: u64,
        time: Option<i64>,
    ) -> impl Iterator<Item = (usize, Seen)> + use<> {
        let of_rules = std::mem::take(&mut self.of_rules).into_iter();
        let lasting = of_rules.filter(move |(_, lasting)| lasting.lasts(lines, time));
        lasting.map(|(rule, lasting)| (rule, lasting.counter))
    }

    /// A line of this number shows a failure; returns whether it is one of these.
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

    /// The node is ready, or the API server has taken it.
    pub(super) fn is_over(&mut self) {
        self.lasting.clear();
        self.of_rules.clear();
    }

    /// What failed at the end of the input, which has this many lines, and the last has this time:
    /// the failure, how many lines show it, and the number of the first.
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
