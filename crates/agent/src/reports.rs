//! Status reports for the parts of this process that use them: the doctor, the history, Kubernetes.
//!
//! ```text
//!   health or findings change, the stream opens or ends, or something is wrong --> a report a second
//!   none of that for a minute                                                  --> one every 20 seconds
//! ```
//!
//! Each report wakes the event loop. On a quiet node, one report a second caused a quarter of the
//! agent's cost.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use pleg::out::health::HealthState;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::agent::Agent;
use crate::diagnosis::findings::Known;
use crate::records::Records;

/// The time from one report to the next while something happens.
const ACTIVE_PERIOD: Duration = Duration::from_secs(1);

/// The time from one report to the next on a quiet node. It is less than 30 seconds, because an older
/// report does not renew the heartbeat in Kubernetes.
const QUIET_PERIOD: Duration = Duration::from_secs(20);

/// How long a node has to be without trouble and changes until it is quiet. Everything that waits for a
/// node to settle waits for less time.
const SETTLING_TIME: Duration = Duration::from_secs(60);

/// The newest report; `None` while nothing is known.
pub(crate) type Reports = watch::Receiver<Option<StatusReport>>;

/// Makes reports as long as they have a reader.
pub(crate) async fn make(
    agent: &Agent,
    reports: &watch::Sender<Option<StatusReport>>,
) -> Infallible {
    let Ok(mut records) = Records::subscribe(agent.clone()).await else {
        // The daemon ends for the same reason.
        return pending().await;
    };
    let mut found = agent.findings.changes();
    let mut pace = Pace::new(Instant::now());
    loop {
        if reports.is_closed() {
            return pending().await;
        }
        let report = agent.report().await.ok();
        pace.made(report.as_ref(), Instant::now());
        reports.send_replace(report);
        tokio::select! {
            () = changed(&mut records, &mut found, agent) => pace.changed(Instant::now()),
            () = sleep_until(pace.next()) => {}
        }
        sleep_until(pace.last + ACTIVE_PERIOD).await;
    }
}

/// Waits for a change that readers of reports would want to know at once.
async fn changed(records: &mut Records, found: &mut watch::Receiver<Known>, agent: &Agent) {
    let health = async {
        loop {
            match records.next().await {
                Some(Record::Health(_)) => return,
                Some(_) => {}
                // The daemon ends for the same reason.
                None => pending().await,
            }
        }
    };
    tokio::select! {
        () = health => {}
        () = agent.metrics.stream_turned() => {}
        // The sender lives as long as the agent, so this does not fail.
        Ok(()) = found.changed() => {}
    }
}

/// When the next report is made.
#[derive(Debug)]
struct Pace {
    last: Instant,
    settled: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            last: now,
            settled: now + SETTLING_TIME,
        }
    }

    fn changed(&mut self, now: Instant) {
        self.settled = now + SETTLING_TIME;
    }

    fn made(&mut self, report: Option<&StatusReport>, now: Instant) {
        self.last = now;
        if !report.is_some_and(is_quiet) {
            self.settled = now + SETTLING_TIME;
        }
    }

    fn next(&self) -> Instant {
        match self.last < self.settled {
            true => self.last + ACTIVE_PERIOD,
            false => self.last + QUIET_PERIOD,
        }
    }
}

fn is_quiet(report: &StatusReport) -> bool {
    let guard = &report.guard;
    report.health.state == HealthState::Healthy && !guard.guarding && !guard.unresponsive
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_node_that_is_healthy_for_a_minute_is_quiet_until_something_changes() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let healthy = report("Healthy", "AllSeen", &[]);
        pace.made(Some(&healthy), start + 59 * SECOND);
        assert_eq!(pace.next(), start + 60 * SECOND);
        pace.made(Some(&healthy), start + 60 * SECOND);
        assert_eq!(pace.next(), start + 80 * SECOND);
        pace.changed(start + 70 * SECOND);
        pace.made(Some(&healthy), start + 70 * SECOND);
        assert_eq!(pace.next(), start + 71 * SECOND);
    }

    #[test]
    fn a_node_in_trouble_or_unknown_is_not_quiet() {
        let start = Instant::now();
        let late = start + 3600 * SECOND;
        let degraded = report("Degraded", "ContainerStuck", &["a"]);
        let starting = report("Starting", "Starting", &[]);
        for report in [Some(degraded), Some(starting), None] {
            let mut pace = Pace::new(start);
            pace.made(report.as_ref(), late);
            assert_eq!(pace.next(), late + SECOND);
        }
    }
}
