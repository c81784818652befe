//! Observes a runtime through an engine, for a bounded time: an engine of the doctor's own, or that
//! of an agent on the node.
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
    /// How often to ask for one.
    const INTERVAL: Duration;

    /// Whether it is an agent on the node.
    const IS_AGENT: bool;

    /// Requests a look at all pods that begins after now. Returns whether there will be one.
    fn refresh(&self) -> impl Future<Output = bool> + Send;

    /// The newest report; `None` if there will be no more.
    fn report(&self) -> impl Future<Output = Option<Observed>> + Send;
}

/// An engine in this process.
pub struct OwnEngine {
    pleg: Pleg,
}

impl OwnEngine {
    /// Starts one. Like a kubelet, it inspects one pod after the other, with one call after the
    /// other: so it is measured what they cost a kubelet.
    pub fn start(endpoint: &Endpoint, environment: Environment) -> (Self, Arc<GrpcRuntime>) {
        let runtime = Arc::new(GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE));
        let config = Config {
            // containerd 1.7 would not give the events to an agent any more.
            mode: Mode::Generic,
            max_inspections: 1,
            calls_per_pod: 1,
            max_outstanding_calls: MAX_OUTSTANDING,
            // Several calls that hang are stuck after twice this time, which is to be seen in time.
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
        // A status is not complete if it lacks what is listed; without a list, that is not known.
        let mut costs = status.costs.iter();
        let is_listed = costs.any(|cost| cost.call == Rpc::ListContainers && cost.count > 0);
        let is_complete = |entry: &Entry| !is_listed || entry.complete_as_of.is_some();
        let pods = entries.map(|entry| PodReport {
            as_of: entry
                .as_of
                .map(|at| at.wall)
                .filter(|_| is_complete(&entry)),
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

/// An observation that goes on.
pub(super) struct Observation<S> {
    pub source: S,
    /// When the runtime was first not reachable.
    unreachable: Option<Instant>,
    /// Until when what is not complete may become so.
    limit: Instant,
    latest: Instant,
    was_complete: bool,
    has_begun_anew: bool,
}

impl<S: Source> Observation<S> {
    pub fn begin(source: S, latest: Instant) -> Self {
        Self {
            source,
            unreachable: None,
            limit: latest.min(Instant::now() + OBSERVING),
            latest,
            was_complete: false,
            has_begun_anew: false,
        }
    }

    /// Observes until the report is complete and `is_enough` too, or the time is up; `None` if there
    /// are no more reports.
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

    /// What is complete may have changed since: then there is some more time.
    pub fn prolong(&mut self) {
        if self.was_complete {
            self.limit = self.latest.min(Instant::now() + OBSERVING_AGAIN);
        }
    }

    fn is_settled(&mut self, observed: &Observed) -> bool {
        let Some(why) = observed.unreachable() else {
            // What was observed until then is of a runtime that has gone, so the time begins anew, once.
            if self.unreachable.take().is_some() && !self.has_begun_anew {
                self.has_begun_anew = true;
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
