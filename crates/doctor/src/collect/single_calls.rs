//! Calls that an engine does not make: `Status`, by which the runtime reports about itself, and the calls for
//! the statistics of all containers. Each is made once.

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

/// Calls for statistics take longer than others, because the runtime reads them from every container.
const STATISTICS_HANG_AFTER: Duration = Duration::from_secs(6);

/// A call that is outstanding, or has ended.
struct SingleCall<T> {
    rpc: Rpc,
    call: JoinHandle<(Result<T, CallError>, f64)>,
    /// When the call was requested.
    since: Instant,
    /// When the call was sent.
    sent: Arc<OnceLock<Instant>>,
    hangs_after: Duration,
}

impl<T: Send + 'static> SingleCall<T> {
    /// Makes the call. If the version of CRI is not known, `Version` is called first.
    fn make<F: Future<Output = Result<T, CallError>> + Send>(
        rpc: Rpc,
        hangs_after: Duration,
        runtime: Arc<GrpcRuntime>,
        is_version_known: bool,
        call: impl FnOnce(Arc<GrpcRuntime>) -> F + Send + 'static,
    ) -> Self {
        let sent = Arc::new(OnceLock::new());
        let send_time = sent.clone();
        let call = tokio::spawn(async move {
            if !is_version_known && let Err(error) = runtime.version().await {
                return (Err(error), 0.0);
            }
            let sent = *send_time.get_or_init(Instant::now);
            let answer = call(runtime).await;
            (answer, sent.elapsed().as_secs_f64())
        });
        Self {
            rpc,
            call,
            since: Instant::now(),
            sent,
            hangs_after,
        }
    }

    /// Whether the call has ended or hangs.
    fn is_decided(&self) -> bool {
        let since = self.sent.get().unwrap_or(&self.since);
        self.call.is_finished() || since.elapsed() >= self.hangs_after
    }

    /// How the call ended, if that is evidence about the runtime, and the answer.
    async fn end(self) -> (Option<Probe>, Option<T>) {
        let probe = |end, seconds| Some(Probe::new(self.rpc, end, seconds));
        if !self.call.is_finished() {
            self.call.abort();
            let age = self.sent.get().map(Instant::elapsed);
            let age = age.filter(|age| *age >= self.hangs_after);
            return (
                age.and_then(|age| probe(End::Hung, age.as_secs_f64())),
                None,
            );
        }
        match self.call.await {
            Ok((Ok(answer), seconds)) => (probe(End::Answered, seconds), Some(answer)),
            // The engine already reports that there is no connection.
            Ok((Err(CallError::Unavailable(_)), _)) | Err(_) => (None, None),
            Ok((Err(error), seconds)) => (probe(End::Failed(bounded_error(error)), seconds), None),
        }
    }
}

/// The call of `Status`, and those for statistics.
pub(super) struct SingleCalls {
    status: SingleCall<Conditions>,
    statistics: Vec<SingleCall<()>>,
}

impl SingleCalls {
    /// Makes the calls; those for statistics only if `with_statistics`.
    pub fn make(runtime: &Arc<GrpcRuntime>, is_version_known: bool, with_statistics: bool) -> Self {
        let statistics = STATISTICS
            .into_iter()
            .filter(|_| with_statistics)
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

    /// Whether each call has ended or hangs. If other calls hang or fail (`has_trouble`), the statistics do
    /// not matter.
    pub fn are_decided(&self, has_trouble: bool) -> bool {
        let mut statistics = self.statistics.iter();
        self.status.is_decided() && (has_trouble || statistics.all(SingleCall::is_decided))
    }

    /// How the calls ended, and what the runtime reports about itself. Calls that the runtime does not
    /// implement are left out: statistics are optional.
    pub async fn end(self) -> (Vec<Probe>, Option<Conditions>) {
        let (status, conditions) = self.status.end().await;
        let mut probes = Vec::from_iter(status);
        for call in self.statistics {
            let (probe, _) = call.end().await;
            let is_implemented =
                |probe: &Probe| !matches!(probe.end, End::Failed(CallError::Unimplemented(_)));
            probes.extend(probe.filter(is_implemented));
        }
        (probes, conditions.map(bounded_conditions))
    }
}
