//! What this process observes and does, for the parts that serve, record or report it.

use std::sync::Arc;
use std::time::Duration;

use pleg::Pleg;
use pleg::model::wall_time::{Moment, system_clock};
use pleg::out::cache::Stopped;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use tokio::time::{Instant, timeout};

use crate::diagnosis::findings::Findings;
use crate::guard::Guard;
use crate::static_pods::StaticPods;
use crate::{Metrics, pod_reports};

/// How long to wait for the event loop. A loop that runs answers within this time.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);

/// The parts of an agent.
#[derive(Clone)]
pub struct Agent {
    /// The PLEG that observes the runtime.
    pub pleg: Pleg,
    /// The metrics of this process.
    pub metrics: Arc<Metrics>,
    /// The guard in front of the runtime, which may come and go; `None` if none is configured.
    pub guard: Option<Guard>,
    /// What diagnoses of the node have found.
    pub findings: Findings,
    /// The static pods that this process keeps running; `None` unless it is `pleg run`.
    pub static_pods: Option<Arc<dyn StaticPods>>,
}

/// Why the state of this process is not known.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum NoReport {
    /// The event loop has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The event loop does not answer in time.
    #[error("the event loop is not running")]
    Stuck,
}

impl Agent {
    /// The status report, with what the guard does and what diagnoses have found.
    pub(crate) async fn report(&self) -> Result<StatusReport, NoReport> {
        let guard = async {
            match &self.guard {
                Some(guard) => Some(guard.report().await),
                None => None,
            }
        };
        let (report, guard) = tokio::join!(self.own_report(), guard);
        let mut report = report?;
        if let Some(guard) = guard {
            let now = Moment {
                instant: Instant::now(),
                wall: system_clock()(),
            };
            guard.show(&mut report, now);
            self.metrics.show_added(guard.added());
        }
        self.findings.show(&mut report);
        Ok(report)
    }

    /// The status report without what the guard does and what diagnoses have found.
    pub(crate) async fn own_report(&self) -> Result<StatusReport, NoReport> {
        let report = timeout(TURN_TIMEOUT, self.pleg.status()).await;
        Ok(report.map_err(|_| NoReport::Stuck)??)
    }

    /// All pods; the static ones with their progress.
    pub(crate) fn pods(&self) -> Vec<PodReport> {
        let reports = pod_reports(&self.pleg);
        match &self.static_pods {
            Some(of) => of.complete(reports),
            None => reports,
        }
    }
}
