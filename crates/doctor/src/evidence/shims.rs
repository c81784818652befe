//! Which shim serves which containers: from the runtime's state directories, and from the control
//! groups of the shim's child processes, which contain container ids. A conmon serves one
//! container, which CRI-O records, and whose id is in the conmon's own control group.

use std::collections::{BTreeMap, BTreeSet};

use causes::finding::PodName;

use super::known;
use super::lack::lack;
use super::owner::container_of;
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::{Probe, ProbeFacts};
use crate::facts::tasks::Task;
use crate::limits::RUNC_WAITED_FOR_SECONDS;

/// How many child processes of a shim are considered.
const MAX_CHILDREN: usize = 64;

/// A shim, the process between the runtime and the containers of one pod.
#[derive(Clone, Debug)]
pub(crate) struct Shim<'a> {
    /// The shim's process.
    pub process: &'a Process,
    /// The containers and sandboxes that it serves.
    pub ids: Vec<&'a str>,
    /// The pod of these containers.
    pub pod: Option<&'a PodName>,
    /// Its `runc` child processes, with their children.
    pub runc: Vec<&'a Process>,
}

/// What shows that calls wait for a shim, and not for the runtime or its disk. Killing a shim without such
/// evidence costs a pod and frees nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ShimFault<'a> {
    /// The shim is stopped, by a signal or a debugger.
    Stopped,
    /// A thread of the shim waits in the kernel and did not run between the two samples.
    InKernel,
    /// This runc below the shim does not return.
    Runc(&'a Process),
}

impl<'a> Shim<'a> {
    /// What shows that calls wait for this shim; `None` for one that merely sleeps.
    pub fn fault(&self) -> Option<ShimFault<'a>> {
        if self.process.is_stopped() {
            return Some(ShimFault::Stopped);
        }
        if !self.stuck_in().is_empty() {
            return Some(ShimFault::InKernel);
        }
        let is_old = |runc: &&Process| runc.age_seconds >= RUNC_WAITED_FOR_SECONDS;
        let runc = self.stopped_runc().or(self.oldest_runc().filter(is_old));
        runc.map(ShimFault::Runc)
    }

    /// Whether it is a conmon of CRI-O, which receives no calls and serves one container.
    pub fn is_conmon(&self) -> bool {
        self.process.comm == "conmon"
    }

    /// Whether it serves this container or sandbox.
    pub fn serves(&self, id: &str) -> bool {
        self.ids.contains(&id)
    }

    /// Whether it serves the container or sandbox of this call.
    pub fn serves_call(&self, probe: &Probe) -> bool {
        probe.id.as_deref().is_some_and(|id| self.serves(id))
    }

    /// The process that others wait for, if something shows that they wait for this shim: the
    /// runc below it, unless the shim itself is stopped.
    pub fn waited_for(&self) -> Option<&'a Process> {
        Some(match self.fault()? {
            ShimFault::Runc(runc) => runc,
            ShimFault::InKernel => self.oldest_runc().unwrap_or(self.process),
            ShimFault::Stopped => self.process,
        })
    }

    /// Which of its processes are stopped: the shim itself, and the runc processes below it.
    pub fn stopped(&self) -> impl Iterator<Item = &'a Process> {
        let all = std::iter::once(self.process).chain(self.runc.iter().copied());
        all.filter(|process| process.is_stopped())
    }

    /// A process of runc below it that is stopped.
    pub fn stopped_runc(&self) -> Option<&'a Process> {
        self.runc.iter().copied().find(|runc| runc.is_stopped())
    }

    /// The runc below it that has been running for longest.
    pub fn oldest_runc(&self) -> Option<&'a Process> {
        let running = self.runc.iter().copied().filter(|runc| runc.is_runc());
        running.max_by(|one, other| one.age_seconds.total_cmp(&other.age_seconds))
    }

    /// The usual name for such a process: `shim` or `conmon`.
    pub fn role(&self) -> &'static str {
        role_name(self.is_conmon())
    }

    /// Its role and process, each once: `shim containerd-shim (20596)`, `conmon (80)`.
    pub fn named(&self) -> String {
        let label = self.process.label();
        match self.is_conmon() {
            true => label,
            false => format!("shim {label}"),
        }
    }

    /// The evidence about its state: `its shim containerd-shim (20596) sleeps`.
    pub fn says(&self) -> String {
        format!("its {} {}", self.named(), self.process.doing())
    }

    /// Whether it is the conmon of this task. The conmon's own control group is more reliable than CRI-O's
    /// record, whose PID may have been reused.
    fn is_conmon_of(&self, task: &Task, parent: Option<u32>) -> bool {
        match container_of(self.process) {
            Some(id) => id == task.id,
            None => task.conmon.or(parent) == Some(self.process.pid),
        }
    }

    /// Where its threads wait uninterruptibly, each place once.
    pub fn stuck_in(&self) -> BTreeSet<&str> {
        let blocked = self.process.blocked_threads();
        blocked
            .map(|thread| thread.functions().next().unwrap_or("the kernel"))
            .collect()
    }
}

