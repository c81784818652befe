//! What was read of one input, and later of all inputs together.

use std::collections::{BTreeMap, BTreeSet};

use causes::finding::Culprit;
use episodes::Collector as Episodes;

use super::calls::Calls;
use super::collected::Collected;
use super::errors::Errors;
use super::outages::Outages;
use super::{Dropped, InputReport, Quote};
use crate::evidence::Evidence;
use crate::goroutines::Groups;
use crate::kernel::KernelStack;
use crate::metrics::Sample;
use crate::ps::Row;
use crate::rules::{Failure, Rules, Shown};
use crate::series::{Around, Interval, SECOND};
use crate::table::TableRow;

/// How many kernel stacks are kept. Further ones are only counted.
pub(super) const MAX_KERNEL_STACKS: usize = 1000;
const MAX_ROWS: usize = 10_000;
const MAX_INTERVALS: usize = 10_000;
pub(super) const MAX_QUOTES: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) inputs: Vec<InputReport>,
    pub(super) intervals: Vec<Interval>,
    pub(super) dropped_intervals: u64,
    pub(super) around: Around,
    pub(super) groups: Groups,
    pub(super) collected: Collected,
    pub(super) calls: Calls,
    pub(super) rules: BTreeMap<usize, Hits>,
    pub(super) kernel: Vec<(String, KernelStack)>,
    pub(super) rows: Vec<(usize, Row)>,
    pub(super) samples: Vec<Sample>,
    pub(super) timeline: Vec<Quote>,
    pub(super) dropped: Dropped,
    pub(super) episodes: Episodes,
    /// The evidence that table rows show, each with its input.
    pub(super) evidence: Vec<(String, Evidence)>,
    /// Problems without a known cause.
    pub(super) troubles: Vec<String>,
    /// What failed for an unknown reason.
    pub(super) failures: Vec<Failed>,
    pub(super) errors: Errors,
    /// The outages of the runtime in each input.
    pub(super) outages: Vec<Outages>,
    /// The largest delay of a carrier's time after the time of the line that it carries, in nanoseconds,
    /// and that line.
    pub(super) lateness: Option<(i64, Quote)>,
    /// The versions of runc that were found. If there is more than one, it is not known which of them runs.
    runc_versions: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Failed {
    pub(super) failure: &'static Failure,
    pub(super) place: String,
    pub(super) lines: u64,
}

/// The lines that a rule matched.
#[derive(Debug, Default)]
pub(super) struct Hits {
    pub(super) lines: u64,
    /// The earliest and the latest time of the lines, in nanoseconds.
    times: Option<(i64, i64)>,
    pub(super) quotes: Vec<Quote>,
    pub(super) culprit: Culprit,
    /// The headline from the first line that yields one.
    pub(super) headline: Option<String>,
    /// Whether some lines name a different culprit.
    pub(super) names_others: bool,
}

/// The maximum number of lines in a timeline: a longer one is not readable.
const MAX_TIMELINE_LINES: usize = 200;

impl Results {
    /// Adds the results of the next input.
    pub(super) fn absorb(&mut self, other: Self) {
        let first = self.inputs.len();
        self.inputs.extend(other.inputs);
        self.dropped_intervals += other.dropped_intervals;
        self.dropped_intervals += take(&mut self.intervals, other.intervals, MAX_INTERVALS);
        self.around.absorb(other.around);
        self.groups.absorb(other.groups);
        self.calls.absorb(other.calls);
        for (rule, seen) in other.rules {
            self.rules.entry(rule).or_default().absorb(seen);
        }
        self.dropped.kernel_stacks += other.dropped.kernel_stacks;
        self.dropped.kernel_stacks += take(&mut self.kernel, other.kernel, MAX_KERNEL_STACKS);
        let rows = other.rows.into_iter();
        let rows = rows.map(|(input, row)| (first + input, row));
        self.dropped.processes += other.dropped.processes;
        self.dropped.processes += take(&mut self.rows, rows.collect(), MAX_ROWS);
        self.samples.extend(other.samples);
        take(&mut self.timeline, other.timeline, MAX_TIMELINE_LINES);
        self.episodes.absorb(other.episodes);
        self.evidence.extend(other.evidence);
        self.troubles.extend(other.troubles);
        self.outages.extend(other.outages);
        self.errors.absorb(other.errors);
        for failed in other.failures {
            self.failed(failed.failure, failed.lines, || failed.place);
        }
        let longer = |late: &(i64, Quote)| self.lateness.as_ref().is_none_or(|it| it.0 < late.0);
        if let Some(late) = other.lateness.filter(longer) {
            self.lateness = Some(late);
        }
        for version in other.runc_versions {
            self.runc_is(version);
        }
    }

