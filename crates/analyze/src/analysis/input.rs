//! An input that is being read.

use std::sync::Arc;

use pleg_text::WallTime;

use super::InputReport;
use super::episodes::{self, Readiness};
use super::heads::Heads;
use super::outages::OutageReader;
use super::repeated::Repeated;
use super::results::{MAX_KERNEL_STACKS, Results};
use super::services::Services;
use super::stalls::Stalls;
use crate::goroutines::{ProfileReader, StackReader};
use crate::kernel::KernelStackReader;
use crate::kind::Kind;
use crate::line::calendar::Calendar;
use crate::line::pasted::Pasted;
use crate::line::prefix::Carried;
use crate::line::stamp::Stamp;
use crate::metrics::Exposition;
use crate::output::OutputReader;
use crate::ps::PsReader;
use crate::rules::Found;
use crate::series::{Interval, Intervals};

#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// The line with its prefixes.
    pub(super) text: &'a [u8],
    /// What its prefixes show, and the rest of the line.
    pub(super) carried: Carried<'a>,
    /// The rules and other texts that were found in the line.
    pub(super) found: &'a Found,
}

#[derive(Debug, Default)]
pub(super) struct Input {
    pub(super) path: Arc<str>,
    pub(super) results: Results,
    pub(super) lines: u64,
    pub(super) unread: u64,
    /// The number of lines of each kind.
    kinds: [u64; Kind::COUNT],
    /// How many lines of each kind have the form of a log. The others were recognised only by their words.
    formed: [u64; Kind::COUNT],
    pub(super) calendar: Calendar,
    /// A time with a year, read after times without one.
    pub(super) learnt_late: Option<Stamp>,
    /// The time of the first line that has one.
    pub(super) first: Option<Stamp>,
    /// The time of the last line that has one.
    pub(super) last: Option<Stamp>,
    /// The value of `last` before the current line.
    pub(super) before: Option<Stamp>,
    pub(super) hosts: Vec<(Vec<u8>, Intervals)>,
    pub(super) stacks: StackReader,
    pub(super) profile: ProfileReader,
    pub(super) kernel: KernelStackReader,
    pub(super) ps: PsReader,
    pub(super) metrics: Exposition,
    pub(super) output: OutputReader,
    /// The number and the text of the last line that was not recognised.
    pub(super) unread_line: Option<(u64, Vec<u8>)>,
    /// Whether the previous line was in klog's format, whose messages may span several lines.
    pub(super) in_klog: bool,
    /// When the kubelet last started, by its log.
    pub(super) started: Option<i64>,
    pub(super) outages: OutageReader,
    pub(super) services: Services,
    pub(super) stalls: Stalls,
    pub(super) pasted: Pasted,
    pub(super) heads: Heads,
    pub(super) readiness: Readiness,
    pub(super) repeated: Repeated,
}

impl Input {
    pub(super) fn new(path: &str, latest: WallTime) -> Self {
        Self {
            path: path.into(),
            calendar: Calendar::until(latest),
            ..Self::default()
        }
    }

    /// Counts a line of this kind.
    pub(super) fn read_as(&mut self, kind: Kind) {
        self.kinds[kind as usize] += 1;
    }

    /// Counts a line of this kind that has the form of a log.
    pub(super) fn read_by_form_as(&mut self, kind: Kind) {
        self.read_as(kind);
        self.formed[kind as usize] += 1;
    }

    /// Counts lines of this kind that were first counted as unread.
    pub(super) fn read_after_all(&mut self, kind: Kind, lines: u64) {
        self.unread = self.unread.saturating_sub(lines);
        self.kinds[kind as usize] += lines;
    }

    /// Moves complete stacks to the results.
    pub(super) fn drain(&mut self) {
        let results = &mut self.results;
        for stack in self.stacks.take_done().chain(self.profile.take_done()) {
            results.groups.add(stack, &self.path);
        }
        for stack in self.kernel.take_done() {
            if results.kernel.len() < MAX_KERNEL_STACKS {
                results.kernel.push((self.path.to_string(), stack));
            } else {
                results.dropped.kernel_stacks += 1;
            }
        }
    }

