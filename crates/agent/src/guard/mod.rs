//! The agent's side of the guard, a separate process in front of the runtime: the guard's status, and the
//! route of the agent's calls.
//!
//! ```text
//!   report: the current status ------------\
//!   follow: the next status that differs ---+--Client--> /run/pleg/cri.sock: the guard
//!   route:  can it reach the runtime? -----/                    |
//!   calls of the agent --through the guard----------------------+--> runtime
//!                       \-directly, while the guard does not respond--^
//! ```
//!
//! Each request to the guard has a deadline. Once the guard does not respond, reports say so and do not
//! wait for it until it is back.

use std::convert::Infallible;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cri::Endpoint;
use guard_api::{Client, Error, Status, StatusRequest};
use pleg::model::wall_time::Moment;
use pleg::out::health::{HealthReport, Reason};
use pleg::out::status_report::{GuardStatus, StatusReport};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

mod guarded_runtime;
mod liveness;
mod route;
mod show;
mod view;

pub use guarded_runtime::GuardedRuntime;

use liveness::Liveness;
use show::reason_alone;

/// How long a report waits for the guard, which answers from memory.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the first request for the status waits, and one for which the guard connects to the runtime.
const REACH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long [`Guard::follow`] waits for an answer, which a guard delays for five seconds while nothing
/// changes.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(8);

/// The pause of [`Guard::follow`] after an answer.
const PAUSE_AFTER_ANSWER: Duration = Duration::from_millis(100);
/// Its pause while the guard does not respond.
const PAUSE_WHILE_UNRESPONSIVE: Duration = Duration::from_secs(1);
/// Its pause while there is no guard. Each report requests the status too, so it shows a new guard at once.
const PAUSE_WHILE_ABSENT: Duration = Duration::from_secs(10);

/// A handle to the guard in front of one runtime. The guard itself may be absent. Clones share their state.
#[derive(Clone, Debug)]
pub struct Guard {
    client: Client,
    runtime: Arc<Path>,
    liveness: watch::Sender<Liveness>,
}

impl Guard {
    /// The guard that listens on `socket` in front of the runtime on `runtime`.
    pub fn new(socket: impl Into<PathBuf>, runtime: &Endpoint) -> Self {
        Self {
            client: Client::new(socket),
            runtime: runtime.path().into(),
            liveness: watch::Sender::default(),
        }
    }

    /// Requests the guard's status, and records its answer or the error.
    async fn request(&self, request: StatusRequest, within: Duration) -> Result<Status, Error> {
        let answer = self.client.status(request, within).await;
        let now = Instant::now();
        self.liveness.send_if_modified(|liveness| {
            let after = liveness.after(&answer, &self.runtime, now);
            match (&*liveness, &after) {
                (Liveness::Unresponsive(..), Liveness::Unresponsive(..)) => {}
                (_, Liveness::Unresponsive(..)) => {
                    tracing::warn!("the guard does not respond: {}", failure_text(&answer));
                }
                (Liveness::Unresponsive(..), Liveness::Answers(_)) => {
                    tracing::info!("the guard responds again");
                }
                _ => {}
            }
            let differs = *liveness != after;
            *liveness = after;
            differs
        });
        answer
    }

    /// The guard's current state. If the guard did not respond the last time, no request is made:
    /// [`follow`](Self::follow) finds out when it responds again.
    async fn current(&self) -> Liveness {
        if !matches!(*self.liveness.borrow(), Liveness::Unresponsive(..)) {
            let _ = self.request(StatusRequest::default(), REPORT_TIMEOUT).await;
        }
        self.liveness.borrow().clone()
    }

    /// Whether there is a guard.
    pub(crate) async fn is_present(&self) -> bool {
        self.current().await != Liveness::Absent
    }

