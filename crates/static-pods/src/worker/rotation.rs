//! Logs of containers that run are rotated before they fill the disk.

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

/// A kubelet's `containerLogMonitorInterval`.
const PERIOD: Duration = Duration::from_secs(10);

/// For so long the runtime is waited for to open a log anew.
const REOPEN: Duration = Duration::from_secs(30);

/// Rotates the logs of all containers that run, for as long as it is polled.
pub async fn keep_logs_short(
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
        begun: BTreeMap::new(),
    };
    loop {
        sleep(PERIOD).await;
        let running = running(&pods.borrow());
        rotations.begin(running).await;
    }
}

/// A container that runs: its pod, its name, the attempt and its id.
type Writing = (PodRef, Arc<str>, u32, Id);

/// One rotation for each log that is too long: a call that hangs delays only its own log.
struct Rotations {
    client: Arc<RuntimeClient>,
    folders: LogFolders,
    limits: Limits,
    clock: WallClock,
    /// Those that have not ended, by container.
    begun: BTreeMap<Id, JoinHandle<()>>,
}

impl Rotations {
    async fn begin(&mut self, running: Vec<Writing>) {
        self.begun.retain(|_, rotation| !rotation.is_finished());
        let (folders, limits) = (self.folders.clone(), self.limits);
        let due = spawn_blocking(move || {
            let with_path = running
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
            if self.begun.contains_key(&id) {
                continue;
            }
            let (client, clock, its) = (self.client.clone(), self.clock.clone(), id.clone());
            let runtime = Handle::current();
            let rotation = spawn_blocking(move || {
                let mut reopen = || {
                    let reopened = runtime.block_on(timeout(REOPEN, client.reopen_log(&its)));
                    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
                    reopened.map_err(late)?.map_err(io::Error::other)
                };
                if let Err(error) = rotate(&path, limits, clock(), &mut reopen) {
                    failed(&container, &error);
                }
            });
            self.begun.insert(id, rotation);
        }
    }
}

fn failed(container: &str, error: &io::Error) {
    tracing::warn!(container, %error, "cannot rotate the log");
}

fn running(pods: &Pods) -> Vec<Writing> {
    let known = pods.wanted.iter().filter_map(|(uid, spec)| {
        let report = pods.reports.get(uid)?;
        Some((&spec.pod, report))
    });
    let running = known.flat_map(|(pod, report)| {
        let containers = report.containers.iter();
        containers.filter_map(|it| match (&it.state, &it.id) {
            (ContainerView::Running { .. }, Some(id)) => {
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
            begun: BTreeMap::new(),
        };
        let running = names.map(|name| (pod.clone(), name.into(), 0, name.into()));
        rotations.begin(running.to_vec()).await;
        timeout(Duration::from_secs(20), async {
            while sim.world().reopened_logs.len() < 2 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("two of three logs are reopened while the first hangs");
        // The next round does not begin a second rotation of the log that hangs.
        rotations.begin(running.to_vec()).await;
        assert!(!rotations.begun[&Id::from("a")].is_finished());
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
