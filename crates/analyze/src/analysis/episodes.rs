//! Makes episodes from lines, for a timeline.
//!
//! ```text
//!   a call that timed out ------\
//!   a line that shows a cause ---+--> Collector: repeated episodes become one
//!   not ready, ready, started --/         |
//!   a task blocked in the kernel -/         |
//!   conditions, the series, outages ------+--> conclude: without lines of causes that were not found
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causes::Cause;
use causes::finding::{Culprit, Finding};
use episodes::{Collector, Episode, Source, What};
use pleg_text::{GoDuration, WallTime};

use super::Quote;
use super::calls::Method;
use crate::kernel::KernelStack;
use crate::output::NotReady;
use crate::rules::{Found, Interest};
use crate::series::Interval;

/// How many nodes in one input are distinguished.
pub(super) const MAX_HOSTS: usize = 16;

/// The default of `runtimeRequestTimeout`: how long a kubelet waits for a list or a status.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The open NotReady episode of each node, according to its kubelet's log.
#[derive(Debug, Default)]
pub(super) struct Readiness(BTreeMap<Vec<u8>, Episode>);

impl Readiness {
    /// Reads a line about a node's readiness, or about a start of the kubelet or the runtime.
    pub(super) fn line(
        &mut self,
        node: &[u8],
        found: &Found,
        quote: impl Fn() -> Quote,
        to: &mut Collector,
    ) {
        let mut started = |what, reason| {
            let quote = quote();
            if let Some(time) = quote.time {
                to.add(Episode::at(time, what, reason).written(quote.source()));
            }
        };
        if found.is(Interest::Start) {
            started(What::KubeletStarted, "the kubelet has started");
        }
        if found.is(Interest::RuntimeStart) {
            started(What::RuntimeStarted, "the runtime has started");
        }
        if found.is(Interest::NotReady) {
            self.not_ready(node, quote());
        }
        if found.is(Interest::Ready)
            && let Some(mut episode) = self.0.remove(node)
        {
            episode.to = quote().time;
            to.add(episode);
        }
    }

    fn not_ready(&mut self, node: &[u8], quote: Quote) {
        let is_known = self.0.contains_key(node) || self.0.len() == MAX_HOSTS;
        let Some(time) = quote.time.filter(|_| !is_known) else {
            return;
        };
        let reason = "the kubelet reported that the node is not ready";
        let episode = Episode::new(time, None, What::NotReady, reason);
        self.0
            .insert(node.to_owned(), episode.written(quote.source()));
    }

    /// The episodes that are still open at the end of the input, whose last line has this time.
    pub(super) fn end(self, last: Option<WallTime>) -> impl Iterator<Item = Episode> {
        let open = self.0.into_values();
        open.map(move |episode| episode.seen_until(last))
    }
}

impl Quote {
    pub(super) fn source(self) -> Source {
        Source {
            file: self.file,
            line: Some(self.line),
            text: self.text,
        }
    }
}

/// The episode of a call that timed out at the quote's time.
pub(super) fn late_call(method: Method, target: Culprit, quote: Quote) -> Option<Episode> {
    let call = method.name()?;
    let to = quote.time?;
    let (from, reason) = match method.waits_for_request_timeout() {
        true => (
            to.before(REQUEST_TIMEOUT),
            format!("{call} timed out; a kubelet waits for it for 2m0s by default"),
        ),
        false => (to, format!("{call} timed out")),
    };
    let what = What::HungCall { call };
    let episode = Episode::new(from, Some(to), what, reason);
    Some(episode.about(target).written(quote.source()))
}

/// The episode of a task that the kernel reported as blocked at the quote's time.
pub(super) fn blocked(task: KernelStack, quote: Quote) -> Option<Episode> {
    let to = quote.time?;
    let from = to.before(Duration::from_secs(task.blocked_seconds.unwrap_or(0)));
    let reason = "the kernel reported that the task was blocked; by default it reports \
                  ten tasks in all";
    let culprit = Culprit::of_process(task.process, task.pid);
    let episode = Episode::new(from, Some(to), What::TaskBlocked, reason);
    Some(episode.about(culprit).written(quote.source()))
}

/// The episode of a node whose conditions show that it was not Ready.
pub(super) fn not_ready(seen: &NotReady, file: &str) -> Episode {
    let nanos = seen.since.as_unix_nanos();
    let quote = Quote::new(file, seen.line, Some(nanos), seen.text.as_bytes());
    let episode = Episode::new(seen.since, None, What::NotReady, &*seen.says);
    let episode = episode.seen_until(Some(seen.reported));
    episode.written(quote.source())
}

/// The episode of a line that supports a cause.
pub(super) fn sign(cause: Cause, culprit: Culprit, quote: Quote) -> Option<Episode> {
    let title = cause.about().title.as_str();
    let episode = Episode::at(quote.time?, What::Sign { cause }, title);
    Some(episode.about(culprit).written(quote.source()))
}

/// Adds episodes for the intervals in which a kubelet reported that its PLEG was not healthy.
pub(super) fn of_series(intervals: &[Interval], quotes: &[Quote], to: &mut Collector) {
    let time = WallTime::from_unix_nanos;
    let first_line = |start| quotes.iter().find(|quote| quote.time == Some(start));
    for interval in intervals.iter().filter(|interval| !interval.is_startup()) {
        let times = [interval.start, interval.end].map(|nanos| nanos.and_then(time));
        let [Some(start), Some(end)] = times else {
            continue;
        };
        let ended = |end| Some(end).filter(|_| interval.closed);
        let peak = Duration::from_nanos(interval.peak().unsigned_abs());
        let peak = GoDuration(Duration::from_secs(peak.as_secs()));
        let began = interval.relist_began().and_then(time);
        let reason = match began {
            Some(_) => {
                format!("the kubelet skipped all pods; no relist had completed for up to {peak}")
            }
            None => {
                "the kubelet skipped all pods; no relist had completed since it started".to_owned()
            }
        };
        let episode = Episode::new(start, ended(end), What::PodsSkipped, reason);
        let mut episode = episode.seen_until(Some(end));
        episode.count = interval.lines;
        episode.source = first_line(start).cloned().map(Quote::source);
        to.add(episode);
        if let Some(began) = began {
            let reason = "the last relist that completed began here";
            let episode = Episode::new(began, ended(end), What::NoRelist, reason);
            to.add(episode.seen_until(Some(end)));
        }
    }
}

/// All episodes in order of time, and the number of those that were dropped. Lines that support a cause are
/// left out unless the cause was found, because some are common at every start.
pub(super) fn conclude(all: Collector, findings: &[Finding]) -> (Vec<Episode>, u64) {
    let found: BTreeSet<Cause> = findings.iter().map(|finding| finding.cause).collect();
    let (mut all, dropped) = all.sorted();
    all.retain(|episode| match episode.what {
        What::Sign { cause } => found.contains(&cause),
        _ => true,
    });
    (all, dropped)
}