    /// Requests the guard's status until this future is dropped, so that each change is known at once.
    pub(crate) async fn follow(&self) -> Infallible {
        loop {
            let revision = self.liveness.borrow().view().map(|view| view.revision);
            let request = StatusRequest {
                seen: revision.unwrap_or_default(),
                reach: false,
            };
            let within = match revision {
                Some(_) => CHANGE_TIMEOUT,
                None => REACH_TIMEOUT,
            };
            let _ = self.request(request, within).await;
            let pause = match *self.liveness.borrow() {
                Liveness::Answers(_) => PAUSE_AFTER_ANSWER,
                Liveness::Unresponsive(..) => PAUSE_WHILE_UNRESPONSIVE,
                Liveness::Absent => PAUSE_WHILE_ABSENT,
            };
            sleep(pause).await;
        }
    }

    /// The guard's current state, for a report.
    pub(crate) async fn report(&self) -> GuardReport {
        GuardReport(self.current().await)
    }

    /// Adds what the guard does to a change of our health.
    pub(crate) fn show_change(&self, health: &mut HealthReport) {
        if let Some(view) = self.liveness.borrow().view() {
            view.show_change(health);
        }
    }

    /// The changes of the reason for which the guard makes the node Degraded.
    pub(crate) fn reason_changes(&self) -> ReasonChanges {
        let mut liveness = self.liveness.subscribe();
        let reason = degraded_reason(&liveness.borrow_and_update());
        ReasonChanges { liveness, reason }
    }
}

/// The state of a guard, for a report.
pub(crate) struct GuardReport(Liveness);

impl GuardReport {
    /// Adds what the guard does to the report.
    pub(crate) fn show(&self, report: &mut StatusReport, now: Moment) {
        match &self.0 {
            Liveness::Absent => {}
            Liveness::Answers(view) => view.show(report, now),
            Liveness::Unresponsive(since, last) => {
                if let Some(last) = last {
                    last.show_unresponsive(report, *since, now);
                }
                let known = std::mem::take(&mut report.guard);
                report.guard = GuardStatus {
                    unresponsive: true,
                    ..known
                };
            }
        }
    }

    /// How much time the guard added to the calls that it passed; `None` without a guard.
    pub(crate) fn added(&self) -> Option<&guard_api::Added> {
        self.0.last().map(|view| &view.added)
    }
}

/// The changes of the reason for which a guard makes the node Degraded.
#[derive(Debug)]
pub(crate) struct ReasonChanges {
    liveness: watch::Receiver<Liveness>,
    reason: Option<Reason>,
}

impl ReasonChanges {
    /// Waits until the reason differs from the last one.
    pub(crate) async fn next(&mut self) {
        let last = self.reason;
        let change = self
            .liveness
            .wait_for(|liveness| degraded_reason(liveness) != last);
        match change.await.map(|liveness| degraded_reason(&liveness)) {
            Ok(reason) => self.reason = reason,
            Err(_) => pending().await,
        }
    }
}

fn degraded_reason(liveness: &Liveness) -> Option<Reason> {
    liveness.view().and_then(reason_alone)
}

/// Why there was no answer, in words.
fn failure_text(answer: &Result<Status, Error>) -> String {
    match answer {
        Ok(_) => "its answer cannot be used".to_owned(),
        Err(error) => {
            let source = std::error::Error::source(error);
            let source = source.map(|why| format!(": {why}"));
            format!("{error}{}", source.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::liveness::tests::{RUNTIME, in_phase};
    use super::view::Phase;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_becomes_overdue_at_the_guard_is_a_change_and_so_is_its_end() {
        let since = Instant::now();
        let guard = Guard::new("/run/guard.sock", &Endpoint::new(RUNTIME));
        let mut changes = guard.reason_changes();
        for (phase, is_change) in [
            (Phase::Waiting { since }, true),
            (Phase::Refusing { since }, false),
            (Phase::Guarding { since }, true),
            (Phase::Passing, true),
        ] {
            guard.liveness.send_replace(in_phase(phase));
            let change = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
            assert_eq!(change.is_ok(), is_change, "{phase:?}");
        }
    }
}
