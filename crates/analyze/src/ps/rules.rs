//! What a listing of processes proves.

use std::collections::HashMap;

use causes::Cause;
use causes::finding::Confidence;

use super::Row;
use crate::kernel::cause_of_function;

/// What some processes prove.
#[derive(Clone, Debug)]
pub struct Proof<'a> {
    /// The cause.
    pub cause: Cause,
    /// How sure it is.
    pub confidence: Confidence,
    /// What they show, without a full stop.
    pub says: String,
    /// One of them.
    pub row: &'a Row,
}

/// As they are installed under /opt/cni/bin.
const PLUGINS: [&str; 24] = [
    "terway",
    "calico",
    "calico-ipam",
    "cilium-cni",
    "flannel",
    "aws-cni",
    "azure-vnet",
    "azure-vnet-ipam",
    "bridge",
    "host-local",
    "portmap",
    "loopback",
    "ptp",
    "ipvlan",
    "macvlan",
    "multus",
    "weave-net",
    "antrea",
    "kube-ovn",
    "ovn-k8s-cni-overlay",
    "openshift-sdn",
    "egress-v4-cni",
    "bandwidth",
    "tuning",
];
/// More plug-ins at once than a node starts.
const PILE: usize = 20;

/// What these rows prove.
pub fn proofs(rows: &[Row]) -> Vec<Proof<'_>> {
    let mut proofs = Vec::new();
    proofs.extend(rows.iter().filter_map(blocked));
    proofs.extend(lost_wakeup(rows));
    proofs.extend(plugins(rows));
    proofs
}

fn name(row: &Row) -> &str {
    let first = row.command.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default()
}

fn is_in(row: &Row, state: char) -> bool {
    row.state
        .as_deref()
        .is_some_and(|states| states.starts_with(state))
}

fn is_runc_init(row: &Row) -> bool {
    name(row) == "runc" && row.command.ends_with(" init")
        || row.command.starts_with("runc:[2:INIT]")
}

/// By the kernel function that it waits in.
fn blocked(row: &Row) -> Option<Proof<'_>> {
    let wchan = row.wchan.as_deref()?;
    let says = format!("process {} ({}) waits in {wchan}", row.pid, row.command);
    if is_runc_init(row) && wchan.starts_with("pipe_w") {
        return Some(Proof {
            cause: Cause::RuncSeccompPipe,
            confidence: Confidence::High,
            says,
            row,
        });
    }
    let (cause, confidence) = cause_of_function(wchan.trim_start_matches("__"))?;
    (is_in(row, 'D') || cause == Cause::FanotifyBlocked).then_some(Proof {
        cause,
        confidence,
        says,
        row,
    })
}

/// `runc create` and its `runc init` sleep side by side for long, and nobody is in the
/// kernel: all that they wait for is there, but the wake-up was lost.
fn lost_wakeup(rows: &[Row]) -> Option<Proof<'_>> {
    let by_pid: HashMap<u32, &Row> = rows.iter().map(|row| (row.pid, row)).collect();
    let parent = |row: &Row| row.ppid.and_then(|pid| by_pid.get(&pid).copied());
    if rows.iter().any(|row| is_in(row, 'D')) {
        return None;
    }
    let sleeping = |row: &&Row| {
        let shape = is_runc_init(row) && row.old && is_in(row, 'S');
        let runc = parent(row).filter(|runc| name(runc) == "runc" && is_in(runc, 'S'));
        shape
            && runc
                .and_then(parent)
                .is_some_and(|shim| name(shim).starts_with("containerd-shim"))
    };
    let pairs: Vec<&Row> = rows.iter().filter(sleeping).collect();
    let row = *pairs.first()?;
    Some(Proof {
        cause: Cause::KernelRegression,
        confidence: Confidence::Medium,
        says: format!(
            "{} times a runc and its `runc init` have slept side by side for long with nobody blocked in the kernel: \
             lost epoll wake-ups look so (kernels 5.4.210 and later of 2022)",
            pairs.len()
        ),
        row,
    })
}

fn plugins(rows: &[Row]) -> Option<Proof<'_>> {
    let is_plugin =
        |row: &&Row| PLUGINS.contains(&name(row)) || row.command.contains("/opt/cni/bin/");
    let plugins: Vec<&Row> = rows.iter().filter(is_plugin).collect();
    let old = plugins.iter().filter(|row| row.old).count();
    let row = plugins.iter().find(|row| row.old).or(plugins.first())?;
    (plugins.len() >= PILE || old > 0).then(|| Proof {
        cause: Cause::CniPluginHang,
        confidence: Confidence::High,
        says: format!(
            "{} processes of CNI plug-ins, {old} of them old, where each should last a second",
            plugins.len()
        ),
        row,
    })
}
