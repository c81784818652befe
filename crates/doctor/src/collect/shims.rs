//! The processes behind the answers: who listens on the socket, the shims that are stopped
//! or belong to a call that hangs, and the CNI plug-ins that run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::proc::{Proc, Row, Tree};
use super::task_folder::TaskFolder;
use crate::facts::Fact;
use crate::facts::processes::{Plugin, Process, Shim};

/// Between two looks at a shim that is stopped: a debugger or a snapshot holds it for less.
const SECOND_LOOK: Duration = Duration::from_millis(300);

/// How many shims, their ids and their children are kept.
const MOST: usize = 64;

/// Plug-ins that are common, for when the runtime does not tell which it has.
const COMMON_PLUGINS: [&str; 24] = [
    "antrea",
    "aws-cni",
    "azure-vnet",
    "bandwidth",
    "bridge",
    "calico",
    "calico-ipam",
    "cilium-cni",
    "dhcp",
    "egress-cni",
    "flannel",
    "host-device",
    "host-local",
    "ipvlan",
    "kube-ovn",
    "loopback",
    "macvlan",
    "multus",
    "multus-shim",
    "portmap",
    "ptp",
    "sriov",
    "terway",
    "weave-net",
];

/// The process that listens on `socket`, as the kernel tells whoever connects.
pub(super) async fn listener(socket: &Path, proc: &Proc) -> Fact<Process> {
    let source = format!("the peer of {}", socket.display());
    let stream = match timeout(Duration::from_secs(1), UnixStream::connect(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Fact::missing(super::said(&error), source),
        Err(_) => return Fact::missing("no connection within 1s", source),
    };
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let row = pid.and_then(|pid| proc.process(pid.try_into().ok()?));
    match row {
        Some(row) => Fact::known(row.process, source),
        None => Fact::missing("its process is not visible from here", source),
    }
}

/// The shims that are stopped, and those of `suspects`, which are ids of calls that hang.
pub(super) fn shims(socket: &Path, proc: &Proc, suspects: &[String]) -> Fact<Vec<Shim>> {
    let tasks = TaskFolder::of(socket);
    let source = format!("{} and the tasks of the runtime", proc.0.display());
    let inits = tasks.inits();
    if inits.is_empty() {
        let why = match geteuid().is_root() {
            true => "the runtime keeps no folder of tasks beside its socket",
            false => "only root may read the runtime's folders",
        };
        return Fact::missing(why, source);
    }
    let tree = proc.tree();
    let mut served: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (id, init) in inits {
        let parent = tree.get(init).and_then(|row| tree.get(row.parent));
        if let Some(shim) = parent.filter(|row| is_shim(row)) {
            served.entry(shim.process.pid).or_default().push(id);
        }
    }
    let served: Vec<_> = served
        .into_iter()
        .filter(|(pid, ids)| {
            let row = tree.get(*pid);
            let stopped = row.is_some_and(|row| row.process.is_stopped());
            let sandboxes = suspects.iter().filter_map(|id| tasks.owner(id)?.sandbox);
            let mut suspects = suspects.iter().cloned().chain(sandboxes);
            stopped || suspects.any(|suspect| ids.contains(&suspect))
        })
        .take(MOST)
        .collect();
    if !served.is_empty() {
        std::thread::sleep(SECOND_LOOK);
    }
    let shims = served.into_iter().filter_map(|(pid, ids)| {
        let first = tree.get(pid)?;
        let now = proc
            .process(pid)
            .filter(|now| now.started == first.started)?;
        let owner = ids.iter().find_map(|id| tasks.owner(id));
        let pod = owner.map(|owner| owner.pod);
        Some(Shim {
            pod,
            ..shim(proc, &tree, first, now.process, ids)
        })
    });
    Fact::known(shims.collect(), source)
}

fn shim(proc: &Proc, tree: &Tree, first: &Row, now: Process, mut ids: Vec<String>) -> Shim {
    ids.truncate(MOST);
    let children = tree.children(now.pid);
    let runc = children.filter(|row| row.process.name.starts_with("runc"));
    let with_theirs =
        runc.flat_map(|row| std::iter::once(row).chain(tree.children(row.process.pid)));
    Shim {
        stopped: first.process.is_stopped() && now.is_stopped(),
        stuck_in: proc.stuck_threads(now.pid),
        runc: with_theirs
            .take(MOST)
            .map(|row| row.process.clone())
            .collect(),
        process: now,
        ids,
        pod: None,
    }
}

fn is_shim(row: &Row) -> bool {
    row.process.name.starts_with("containerd-shim") || row.process.name == "conmon"
}

/// The plug-ins that the runtime or the kubelet have started: `told` are their names.
pub(super) fn plugins(proc: &Proc, runtime: Option<u32>, told: &[String]) -> Fact<Vec<Plugin>> {
    let source = format!("the children of the runtime in {}", proc.0.display());
    let tree = proc.tree();
    let kubelets = tree.all().filter(|row| row.process.name == "kubelet");
    let mut parents: Vec<u32> = kubelets.map(|row| row.process.pid).collect();
    parents.extend(runtime);
    if parents.is_empty() {
        return Fact::missing(
            "neither the runtime's process nor a kubelet is visible",
            source,
        );
    }
    let names = told.iter().map(String::as_str).chain(COMMON_PLUGINS);
    // The kernel keeps 15 bytes of a name.
    let names: Vec<&[u8]> = names
        .map(|name| &name.as_bytes()[..name.len().min(15)])
        .collect();
    let children = parents.iter().flat_map(|parent| tree.children(*parent));
    let plugins = children.filter(|row| names.contains(&row.process.name.as_bytes()));
    let plugins = plugins.map(|row| Plugin {
        waits_for: tree
            .youngest_below(row.process.pid)
            .map(|row| row.process.clone()),
        process: row.process.clone(),
    });
    Fact::known(plugins.take(1024).collect(), source)
}
