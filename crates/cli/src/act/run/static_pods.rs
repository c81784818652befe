//! Static pods beside the agent: a sync loop over a folder of manifests. Its calls go through the guard
//! in this process.
//!
//! ```text
//!   folder --> source --> sync loop --> workers --calls--> guard --> runtime
//!                            ^                               ^
//!                            \------- Pleg ---relists--------/
//! ```

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::static_pods::folder::Folder;
use ::static_pods::logs::{Limits, LogFolders};
use ::static_pods::pods::Pods;
use ::static_pods::runtime::{CallFailed, CgroupVersion, Cgroups, Host, RuntimeClient};
use ::static_pods::source::{Manifests, find_leftovers};
use ::static_pods::worker::{Lines, OnHost, Workers, rotate_logs};
use agent::{GuardedRuntime, StaticPodsError};
use cri::Endpoint;
use pleg::Pleg;
use pleg::model::wall_time::system_clock;
use pleg::out::pods::PodReport;
use sync_loop::ready_condition::ReadyCondition;
use sync_loop::{Parts, Policy, SyncLoop};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::pod_reports::with_static_pods;

/// The pause between two attempts to get the runtime's version or cgroup driver.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long one attempt to get the runtime's version or cgroup driver waits for the answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Static pods that are to be kept running.
#[derive(Debug)]
pub(super) struct StaticPods {
    /// The folder of the manifests. If there is none, the pods that earlier runs left are ended.
    pub(super) manifests: Option<PathBuf>,
    /// The owner of the pods: the value of the label `pleg.dev/owner`.
    pub(super) owner: String,
    /// The node's name.
    pub(super) node_name: String,
    /// The directory of the pods' volumes.
    pub(super) root: PathBuf,
    /// The directories of the pods' logs and of the links to them.
    pub(super) logs: LogFolders,
    /// What stops the work on all pods.
    pub(super) policy: Policy,
    /// Where the guard of this process listens.
    pub(super) guard: Endpoint,
    /// Where decisions are reported.
    pub(super) lines: Lines,
    /// The manifests and the progress of the pods.
    pub(super) pods: Arc<watch::Sender<Pods>>,
    /// The node's Ready condition, once it is known.
    pub(super) ready: watch::Sender<Option<ReadyCondition>>,
}

/// Why no static pod can be kept running.
#[derive(Debug, thiserror::Error)]
enum CannotKeep {
    /// The folder cannot be watched.
    #[error("cannot watch the manifests")]
    Folder(#[source] io::Error),
    /// The size of the node's memory cannot be read.
    #[error("cannot read the size of the memory")]
    Memory(#[source] io::Error),
    /// The sync loop ended, which is a bug.
    #[error("the sync loop has stopped")]
    Stopped,
}

impl agent::StaticPods for StaticPods {
    fn keep(
        &self,
        pleg: Pleg,
        runtime: Arc<GuardedRuntime>,
    ) -> Pin<Box<dyn Future<Output = StaticPodsError> + Send + '_>> {
        Box::pin(async move {
            match keep(self, pleg, runtime).await {
                Ok(never) => match never {},
                Err(error) => error.into(),
            }
        })
    }

    fn ready_condition(&self) -> Option<String> {
        let ready = self.ready.borrow();
        let ready = ready.as_ref()?;
        Some(serde_json::to_string(ready).expect("a condition has only text keys"))
    }

    fn complete(&self, reports: Vec<PodReport>) -> Vec<PodReport> {
        with_static_pods(reports, &self.pods.borrow())
    }
}

/// Keeps the static pods running until this future is dropped.
async fn keep(
    of: &StaticPods,
    pleg: Pleg,
    runtime: Arc<GuardedRuntime>,
) -> Result<Infallible, CannotKeep> {
    let client = Arc::new(RuntimeClient::new(&of.guard));
    answer("version", || client.version()).await;
    let cgroups = Cgroups {
        driver: answer("cgroup driver", || client.cgroup_driver(systemd_runs())).await,
        version: CgroupVersion::of(Path::new("/sys/fs/cgroup")),
    };
    let host = Host {
        owner: of.owner.clone(),
        node_name: of.node_name.clone(),
        node_ips,
        memory: Host::read_memory(Path::new("/proc")).map_err(CannotKeep::Memory)?,
        cgroups,
        log_root: of.logs.pods.clone(),
    };
    let perform = OnHost::new(
        client.clone(),
        runtime,
        host,
        of.root.clone(),
        of.logs.clone(),
    );
    let folder = of
        .manifests
        .clone()
        .map(|path| Folder::open(path, &of.node_name))
        .transpose()
        .map_err(CannotKeep::Folder)?;
    let (caller, owner, root) = (client.clone(), of.owner.clone(), of.root.clone());
    let left = move || find_leftovers(caller.clone(), owner.clone(), root.clone());
    let source = Manifests::new(
        folder,
        left,
        of.pods.clone(),
        of.lines.clone(),
        system_clock(),
    );
    let workers = Workers::new(
        Arc::new(perform),
        pleg.clone(),
        of.pods.clone(),
        of.lines.clone(),
        system_clock(),
    );
    let caller = client.clone();
    let mut sync_loop = SyncLoop::start(Parts {
        source,
        sync_pod: Arc::new(workers),
        pleg,
        conditions: move || {
            let client = caller.clone();
            async move { client.conditions().await.map_err(|error| error.why) }
        },
        policy: of.policy,
        clock: system_clock(),
        jitter: fastrand::Rng::new(),
    });
    let mut ready = sync_loop.ready();
    let show = async {
        while ready.changed().await.is_ok() {
            of.ready.send_replace(ready.borrow_and_update().clone());
        }
    };
    let pods = of.pods.subscribe();
    let rotate = rotate_logs(
        client,
        of.logs.clone(),
        Limits::default(),
        pods,
        system_clock(),
    );
    tokio::select! {
        () = sync_loop.stopped() => Err(CannotKeep::Stopped),
        () = show => Err(CannotKeep::Stopped),
        never = rotate => match never {},
    }
}

/// Calls the runtime until it answers: a runtime that is not ready yet has not failed.
async fn answer<T, A>(what: &str, call: impl Fn() -> A) -> T
where
    A: Future<Output = Result<T, CallFailed>>,
{
    loop {
        match timeout(CALL_TIMEOUT, call()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(error)) => tracing::warn!("waiting for the runtime's {what}: {error}"),
            Err(_) => tracing::warn!("waiting for the runtime's {what}: it does not answer"),
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Whether systemd is the init system, as sd_booted(3) determines it.
fn systemd_runs() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// The addresses from which this node would reach others: at most one of each family, IPv4 first, as
/// for a kubelet. If the node has no network, the loopback address. Nothing is sent.
fn node_ips() -> Vec<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849), to which the default route leads.
    let elsewhere = [
        IpAddr::from([192, 0, 2, 1]),
        IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
    ];
    let mut ips: Vec<_> = elsewhere.into_iter().filter_map(address_towards).collect();
    if ips.is_empty() {
        ips.push(Ipv4Addr::LOCALHOST.into());
    }
    ips
}

/// The address from which packets to `there` would be sent, if there is a route.
fn address_towards(there: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match there {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((there, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine without a network has only the route to the loopback address.
    #[test]
    fn an_address_of_either_family_is_found_by_its_route() {
        for loopback in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            let has_family = UdpSocket::bind((loopback, 0)).is_ok();
            let found = address_towards(loopback);
            assert_eq!(found, Some(loopback).filter(|_| has_family));
        }
        assert!(!node_ips().is_empty());
    }
}
