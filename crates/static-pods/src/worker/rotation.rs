//! Rotates the logs of running containers, so that they do not fill the disk.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::WallClock;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::decide::ContainerView;
use crate::logs::{Limits, LogFolders, is_due, rotate};
use crate::pods::Pods;
use crate::runtime::RuntimeClient;

/// How often the size of logs is checked: the kubelet's `containerLogMonitorInterval`.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How long the runtime may take to reopen a log.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Rotates the logs of all running containers, until the future is dropped.
pub async fn rotate_logs(
    client: Arc<RuntimeClient>,
    folders: LogFolders,
    limits: Limits,
    pods: watch::Receiver<Pods>,
    clock: WallClock,
) -> std::convert::Infallible {
    let mut rotations = Rotations {
        client,
        folders,
        limits,
        clock,
        running: BTreeMap::new(),
    };
    loop {
        sleep(CHECK_INTERVAL).await;
        let containers = running_containers(&pods.borrow());
        rotations.start(containers).await;
    }
}

/// A running container: its pod, its name, its attempt and its id.
type RunningContainer = (PodRef, Arc<str>, u32, Id);

/// One rotation for each log that is too large. A stuck call delays only its own log.
struct Rotations {
    client: Arc<RuntimeClient>,
    folders: LogFolders,
    limits: Limits,
    clock: WallClock,
    /// The rotations that have not ended, by container.
    running: BTreeMap<Id, JoinHandle<()>>,
}

impl Rotations {
    /// Starts a rotation for each log that is too large, unless one is running for it.
    async fn start(&mut self, containers: Vec<RunningContainer>) {
        self.running.retain(|_, rotation| !rotation.is_finished());
        let (folders, limits) = (self.folders.clone(), self.limits);
        let due = spawn_blocking(move || {
            let with_path = containers
                .into_iter()
                .filter_map(|(pod, container, attempt, id)| {
                    let path = folders.log(&pod, &container, attempt);
                    let path = path.inspect_err(|error| failed(&container, error)).ok()?;
                    Some((path, container, id))
                });
            let due = with_path.filter(|(path, ..)| is_due(path, limits));
            due.collect::<Vec<_>>()
        });
        for (path, container, id) in due.await.unwrap_or_default() {
            if self.running.contains_key(&id) {
                continue;
            }
            let (client, clock, log_of) = (self.client.clone(), self.clock.clone(), id.clone());
            let runtime = Handle::current();
            let rotation = spawn_blocking(move || {
                let mut reopen = || {
                    let call = timeout(REOPEN_TIMEOUT, client.reopen_log(&log_of));
                    let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
                    runtime
                        .block_on(call)
                        .map_err(timed_out)?
                        .map_err(io::Error::other)
                };
                if let Err(error) = rotate(&path, limits, clock(), &mut reopen) {
                    failed(&container, &error);
                }
            });
            self.running.insert(id, rotation);
        }
    }
}

fn failed(container: &str, error: &io::Error) {
    tracing::warn!(container, %error, "cannot rotate the log");
}

fn running_containers(pods: &Pods) -> Vec<RunningContainer> {
    let known = pods.wanted.iter().filter_map(|(uid, spec)| {
        let report = pods.reports.get(uid)?;
        Some((&spec.pod, report))
    });
    let running = known.flat_map(|(pod, report)| {
        let containers = report.containers.iter();
        containers.filter_map(|it| match (&it.state, &it.id) {
            (ContainerView::Running, Some(id)) => {
                Some((pod.clone(), it.name.clone(), it.restarts, id.clone()))
            }
            _ => None,
        })
    });
    running.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cri::{Endpoint, Rpc};
    use pleg::model::listed::ContainerState;
    use sim::{Container, Fault, Pod, Sim, grpc};

    use super::*;

    fn container(name: &str) -> Container {
        Container {
            id: name.into(),
            sandbox_id: "sandbox".into(),
            name: name.to_owned(),
            attempt: 0,
            state: ContainerState::Running,
            created_at: Sim::new().now(),
            started_at: None,
            ended: None,
            listed_as: None,
            exit_code_delay: Duration::ZERO,
            given: None,
        }
    }

    #[tokio::test]
    async fn a_log_that_the_runtime_does_not_reopen_delays_no_other() {
        let place = tempfile::tempdir().unwrap();
        let sim = Sim::new();
        let names = ["a", "b", "c"];
        let pod = crate::testing::pod().pod;
        sim.world().pods.insert(
            "web".to_owned(),
            Pod {
                pod: pod.clone(),
                sandboxes: Vec::new(),
                containers: names.map(container).into(),
            },
        );
        sim.fault(Rpc::ReopenContainerLog, Some("a"), Fault::Hang);
        let socket = place.path().join("sim.sock");
        let listener = grpc::socket::listen(&socket).await.unwrap();
        tokio::spawn(grpc::serve(sim.clone(), listener));
        let folders = LogFolders {
            pods: place.path().join("pods"),
            links: place.path().join("containers"),
        };
        for name in names {
            folders.make(&pod, name).unwrap();
            fs::write(folders.log(&pod, name, 0).unwrap(), "a long line").unwrap();
        }
        let mut rotations = Rotations {
            client: Arc::new(RuntimeClient::new(&Endpoint::new(socket))),
            folders,
            limits: Limits { size: 5, files: 2 },
            clock: sim.clock(),
            running: BTreeMap::new(),
        };
        let containers = names.map(|name| (pod.clone(), name.into(), 0, name.into()));
        rotations.start(containers.to_vec()).await;
        timeout(Duration::from_secs(20), async {
            while sim.world().reopened_logs.len() < 2 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("two of three logs are reopened while the call for the first is stuck");
        // The next check does not start a second rotation of the first log.
        rotations.start(containers.to_vec()).await;
        assert!(!rotations.running[&Id::from("a")].is_finished());
        sim.lift_all();
        timeout(Duration::from_secs(20), async {
            while sim.world().reopened_logs.len() < 3 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("the last one is reopened");
    }
}