/// What this runtime calls the process between it and a container.
pub(crate) fn role(probes: &ProbeFacts) -> &'static str {
    role_name(probes.is_crio())
}

fn role_name(is_conmon: bool) -> &'static str {
    match is_conmon {
        true => "conmon",
        false => "shim",
    }
}

/// The shims of the probed runtime (a machine may have several runtimes): those that serve one of its
/// tasks, or a container for which a call was made. If none is visible, the reason.
pub(crate) fn shims(facts: &NodeFacts) -> Result<Vec<Shim<'_>>, String> {
    let host = &facts.host;
    if let Some(why) = lack(&host.processes) {
        return Err(why);
    }
    let processes = host.all_processes();
    let mut children: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for process in processes {
        children.entry(process.ppid).or_default().push(process);
    }
    let below = |pid: u32| children.get(&pid).into_iter().flatten().copied();
    let shims = processes.iter().filter(|process| process.is_shim());
    let mut shims: Vec<Shim> = shims
        .map(|process| {
            let runc = below(process.pid).filter(|child| child.is_runc() || child.is_runc_init());
            let with_theirs = runc.flat_map(|runc| std::iter::once(runc).chain(below(runc.pid)));
            Shim {
                process,
                ids: Vec::new(),
                pod: None,
                runc: with_theirs.take(MAX_CHILDREN).collect(),
            }
        })
        .collect();
    if shims.is_empty() && facts.runtime_process().is_none() {
        return Err("neither a shim nor the runtime's process is visible from here".to_owned());
    }
    let tasks = known(&facts.probes.tasks);
    serve(&mut shims, tasks, |pid| {
        let at = processes.binary_search_by_key(&pid, |process| process.pid);
        Some(processes[at.ok()?].ppid)
    });
    for shim in &mut shims {
        // A process started by `exec` has a conmon of its own, which is not the container's.
        let is_of_other = |id: &&str| {
            let mut tasks = tasks.iter().filter(|task| task.id == *id);
            tasks.any(|task| task.conmon.is_some_and(|conmon| conmon != shim.process.pid))
        };
        let named = below(shim.process.pid).filter_map(container_of);
        let its = named.filter(|id| !is_of_other(id)).take(MAX_CHILDREN);
        shim.ids.extend(its);
        let mut seen = BTreeSet::new();
        shim.ids.retain(|id| seen.insert(*id));
    }
    let calls = facts.probes.calls.iter();
    let called = calls.filter_map(|probe| probe.id.as_deref());
    let ours: BTreeSet<&str> = tasks.iter().map(|task| &*task.id).chain(called).collect();
    shims.retain(|shim| shim.ids.iter().any(|id| ours.contains(id)));
    Ok(shims)
}

/// Adds the tasks to the shims that serve them. Sandboxes are added before their containers, because a
/// container without a process is served by the shim of its sandbox.
fn serve<'a>(shims: &mut [Shim<'a>], tasks: &'a [Task], parent: impl Fn(u32) -> Option<u32>) {
    for shim in shims.iter_mut().filter(|shim| shim.is_conmon()) {
        shim.ids.extend(container_of(shim.process));
    }
    let (sandboxes, containers): (Vec<_>, Vec<_>) =
        tasks.iter().partition(|task| task.container.is_none());
    for task in sandboxes.into_iter().chain(containers) {
        let above = task.init.and_then(&parent);
        let shim = shims.iter_mut().find(|shim| {
            if shim.is_conmon() {
                return shim.is_conmon_of(task, above);
            }
            let sandbox = task.sandbox.as_deref();
            Some(shim.process.pid) == above || sandbox.is_some_and(|id| shim.serves(id))
        });
        if let Some(shim) = shim {
            shim.ids.push(&task.id);
            shim.pod = shim.pod.or(task.pod.as_ref());
        }
    }
}

/// The shim of the container or sandbox of a call.
pub(crate) fn serving<'a, 'b>(shims: &'b [Shim<'a>], probe: &Probe) -> Option<&'b Shim<'a>> {
    shims.iter().find(|shim| shim.serves_call(probe))
}

/// A stopped conmon of the sandbox's pod: if CRI-O reports the containers together with their
/// sandbox, the status of the sandbox waits for each of them.
pub(crate) fn stopped_conmon_of_pod<'a, 'b>(
    shims: &'b [Shim<'a>],
    sandbox: &Probe,
) -> Option<&'b Shim<'a>> {
    let pod = sandbox.pod.as_ref()?;
    let is_its = |its: &PodName| its.namespace == pod.namespace && its.name == pod.name;
    shims
        .iter()
        .find(|shim| shim.process.is_stopped() && shim.is_conmon() && shim.pod.is_some_and(is_its))
}

