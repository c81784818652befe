//! Static pods beside the daemon. `pleg run` supplies them: this crate contains no code that changes pods.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use pleg::Pleg;
use pleg::out::pods::PodReport;

use crate::guard::GuardedRuntime;

/// Why static pods cannot be kept running.
pub type StaticPodsError = Box<dyn Error + Send + Sync>;

/// The static pods of a node.
pub trait StaticPods: fmt::Debug + Send + Sync {
    /// Keeps the static pods running until the future is dropped. `pleg` reports what was observed of
    /// them, and `runtime` answers calls that read. Returns only if the pods cannot be kept running.
    fn keep(
        &self,
        pleg: Pleg,
        runtime: Arc<GuardedRuntime>,
    ) -> Pin<Box<dyn Future<Output = StaticPodsError> + Send + '_>>;

    /// The node's Ready condition as JSON, or `None` before the runtime has answered.
    fn ready_condition(&self) -> Option<String>;

    /// Adds to the reports what is known of static pods, including those that the runtime does not have
    /// yet.
    fn complete(&self, reports: Vec<PodReport>) -> Vec<PodReport>;
}
