//! Running CNI plugins: child processes of a runtime or a kubelet with the name of a plugin.

use super::known;
use super::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// A plugin takes a second; one that takes longer than this waits for something.
pub(crate) const OLD_SECONDS: f64 = 10.0;

/// The kernel keeps this many bytes of a process name.
const COMM_BYTES: usize = 15;

/// A running plugin.
#[derive(Clone, Debug)]
pub(crate) struct Plugin<'a> {
    pub process: &'a Process,
    /// The plugin's youngest descendant, for which it waits, if it has any.
    pub waits_for: Option<&'a Process>,
}

impl Plugin<'_> {
    /// Whether it has been running long enough for other calls to wait for it.
    pub fn is_old(&self) -> bool {
        self.process.age_seconds >= OLD_SECONDS
    }
}

/// The running plugins, or why they cannot be determined.
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

/// Whether any plugin is old.
pub(crate) fn is_any_old(facts: &NodeFacts) -> bool {
    let plugins = plugins(facts).unwrap_or_default();
    plugins.iter().any(Plugin::is_old)
}

fn is_plugin(facts: &NodeFacts, process: &Process) -> bool {
    let conditions = facts.probes.conditions.iter();
    let reported = conditions.flat_map(|conditions| &conditions.network_plugins);
    let configured = known(&facts.host.cni).iter();
    let configured = configured.flat_map(|network| &network.plugins);
    let common = &causes::facts::facts().cni_plugins;
    reported.chain(configured).chain(common).any(|name| {
        let kept = &name.as_bytes()[..name.len().min(COMM_BYTES)];
        kept == process.comm.as_bytes()
    })
}

/// The youngest child of the youngest child, and so on, if there is any.
fn youngest_below(host: &HostFacts, pid: u32) -> Option<&Process> {
    let youngest = |pid: u32| {
        let younger = |a: &&Process, b: &&Process| a.age_seconds.total_cmp(&b.age_seconds);
        host.children(pid).min_by(younger)
    };
    // A process tree that was read while it changed may contain a cycle.
    std::iter::successors(youngest(pid), |process| youngest(process.pid))
        .take(16)
        .last()
}
