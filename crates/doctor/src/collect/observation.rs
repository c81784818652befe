//! Observes a runtime through an engine for a bounded time: through one in this process, or that of an agent
//! on the node.
//!
//! ```text
//!   engine --report--> complete? --no, and there is time--> the next report
//!                         |
//!                         \-- yes: the machine is read --> is it still complete? --> facts
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cri::Endpoint;
use pleg::model::status::PodStatus;
use pleg::out::cache::Entry;
use pleg::out::pods::PodReport;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{NoConnection, Rpc};
use pleg::{Config, Environment, Mode, Pleg};
use tokio::time::{Instant, sleep};

use super::observed::Observed;
use crate::limits::{HANGS_AFTER, MAX_OUTSTANDING, OBSERVING, OBSERVING_AGAIN, RESTARTS_WITHIN};

/// A source of reports.
pub trait Source: Send + Sync {
    /// How often a report is requested.
    const INTERVAL: Duration;

    /// Whether it is an agent on the node.
    const IS_AGENT: bool;

    /// Requests a relist that begins after now. Returns whether there will be one.
    fn refresh(&self) -> impl Future<Output = bool> + Send;

    /// The newest report; `None` if there will be no more.
    fn report(&self) -> impl Future<Output = Option<Observed>> + Send;
}

/// An engine in this process.
pub struct OwnEngine {
    pleg: Pleg,
}

impl OwnEngine {
    /// Starts an engine. It inspects one pod after the other, with one call after the other, as a kubelet
    /// does, so that the measured costs are those of a kubelet.
    pub fn start(endpoint: &Endpoint, environment: Environment) -> (Self, Arc<GrpcRuntime>) {
        let runtime = Arc::new(GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE));
        let config = Config {
            // If the doctor received containerd 1.7's events, an agent would no longer receive them.
            mode: Mode::Generic,
            max_inspections: 1,
            calls_per_pod: 1,
            max_outstanding_calls: MAX_OUTSTANDING,
            // If several calls hang, they are stuck only after twice this time, which must fit into the
            // time for observing.
            status_overdue: HANGS_AFTER,
            ..Config::default()
        };
        let pleg = Pleg::start(runtime.clone(), config, environment);
        (Self { pleg }, runtime)
    }
}

impl Source for OwnEngine {
    const INTERVAL: Duration = Duration::from_millis(25);
    const IS_AGENT: bool = false;

    async fn refresh(&self) -> bool {
        self.pleg.request_relist();
        true
    }

    async fn report(&self) -> Option<Observed> {
        let status = self.pleg.status().await.ok()?;
        let entries = self.pleg.cache().all().into_iter();
        // If containers are listed, a pod is observed only once its status contains everything that is
        // listed of it.
        let mut costs = status.costs.iter();
        let is_listed = costs.any(|cost| cost.call == Rpc::ListContainers && cost.count > 0);
        let is_observed = |entry: &Entry| !is_listed || entry.complete_as_of.is_some();
        let pods = entries.map(|entry| PodReport {
            as_of: entry
                .as_of
                .filter(|_| is_observed(&entry))
                .map(|at| at.wall),
            status: PodStatus::clone(&entry.status),
            error: entry.error.as_ref().map(|error| error.to_string()),
            static_pod: None,
        });
        Some(Observed {
            pods: pods.collect(),
            status,
        })
    }
}

/// An observation in progress.
pub(super) struct Observation<S> {
    pub source: S,
    /// When the runtime became unreachable, if it is unreachable now.
    unreachable: Option<Instant>,
    /// The deadline: when the observation ends even if it is not complete.
    limit: Instant,
    /// The latest time to which `limit` may be moved.
    latest: Instant,
    was_complete: bool,
    /// Whether `limit` was moved after the runtime had been unreachable, which happens at most once.
    is_restarted: bool,
}

impl<S: Source> Observation<S> {
    pub fn begin(source: S, latest: Instant) -> Self {
        Self {
            source,
            unreachable: None,
            limit: latest.min(Instant::now() + OBSERVING),
            latest,
            was_complete: false,
            is_restarted: false,
        }
    }

    /// Observes until the report is complete and `is_enough` holds, or the time is up; `None` if there are no
    /// more reports.
    pub async fn complete(
        &mut self,
        mut is_enough: impl AsyncFnMut(&Observed) -> bool,
    ) -> Option<Observed> {
        loop {
            let observed = self.source.report().await?;
            let is_up = Instant::now() >= self.limit;
            let is_settled = self.is_settled(&observed);
            self.was_complete = is_enough(&observed).await && is_settled;
            if self.was_complete || is_up {
                return Some(observed);
            }
            sleep(S::INTERVAL).await;
        }
    }

    /// Allows more time if the last report was complete, because the next one may not be.
    pub fn prolong(&mut self) {
        if self.was_complete {
            self.limit = self.latest.min(Instant::now() + OBSERVING_AGAIN);
        }
    }

    /// Whether the report is complete, or the runtime stays unreachable.
    fn is_settled(&mut self, observed: &Observed) -> bool {
        let Some(why) = observed.unreachable() else {
            // Earlier reports are about a previous runtime process, so the time for observing is restarted
            // once.
            if self.unreachable.take().is_some() && !self.is_restarted {
                self.is_restarted = true;
                self.limit = self.latest.min(Instant::now() + OBSERVING);
            }
            return observed.is_complete();
        };
        let may_pass = !matches!(
            why.cause,
            NoConnection::Forbidden | NoConnection::NotASocket
        );
        let since = *self.unreachable.get_or_insert_with(Instant::now);
        !may_pass || since.elapsed() >= RESTARTS_WITHIN
    }
}
