//! CNI plug-ins under way: what a runtime or a kubelet has started by the name of one.

use crate::evidence::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// Plug-ins that are common, for when the runtime does not tell which it has.
const COMMON: [&str; 24] = [
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

/// A plug-in takes a second; one that takes so long waits for somebody.
pub(crate) const OLD: f64 = 10.0;

/// The kernel keeps so many bytes of a name.
const COMM: usize = 15;

/// A plug-in.
#[derive(Clone, Debug)]
pub(crate) struct Plugin<'a> {
    pub process: &'a Process,
    /// The youngest process that it waits for, if it started one.
    pub waits_for: Option<&'a Process>,
}

/// The plug-ins that run; why not, if that cannot be seen.
pub(crate) fn plugins(facts: &NodeFacts) -> Result<Vec<Plugin<'_>>, String> {
    let host = &facts.host;
    if let Some(why) = lack(&host.processes) {
        return Err(why);
    }
    let runtime = facts.runtime_process().map(|runtime| runtime.pid);
    let starts = |process: &&Process| process.comm == "kubelet" || Some(process.pid) == runtime;
    let mut starters = host.all_processes().iter().filter(starts).peekable();
    if starters.peek().is_none() {
        return Err("neither the runtime's process nor a kubelet is visible".to_owned());
    }
    let children = starters.flat_map(|starter| host.children(starter.pid));
    let plugins = children.filter(|process| is_plugin(facts, process));
    Ok(plugins
        .map(|process| Plugin {
            process,
            waits_for: youngest_below(host, process.pid),
        })
        .collect())
}

/// Whether one has been under way for so long that others wait for it.
pub(crate) fn is_any_old(facts: &NodeFacts) -> bool {
    let plugins = plugins(facts).unwrap_or_default();
    plugins
        .iter()
        .any(|plugin| plugin.process.age_seconds >= OLD)
}

fn is_plugin(facts: &NodeFacts, process: &Process) -> bool {
    let told = facts.probes.conditions.iter();
    let told = told.flat_map(|told| told.network_plugins.iter().map(String::as_str));
    let configured = facts.host.cni.value().into_iter().flatten();
    let configured = configured.flat_map(|network| network.plugins.iter().map(String::as_str));
    told.chain(configured).chain(COMMON).any(|name| {
        let kept = &name.as_bytes()[..name.len().min(COMM)];
        kept == process.comm.as_bytes()
    })
}

/// The last of a line of youngest children, if it has any.
fn youngest_below(host: &HostFacts, pid: u32) -> Option<&Process> {
    let youngest = |pid: u32| {
        let younger = |a: &&Process, b: &&Process| a.age_seconds.total_cmp(&b.age_seconds);
        host.children(pid).min_by(younger)
    };
    // A tree that was read while it changed may have a circle.
    std::iter::successors(youngest(pid), |process| youngest(process.pid))
        .take(16)
        .last()
}
