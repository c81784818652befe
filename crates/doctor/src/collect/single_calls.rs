//! Calls that no engine needs, each made once: `Status`, which is what the runtime reports about itself,
//! and those for the statistics of all containers.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pleg::runtime::grpc::GrpcRuntime;
use pleg::runtime::{CallError, Conditions, Rpc, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::bounded::{bounded_conditions, bounded_error};
use crate::facts::probes::{End, Probe, STATISTICS};
use crate::limits::HANGS_AFTER;

/// Statistics are read from every container, so that they take longer than other calls.
const STATISTICS_HANG_AFTER: Duration = Duration::from_secs(6);

/// A call that is outstanding, or has ended.
struct SingleCall<T> {
    rpc: Rpc,
    call: JoinHandle<(Result<T, CallError>, f64)>,
    /// When it was wanted.
    since: Instant,
    /// When it was made.
    made: Arc<OnceLock<Instant>>,
    hangs_after: Duration,
}

impl<T: Send + 'static> SingleCall<T> {
    /// Makes it, after `Version` if that is not yet known: it settles the version of CRI.
    fn make<F: Future<Output = Result<T, CallError>> + Send>(
        rpc: Rpc,
        hangs_after: Duration,
        runtime: Arc<GrpcRuntime>,
        is_version_known: bool,
        call: impl FnOnce(Arc<GrpcRuntime>) -> F + Send + 'static,
    ) -> Self {
        let made = Arc::new(OnceLock::new());
        let begun = made.clone();
        let call = tokio::spawn(async move {
            if !is_version_known && let Err(error) = runtime.version().await {
                return (Err(error), 0.0);
            }
            let begun = *begun.get_or_init(Instant::now);
            let answer = call(runtime).await;
            (answer, begun.elapsed().as_secs_f64())
        });
        Self {
            rpc,
            call,
            since: Instant::now(),
            made,
            hangs_after,
        }
    }

    /// Whether it has ended, or is outstanding for as long as a call that hangs.
    fn is_decided(&self) -> bool {
        let since = self.made.get().unwrap_or(&self.since);
        self.call.is_finished() || since.elapsed() >= self.hangs_after
    }

    /// How it ended, as far as that says something about the runtime, and what it answered.
    async fn end(self) -> (Option<Probe>, Option<T>) {
        let probe = |end, seconds| Probe {
            call: self.rpc,
            id: None,
            end,
            seconds,
            by_agent: false,
            bytes: None,
            pod: None,
            container: None,
        };
        if !self.call.is_finished() {
            self.call.abort();
            let age = self.made.get().map(Instant::elapsed);
            let age = age.filter(|age| *age >= self.hangs_after);
            return (age.map(|age| probe(End::Hung, age.as_secs_f64())), None);
        }
        match self.call.await {
            Ok((Ok(answer), seconds)) => (Some(probe(End::Answered, seconds)), Some(answer)),
            // The engine reports that there is no connection.
            Ok((Err(CallError::Unavailable(_)), _)) | Err(_) => (None, None),
            Ok((Err(error), seconds)) => {
                let failed = End::Failed(bounded_error(error));
                (Some(probe(failed, seconds)), None)
            }
        }
    }
}

/// All of them.
pub(super) struct SingleCalls {
    status: SingleCall<Conditions>,
    statistics: Vec<SingleCall<()>>,
}

impl SingleCalls {
    /// Makes them. dockerd takes a second for the statistics of each container, so it is not called for
    /// them: `has_statistics`.
    pub fn make(runtime: &Arc<GrpcRuntime>, is_version_known: bool, has_statistics: bool) -> Self {
        let statistics = STATISTICS
            .into_iter()
            .filter(|_| has_statistics)
            .map(|rpc| {
                SingleCall::make(
                    rpc,
                    STATISTICS_HANG_AFTER,
                    runtime.clone(),
                    is_version_known,
                    move |runtime| async move { runtime.answers(rpc).await },
                )
            });
        Self {
            statistics: statistics.collect(),
            status: SingleCall::make(
                Rpc::Status,
                HANGS_AFTER,
                runtime.clone(),
                is_version_known,
                |runtime| async move { runtime.conditions().await },
            ),
        }
    }

    /// Whether each has ended, or hangs. Statistics say nothing where other calls hang.
    pub fn are_decided(&self, has_trouble: bool) -> bool {
        let mut statistics = self.statistics.iter();
        self.status.is_decided() && (has_trouble || statistics.all(SingleCall::is_decided))
    }

    /// How they ended, and what the runtime reports about itself. Runtimes need not have each of the
    /// statistics.
    pub async fn end(self) -> (Vec<Probe>, Option<Conditions>) {
        let (status, conditions) = self.status.end().await;
        let mut probes = Vec::from_iter(status);
        for call in self.statistics {
            let (probe, _) = call.end().await;
            let is_there =
                |probe: &Probe| !matches!(probe.end, End::Failed(CallError::Unimplemented(_)));
            probes.extend(probe.filter(is_there));
        }
        (probes, conditions.map(bounded_conditions))
    }
}