    pub(super) fn runc_is(&mut self, version: String) {
        if self.runc_versions.len() < 2 {
            self.runc_versions.insert(version);
        }
    }

    /// The version of runc, if only one is known.
    pub(super) fn runc(&self) -> Option<String> {
        let is_only = self.runc_versions.len() == 1;
        self.runc_versions.first().filter(|_| is_only).cloned()
    }

    /// Adds what the rules find in a row of this input.
    pub(super) fn row(&mut self, file: &str, row: &TableRow) {
        match Rules::active().of_row(row) {
            Shown::Evidence(evidence) => {
                let evidence = evidence.into_iter();
                let evidence = evidence.map(|evidence| (file.to_owned(), evidence));
                self.evidence.extend(evidence);
            }
            Shown::Failure(says) => self.trouble(file, row.line, &says),
            Shown::Nothing => {}
        }
    }

    /// Adds a problem without a known cause.
    pub(super) fn trouble(&mut self, file: &str, line: u64, says: &str) {
        self.troubles.push(format!("{file}:{line}: {says}"));
    }

    /// Adds a failure that this many lines show.
    pub(super) fn failed(
        &mut self,
        failure: &'static Failure,
        lines: u64,
        place: impl FnOnce() -> String,
    ) {
        let is_known = |failed: &&mut Failed| failed.failure.says == failure.says;
        match self.failures.iter_mut().find(is_known) {
            Some(known) => known.lines += lines,
            None => self.failures.push(Failed {
                failure,
                place: place(),
                lines,
            }),
        }
    }

    pub(super) fn add_to_timeline(&mut self, quote: Quote) {
        if self.timeline.len() < MAX_TIMELINE_LINES {
            self.timeline.push(quote);
        }
    }
}

impl Hits {
    pub(super) fn line(&mut self, time: Option<i64>) {
        self.lines += 1;
        if let Some(time) = time {
            self.spans((time, time));
        }
    }

    fn spans(&mut self, (first, last): (i64, i64)) {
        let known = self.times.unwrap_or((first, last));
        self.times = Some((known.0.min(first), known.1.max(last)));
    }

    /// The average time between the lines, from the times that are known.
    pub(super) fn apart_seconds(&self) -> Option<i64> {
        let (first, last) = self.times?;
        let gaps = i64::try_from(self.lines).ok()?.checked_sub(1)?;
        (last - first).checked_div(gaps)?.checked_div(SECOND)
    }

    pub(super) fn absorb(&mut self, other: Self) {
        self.lines += other.lines;
        if let Some(times) = other.times {
            self.spans(times);
        }
        take(&mut self.quotes, other.quotes, MAX_QUOTES);
        self.names_others |= other.names_others;
        self.headline = self.headline.take().or(other.headline);
        self.name(other.culprit);
    }

    pub(super) fn name(&mut self, named: Culprit) {
        self.names_others |= self.culprit.contradicts(&named);
        self.culprit.learn(named);
    }
}

/// Appends as many items as there is room for; returns the number of items that were left out.
fn take<T>(known: &mut Vec<T>, more: Vec<T>, most: usize) -> u64 {
    let room = most.saturating_sub(known.len());
    let left = more.len().saturating_sub(room);
    known.extend(more.into_iter().take(room));
    left as u64
}