    fn kind(&self) -> Kind {
        let counted = Kind::KNOWN.map(|kind| (self.kinds[kind as usize], kind));
        let read = counted.into_iter().filter(|(count, _)| *count > 0);
        let formed = |kind: Kind| self.formed[kind as usize];
        let most = read.max_by_key(|&(count, kind)| (count, formed(kind), std::cmp::Reverse(kind)));
        let (is_output, output) = (self.output.saw_command(), Kind::ToolOutput as usize);
        match most {
            // crictl logs in the kubelet's format before it prints an error.
            Some((count, Kind::KubeletLog)) if is_output && self.kinds[output] == count => {
                Kind::ToolOutput
            }
            Some((_, kind)) => kind,
            None if is_output => Kind::ToolOutput,
            None => Kind::Unknown,
        }
    }

    /// By how many nanoseconds all times of the input are to be shifted, because its year or time zone was
    /// learnt late.
    fn correction(&self) -> i64 {
        let (Some(late), Some(last)) = (&self.learnt_late, &self.last) else {
            return 0;
        };
        let before = self.calendar;
        let mut after = before;
        if !before.has_year() {
            after.learn(late);
        }
        let moved = after.resolve(last).zip(before.resolve(last));
        moved.map_or(0, |(after, before)| after - before)
    }

    /// Ends the input, perhaps because of an error.
    pub(super) fn end(mut self, error: Option<String>) -> Results {
        self.read_last_head();
        self.stacks.finish();
        self.profile.finish();
        self.kernel.finish();
        self.drain();
        let mut results = std::mem::take(&mut self.results);
        results.groups.add_unlisted(self.profile.unlisted());
        // In its own results, this input has the index 0.
        let rows = self.ps.take_rows().into_iter().map(|row| (0, row));
        results.rows.extend(rows);
        results.samples.extend_from_slice(self.metrics.samples());
        let is_dated = |stamp: Stamp| stamp.day.is_some() && stamp.year.is_none();
        let lacks_year = !self.knows_year() && self.last.is_some_and(is_dated);
        let kind = self.kind();
        let last = self.last.and_then(|stamp| self.calendar.resolve(&stamp));
        let correction = self.correction();
        for quote in &mut results.timeline {
            quote.shift(correction);
        }
        let first = self.first.and_then(|stamp| self.calendar.resolve(&stamp));
        let mut from = first.or(last).and_then(WallTime::from_unix_nanos);
        let mut until = last.and_then(WallTime::from_unix_nanos);
        for episode in self.readiness.end(until) {
            results.episodes.add(episode);
        }
        results.episodes.shift(correction);
        from = from.map(|time| time.shifted(correction));
        until = until.map(|time| time.shifted(correction));
        let output = self.output.end();
        // Conditions have complete times.
        for seen in output.not_ready {
            from = from.or(Some(seen.since)).min(Some(seen.since));
            until = until.max(Some(seen.since.max(seen.reported)));
            results.episodes.add(episodes::not_ready(&seen, &self.path));
        }
        for (_, intervals) in self.hosts {
            results.around.starts += intervals.starts();
            let (mut intervals, dropped) = intervals.end(last);
            let shift = |interval: &mut Interval| interval.shift(correction);
            intervals.iter_mut().for_each(shift);
            results.dropped_intervals += dropped;
            results.intervals.extend(intervals);
        }
        for evidence in output.evidence {
            results.evidence.push((self.path.to_string(), evidence));
        }
        for trouble in output.troubles {
            results.trouble(&self.path, trouble.line, &trouble.says);
        }
        for error in output.errors {
            let place = || format!("{}:{}", self.path, error.line);
            results.errors.line(error.says.as_bytes(), place);
        }
        let (recovered, failing) = self.services.end();
        for row in recovered {
            results.row(&self.path, &row);
        }
        for (line, says) in failing {
            results.trouble(&self.path, line, &says);
        }
        let (rules, failures) = self.repeated.end(self.lines, last);
        for (rule, seen) in self.stalls.end().chain(rules) {
            results.rules.entry(rule).or_default().absorb(seen);
        }
        for counter in failures {
            let place = || format!("{}:{}", self.path, counter.line);
            results.failed(counter.failure, counter.lines, place);
        }
        if let Some(mut outages) = self.outages.end(last) {
            outages.shift(correction);
            results.outages.push(outages);
        }
        results.inputs.push(InputReport {
            path: self.path.to_string(),
            kind,
            lines: self.lines,
            unread_lines: self.unread,
            read_from: from,
            read_until: until,
            lacks_dates: self.last.is_some_and(|stamp| stamp.day.is_none()),
            lacks_year,
            error,
        });
        results
    }
}
