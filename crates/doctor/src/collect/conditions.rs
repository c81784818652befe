//! `Status`, which no engine needs: what the runtime reports about itself.

use std::sync::{Arc, OnceLock};

use pleg::runtime::grpc::GrpcRuntime;
use pleg::runtime::{CallError, Conditions, Rpc, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::bounded::{bounded_conditions, bounded_error};
use crate::facts::probes::{End, Probe};
use crate::limits::HANGS_AFTER;

/// A call of `Status` that is outstanding, or has ended.
pub(super) struct StatusCall {
    call: JoinHandle<(Result<Conditions, CallError>, f64)>,
    /// When it was wanted.
    since: Instant,
    /// When it was made.
    made: Arc<OnceLock<Instant>>,
}

impl StatusCall {
    /// Makes it, after `Version` if that is not yet known: it settles the version of CRI.
    pub fn make(runtime: Arc<GrpcRuntime>, is_version_known: bool) -> Self {
        let made = Arc::new(OnceLock::new());
        let begun = made.clone();
        let call = tokio::spawn(async move {
            if !is_version_known && let Err(error) = runtime.version().await {
                return (Err(error), 0.0);
            }
            let begun = *begun.get_or_init(Instant::now);
            let answer = runtime.conditions().await;
            (answer, begun.elapsed().as_secs_f64())
        });
        Self {
            call,
            since: Instant::now(),
            made,
        }
    }

    /// Whether it has ended, or is outstanding for as long as a call that hangs.
    pub fn is_decided(&self) -> bool {
        let since = self.made.get().unwrap_or(&self.since);
        self.call.is_finished() || since.elapsed() >= HANGS_AFTER
    }

    /// How it ended, as far as that says something about the runtime, and what it answered.
    pub async fn end(self) -> (Option<Probe>, Option<Conditions>) {
        let probe = |end, seconds| Probe {
            call: Rpc::Status,
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
            let age = age.filter(|age| *age >= HANGS_AFTER);
            return (age.map(|age| probe(End::Hung, age.as_secs_f64())), None);
        }
        match self.call.await {
            Ok((Ok(conditions), seconds)) => {
                let conditions = bounded_conditions(conditions);
                (Some(probe(End::Answered, seconds)), Some(conditions))
            }
            // The engine reports that there is no connection.
            Ok((Err(CallError::Unavailable(_)), _)) | Err(_) => (None, None),
            Ok((Err(error), seconds)) => {
                let failed = End::Failed(bounded_error(error));
                (Some(probe(failed, seconds)), None)
            }
        }
    }
}
