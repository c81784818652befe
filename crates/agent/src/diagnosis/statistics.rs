//! Detects that the runtime does not answer calls for statistics, from the counts of a guard, which answers
//! such calls of a kubelet in place of the runtime, or ends them with an error. The agent itself makes no
//! such call, because the runtime would have to read every container's statistics.

use std::time::Duration;

use pleg::out::status_report::StatusReport;
use tokio::time::Instant;

/// How far apart the first and the last of the guard's calls must be, since a single list may be slow. A
/// kubelet makes the next call ten seconds after an answer.
const MIN_DURATION: Duration = Duration::from_secs(15);

/// The longest time from one of these calls to the next: a kubelet waits for an answer for two minutes.
const MAX_CALL_INTERVAL: Duration = Duration::from_secs(180);

/// The calls for statistics that the guard answered or ended.
#[derive(Debug, Default)]
pub(super) struct GuardedStatistics {
    /// How many calls there were; `None` before the first report.
    count: Option<u64>,
    /// When the number of calls first and last grew, in a series without longer pauses.
    grown: Option<(Instant, Instant)>,
}

impl GuardedStatistics {
    /// Whether the runtime does not answer calls for statistics, after this report.
    pub(super) fn are_overdue(&mut self, report: Option<&StatusReport>, now: Instant) -> bool {
        if let Some(report) = report {
            let figures = [&report.guard.answers, &report.guard.given_up];
            let figures = figures.into_iter().flatten();
            let statistics = figures.filter(|(rpc, _)| rpc.is_statistics());
            let count = statistics.map(|(_, count)| count).sum();
            // A guard that was restarted counts from zero.
            if self.count.replace(count).is_some_and(|known| count > known) {
                let first = self.grown.map_or(now, |(first, _)| first);
                self.grown = Some((first, now));
            }
        }
        self.grown
            .take_if(|(_, last)| now >= *last + MAX_CALL_INTERVAL);
        self.grown
            .is_some_and(|(first, last)| last >= first + MIN_DURATION)
    }
}

#[cfg(test)]
mod tests {
    use pleg::runtime::Rpc;

    use super::*;
    use crate::sample_report::report;

    /// The seconds at which statistics become overdue and at which that is over, if the guard has answered
    /// or ended `count` calls by each second.
    fn overdue(count: impl Fn(u64) -> u64) -> Vec<u64> {
        let (began, mut statistics) = (Instant::now(), GuardedStatistics::default());
        let (mut was_overdue, mut changes) = (false, Vec::new());
        for second in 0..1000 {
            let mut report = report("Healthy", "AllSeen", &[]);
            let (answered, ended) = (count(second) / 2, count(second).div_ceil(2));
            report.guard.answers = [(Rpc::ListContainerStats, answered)].into();
            report.guard.given_up =
                [(Rpc::ListPodSandboxStats, ended), (Rpc::Version, second)].into();
            let now = began + Duration::from_secs(second);
            if statistics.are_overdue(Some(&report), now) != was_overdue {
                was_overdue = !was_overdue;
                changes.push(second);
            }
        }
        changes
    }

    #[test]
    fn statistics_are_overdue_while_the_guard_answers_or_ends_one_call_after_the_other() {
        // Seven earlier ones, and one every ten seconds.
        let from = |first: u64, last: u64, each: u64| {
            move |second: u64| {
                7 + second
                    .clamp(first - each, last)
                    .saturating_sub(first - each)
                    / each
            }
        };
        assert_eq!(overdue(from(100, 300, 10)), [120, 480]);
        // A kubelet that waits until its deadline.
        assert_eq!(overdue(from(200, 600, 130)), [330, 770]);
    }

    #[test]
    fn neither_a_single_slow_list_nor_a_restarted_guard_makes_statistics_overdue() {
        let never: [u64; 0] = [];
        assert_eq!(overdue(|_| 0), never);
        assert_eq!(overdue(|second| u64::from(second >= 100)), never);
        assert_eq!(overdue(|second| 9 * u64::from(second < 100)), never);
        assert_eq!(overdue(|second| second / 300), never);
    }
}
