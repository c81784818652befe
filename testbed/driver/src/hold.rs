//! A call left outstanding: one half of the container status lock of containerd.
//!
//! UpdateContainerResources takes the container's status lock and then asks the shim. With the
//! shim stopped (`testbed shim-stop SANDBOX_ID`, the other half) the lock is never given back,
//! and ListContainers, which wants to read every status, hangs for everyone.

use std::time::Duration;

use cri::v1::{
    LinuxContainerResources, UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
};
use cri::{ApiVersion, Rpc};
use tokio::task::JoinHandle;

use crate::driver::Driver;
use crate::error::Result;

/// By then a call has reached the runtime, and a running shim has answered.
const SETTLED: Duration = Duration::from_millis(300);

/// An UpdateContainerResources call in a task of its own; dropping it cancels the call, and
/// containerd then gives the lock back, shim or no shim.
#[derive(Debug)]
#[must_use = "dropping it cancels the call"]
pub struct HeldUpdate {
    task: JoinHandle<Result<()>>,
}

impl Driver {
    /// Calls UpdateContainerResources on a container and does not wait for the answer, only
    /// until the runtime is at it (0.3 s) or the answer is there: see [`HeldUpdate::is_held`].
    ///
    /// The update changes nothing: it says the CPU share that a container has by default.
    pub async fn hold_update(&self, id: &str) -> HeldUpdate {
        let driver = self.clone();
        let what = format!("UpdateContainerResources of {id}");
        let request = UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(LinuxContainerResources {
                cpu_shares: 1024,
                ..LinuxContainerResources::default()
            }),
        };
        // Without the driver's deadline: to have no answer is the purpose.
        let call = async move {
            let call = driver
                .client
                .unary(ApiVersion::V1, Rpc::UpdateContainerResources, request);
            let answer: Result<UpdateContainerResourcesResponse, _> = call.await;
            answer
                .map(drop)
                .map_err(|status| driver.refused(what, status))
        };
        let mut held = HeldUpdate {
            task: tokio::spawn(call),
        };
        held.wait(SETTLED).await;
        held
    }
}

impl HeldUpdate {
    /// Is the answer still outstanding?
    pub fn is_held(&self) -> bool {
        !self.task.is_finished()
    }

    /// Waits for the answer, at most this long; [`HeldUpdate::is_held`] shows whether it arrived.
    pub async fn wait(&mut self, most: Duration) {
        let deadline = tokio::time::Instant::now() + most;
        while self.is_held() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for the answer, for as long as it takes.
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
