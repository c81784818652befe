//! Leaves a call outstanding: one half of the container status lock of containerd.
//!
//! UpdateContainerResources takes the status lock of the container and then calls the shim. While the
//! shim is stopped (`testbed shim-stop SANDBOX_ID`, the other half), the lock is not released, and
//! ListContainers, which reads every status, is not answered.

use std::time::Duration;

use cri::v1::{
    LinuxContainerResources, UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
};
use cri::{ApiVersion, Rpc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::driver::Driver;
use crate::error::Result;

/// Within this time a call has reached the runtime, and a running shim has answered.
const SHIM_ANSWERS_WITHIN: Duration = Duration::from_millis(300);

/// An UpdateContainerResources call in a separate task. Dropping it cancels the call, and containerd
/// then releases the lock, even if the shim is still stopped.
#[derive(Debug)]
#[must_use = "dropping it cancels the call"]
pub struct HeldUpdate {
    task: JoinHandle<Result<()>>,
}

impl Driver {
    /// Calls UpdateContainerResources on a container. Waits for the answer only for 0.3 s, until the
    /// call has reached the shim: see [`HeldUpdate::is_held`].
    ///
    /// The update changes nothing: it sets the default CPU share.
    pub async fn hold_update(&self, id: &str) -> HeldUpdate {
        let driver = self.clone();
        let call_name = format!("UpdateContainerResources of {id}");
        let request = UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(LinuxContainerResources {
                cpu_shares: 1024,
                ..LinuxContainerResources::default()
            }),
        };
        // Without a deadline of the driver: the call is meant to stay outstanding.
        let call = async move {
            let call = driver
                .client
                .unary(ApiVersion::V1, Rpc::UpdateContainerResources, request);
            let answer: Result<UpdateContainerResourcesResponse, _> = call.await;
            answer
                .map(drop)
                .map_err(|status| driver.refused(call_name, status))
        };
        let mut held = HeldUpdate {
            task: tokio::spawn(call),
        };
        held.wait(SHIM_ANSWERS_WITHIN).await;
        held
    }
}

impl HeldUpdate {
    /// Whether the call is still outstanding.
    pub fn is_held(&self) -> bool {
        !self.task.is_finished()
    }

    /// Waits for the answer, at most this long; [`HeldUpdate::is_held`] shows whether it arrived.
    pub async fn wait(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.is_held() && Instant::now() < deadline {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for the answer without a limit.
    pub async fn answered(mut self) -> Result<()> {
        match (&mut self.task).await {
            Ok(answer) => answer,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}

impl Drop for HeldUpdate {
    fn drop(&mut self) {
        self.task.abort();
    }
}
