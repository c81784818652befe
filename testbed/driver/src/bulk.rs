//! Many pods at once for a benchmark, and many exited containers for a large list.

use std::time::Duration;

use cri::v1::{ContainerState, ContainerStatus};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::spec::{ContainerSpec, Pod, PodSpec};

/// How many pods or containers are handled at once. More concurrent calls would wait within
/// containerd, and take CPU time from what is measured.
const MAX_CONCURRENT: usize = 4;

/// How long all containers may take to exit. `/bin/true` exits at once, but the runtime may need some
/// time to notice hundreds of exits.
const EXITED_WITHIN: Duration = Duration::from_secs(20);

impl Driver {
    /// Runs pods, four at a time. Calls `done` with the number of pods that run.
    pub async fn run_pods(&self, specs: &[PodSpec], done: impl FnMut(usize)) -> Result<Vec<Pod>> {
        collect(specs.iter().map(|spec| self.run_pod(spec)), done).await
    }

    /// Removes pods, four at a time. Calls `done` with the number of removed pods.
    pub async fn remove_pods(&self, pods: &[Pod], done: impl FnMut(usize)) -> Result<()> {
        collect(pods.iter().map(|pod| self.remove_pod(pod)), done).await?;
        Ok(())
    }

    /// Runs `count` containers of `/bin/true` in a pod, and waits until all have exited. Calls `done`
    /// with the number of started containers.
    pub async fn run_dead(&self, pod: &Pod, count: usize, done: impl FnMut(usize)) -> Result<()> {
        let specs: Vec<_> = (0..count)
            .map(|number| ContainerSpec::new(format!("dead-{number}"), &["/bin/true"]))
            .collect();
        let started = collect(specs.iter().map(|spec| self.run_container(pod, spec)), done).await?;
        let all_exited = async {
            for container in &started {
                while self.status(&container.id).await?.state() != ContainerState::ContainerExited {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            Ok(())
        };
        match tokio::time::timeout(EXITED_WITHIN, all_exited).await {
            Ok(result) => result,
            Err(_) => Err(Error::NoAnswer {
                what: format!("waiting for the exit of {count} containers of /bin/true"),
                after: EXITED_WITHIN,
            }),
        }
    }

    /// The runtime's status of a container.
    pub async fn status(&self, id: &str) -> Result<ContainerStatus> {
        let answer = self.container_status(id, false).await?;
        Ok(answer.status.unwrap_or_default())
    }
}

async fn collect<T>(
    tasks: impl Iterator<Item = impl Future<Output = Result<T>>>,
    mut done: impl FnMut(usize),
) -> Result<Vec<T>> {
    let mut count = 0;
    stream::iter(tasks)
        .buffered(MAX_CONCURRENT)
        .inspect_ok(|_| {
            count += 1;
            done(count);
        })
        .try_collect()
        .await
}