#[cfg(test)]
mod tests {
    use cri::Rpc;

    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::CgroupPath;
    use crate::node::node;

    #[test]
    fn a_container_without_a_process_is_served_by_the_shim_of_its_sandbox() {
        let facts = node("containerd", "1.7.24").shim(99, false, &["s1", "c1"]);
        let mut facts = facts.facts();
        let Fact::Known { value: tasks, .. } = &mut facts.probes.tasks else {
            panic!("tasks");
        };
        tasks.push(Task {
            id: "gone".to_owned(),
            init: Some(4_000_000),
            container: Some("app".to_owned()),
            sandbox: Some("s1".to_owned()),
            ..Task::default()
        });
        let shims = shims(&facts).unwrap();
        assert_eq!(shims.len(), 1);
        assert_eq!(shims[0].ids, ["s1", "c1", "gone"]);
    }

    #[test]
    fn without_a_task_folder_control_groups_show_which_containers_a_shim_serves() {
        let id = "c".repeat(64);
        let mut facts = node("cri-o", "1.29.1")
            .status(Rpc::ContainerStatus, &id, "shop", "web", "app")
            .process(70, 1, "conmon")
            .process(71, 70, "app")
            .process(80, 1, "conmon")
            .facts();
        let Fact::Known {
            value: processes, ..
        } = &mut facts.host.processes
        else {
            panic!("processes");
        };
        processes[2].cgroups = vec![CgroupPath {
            controllers: String::new(),
            path: format!("/kubepods.slice/crio-{id}.scope"),
        }];
        let shims = shims(&facts).unwrap();
        // The other conmon belongs to another runtime, or to a pod that was not requested.
        assert_eq!(shims.len(), 1, "{shims:?}");
        assert_eq!(shims[0].ids, [&*id]);
    }

    #[test]
    fn a_conmon_serves_the_container_for_which_it_is_recorded_and_no_other_of_its_pod() {
        let (sandbox, container) = ("a".repeat(64), "b".repeat(64));
        let mut node = node("cri-o", "1.36.3");
        for (conmon, id) in [(70, &sandbox), (80, &container)] {
            node = node.conmon(conmon, id, Some(&sandbox));
        }
        // The container's process is dead, and a process that was executed in the container has another
        // conmon.
        let mut facts = node.process(90, 1, "conmon").process(91, 90, "sh").facts();
        processes(&mut facts).retain(|process| process.pid != 81);
        in_group(&mut facts, 91, &format!("/kubepods/pod/crio-{container}"));
        let found = shims(&facts).unwrap();
        let ids: Vec<_> = found
            .iter()
            .map(|shim| (shim.process.pid, &*shim.ids))
            .collect();
        assert_eq!(ids, [(70, &[&*sandbox][..]), (80, &[&*container])]);
        let pod = found[1].pod.and_then(|pod| pod.name.as_deref());
        assert_eq!(pod, Some("web"));

        // Without records, the conmon's control group shows its container; a record of an earlier PID is
        // not used.
        let group = format!("/kubepods/pod/crio-conmon-{container}");
        in_group(&mut facts, 80, &group);
        for conmon in [None, Some(70)] {
            let Fact::Known { value: tasks, .. } = &mut facts.probes.tasks else {
                panic!("tasks");
            };
            tasks[1].conmon = conmon;
            in_group(
                &mut facts,
                70,
                &format!("/system.slice/crio-conmon-{sandbox}.scope"),
            );
            let found = shims(&facts).unwrap();
            let of = found.iter().find(|shim| shim.process.pid == 80).unwrap();
            assert_eq!(of.ids, [&*container], "{conmon:?}");
        }
    }

    fn processes(facts: &mut NodeFacts) -> &mut Vec<Process> {
        match &mut facts.host.processes {
            Fact::Known { value, .. } => value,
            Fact::Missing { why, .. } => panic!("{why}"),
        }
    }

    fn in_group(facts: &mut NodeFacts, pid: u32, path: &str) {
        let mut all = processes(facts).iter_mut();
        let process = all.find(|process| process.pid == pid).unwrap();
        process.cgroups = vec![CgroupPath {
            controllers: String::new(),
            path: path.to_owned(),
        }];
    }

    #[test]
    fn if_neither_runtime_nor_shim_is_visible_nothing_is_known_about_shims() {
        let mut facts = node("containerd", "1.7.24").facts();
        facts.probes.listener = Fact::missing("its process is not visible from here", "peer");
        assert!(shims(&facts).is_err());
        facts.host.processes = Fact::missing("permission denied", "/proc");
        assert_eq!(shims(&facts).unwrap_err(), "/proc: permission denied");
    }
}
