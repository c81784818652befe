//! Logs of containers that run are rotated before they fill the disk.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::WallClock;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::decide::ContainerView;
use crate::logs::{Limits, LogFolders, rotate};
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
    loop {
        sleep(PERIOD).await;
        let running = running(&pods.borrow());
        for (pod, container, attempt, id) in running {
            let (client, folders, clock) = (client.clone(), folders.clone(), clock.clone());
            let runtime = Handle::current();
            let log = container.clone();
            let rotated = spawn_blocking(move || {
                let path = folders.log(&pod, &log, attempt)?;
                let mut reopen = || {
                    let reopened = runtime.block_on(timeout(REOPEN, client.reopen_log(&id)));
                    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
                    reopened.map_err(late)?.map_err(io::Error::other)
                };
                rotate(&path, limits, clock(), &mut reopen)
            });
            if let Ok(Err(error)) = rotated.await {
                tracing::warn!(container = &*container, %error, "cannot rotate the log");
            }
        }
    }
}

fn running(pods: &Pods) -> Vec<(PodRef, Arc<str>, u32, Id)> {
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
