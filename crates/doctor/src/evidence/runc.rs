//! runc processes that do not return. CRI-O starts, stops and inspects containers with runc;
//! containerd and dockerd leave that to shims.

use cri::Rpc;

use super::known;
use super::phrases::{age, names};
use super::remedy::{in_the_kernel, release_runc};
use super::shims::shims;
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::host::process::RuncCommand;
use crate::facts::probes::Outcome;
use crate::limits::{RUNC_ALONE_SECONDS, RUNC_WAITED_FOR_SECONDS};

/// The container that a runc is to change, if its command line was read.
pub(crate) fn container_of_runc(runc: &Process) -> Option<&str> {
    runc.runc.as_ref()?.container.as_deref()
}

/// The command that a runc executes, such as `kill`, if its command line was read.
pub(crate) fn verb_of_runc(runc: &Process) -> Option<&str> {
    runc.runc.as_ref().map(|command| &*command.verb)
}

/// The runc processes that the runtime itself has started and waits for, and that make no progress: they
/// are stopped or old.
pub(crate) fn stuck_runcs(facts: &NodeFacts) -> Vec<&Process> {
    let runtime = facts.runtime_process().map(|runtime| runtime.pid);
    runcs(facts)
        .filter(|runc| Some(runc.ppid) == runtime)
        .filter(|runc| runc.is_stopped() || runc.age_seconds >= RUNC_WAITED_FOR_SECONDS)
        .collect()
}

/// The runc processes that the runtime or one of its shims has started, and that are stopped or far too
/// old. Those of another runtime on this machine do not belong to the node. The shim of a sandbox that is
/// being created serves nothing yet, so its runc is recognized by the container.
pub(crate) fn hung_runcs(facts: &NodeFacts) -> Vec<&Process> {
    let is_session = |runc: &Process| runc.runc.as_ref().is_some_and(RuncCommand::is_session);
    let is_hung = |runc: &&Process| {
        runc.is_stopped() || runc.age_seconds >= RUNC_ALONE_SECONDS && !is_session(runc)
    };
    let hung = runcs(facts).filter(is_hung);
    hung.filter(is_of_node(facts)).collect()
}

/// The `runc exec` processes that a shim or conmon started long ago. Such a runc starts a process and then
/// returns, but what it holds up meanwhile is not known.
pub(crate) fn old_execs(facts: &NodeFacts) -> Vec<&Process> {
    let host = &facts.host;
    let is_old = |runc: &&Process| {
        runc.is_runc()
            && !runc.has_ended()
            && verb_of_runc(runc) == Some("exec")
            && host.process(runc.ppid).is_some_and(Process::is_shim)
            && runc.age_seconds >= RUNC_ALONE_SECONDS
    };
    let old = host.all_processes().iter().filter(is_old);
    old.filter(is_of_node(facts)).collect()
}

/// Whether the runtime or one of its shims has started a runc, or the runtime knows its container.
fn is_of_node(facts: &NodeFacts) -> impl Fn(&&Process) -> bool {
    let shims = shims(facts).unwrap_or_default();
    let runtime = facts.runtime_process().map(|runtime| runtime.pid);
    let tasks = known(&facts.probes.tasks);
    move |runc| {
        Some(runc.ppid) == runtime
            || shims.iter().any(|shim| shim.process.pid == runc.ppid)
            || container_of_runc(runc).is_some_and(|id| tasks.iter().any(|task| task.id == *id))
    }
}

/// What started a runc, when, and what it does now.
pub(crate) fn started(facts: &NodeFacts, runc: &Process) -> String {
    let (parent, label, doing) = (starter(facts, runc), runc.label(), runc.doing());
    format!("{label}, which {parent} started {} ago, {doing}", age(runc))
}

/// The process that started a runc, and waits for it.
pub(crate) fn starter(facts: &NodeFacts, runc: &Process) -> String {
    let parent = facts.host.process(runc.ppid).map(Process::label);
    parent.unwrap_or_else(|| "the runtime".to_owned())
}

/// The runc processes that did not return between the two samples, except sessions: the runc of an `exec`
/// has a child process for as long as its session lasts, except below a shim.
fn runcs(facts: &NodeFacts) -> impl Iterator<Item = &Process> {
    let host = &facts.host;
    host.all_processes().iter().filter(|runc| {
        let parent = host.process(runc.ppid);
        let is_of_shim = parent.is_some_and(|one| one.is_shim() && one.comm != "conmon");
        let is_session = || !is_of_shim && host.children(runc.pid).next().is_some();
        runc.is_runc() && !runc.has_ended() && (runc.is_stopped() || !is_session())
    })
}

/// From which age a runc counts as idle: under a shim, runc exits as soon as the process that it starts is
/// running.
const IDLE_SECONDS: f64 = 60.0;

/// The runc processes that a shim started more than a minute ago, that have no running child, and that are
/// neither stopped nor blocked. Some versions miss the exit of a short-lived process that they have
/// started.
pub(crate) fn idle_runcs(facts: &NodeFacts) -> Vec<&Process> {
    let host = &facts.host;
    let is_idle = |runc: &&Process| {
        let mut children = host.children(runc.pid);
        runc.is_runc()
            && runc.age_seconds > IDLE_SECONDS
            && host.process(runc.ppid).is_some_and(Process::is_shim)
            && !runc.is_stopped()
            && children.all(|child| child.state == 'Z')
            && runc.threads.iter().all(|thread| thread.state != 'D')
            && !is_update(facts, runc)
    };
    host.all_processes().iter().filter(is_idle).collect()
}

/// Whether a runc changes the limits of a container. Such a runc waits for systemd, and containerd
/// meanwhile holds the status lock of the container, for which the list of containers waits. An `exec`
/// takes no such lock and does not call systemd once its process has been started.
fn is_update(facts: &NodeFacts, runc: &Process) -> bool {
    let sockets = facts.host.sockets.value().into_iter();
    let mut talks = sockets.flat_map(|sockets| sockets.talks_of(runc.pid));
    let calls_systemd = talks.any(|talk| is_of_systemd(&talk.to));
    let probes = &facts.probes;
    let is_list_hung = probes.outcome(Rpc::ListContainers) == Some(Outcome::Hung);
    let shims = shims(facts).unwrap_or_default();
    let shim = shims.iter().find(|shim| shim.process.pid == runc.ppid);
    let mut hung = probes.hung(Rpc::ContainerStatus);
    let holds_lock = shim.is_some_and(|shim| hung.any(|probe| shim.serves_call(probe)));
    calls_systemd || is_list_hung && holds_lock
}

fn is_of_systemd(socket: &str) -> bool {
    socket.ends_with("/dbus/system_bus_socket") || socket.ends_with("/systemd/private")
}

/// How to restart the runtime, by its unit if that is known.
pub(crate) fn restart_runtime(facts: &NodeFacts) -> String {
    let process = facts.runtime_process();
    let command = match process.and_then(Process::service) {
        Some(unit) => format!("run `systemctl restart {unit}`"),
        None => "restart the runtime".to_owned(),
    };
    restart(facts, &command)
}

/// How to restart a runtime by this command. containerd 2.3 does not finish starting while a runc
/// does not return, and every runtime needs its disk.
pub(crate) fn restart(facts: &NodeFacts, command: &str) -> String {
    if let Some(blocked) = blocked(facts) {
        return format!(
            "do not restart the runtime yet: it may not finish starting. {}; then {command}",
            in_the_kernel(blocked)
        );
    }
    let runcs: Vec<&Process> = runcs(facts).collect();
    if runcs.is_empty() {
        return format!("{command}, which leaves running containers running");
    }
    let end = match hung_runcs(facts)[..] {
        [] => format!("find out what {} waits for, and end it", names(runcs)),
        [runc] => release_runc(runc, "it", container_of_runc(runc), facts),
        [runc, ref others @ ..] => format!(
            "{}; do so for {} too",
            release_runc(runc, "it", container_of_runc(runc), facts),
            names(others.iter().copied())
        ),
    };
    format!(
        "do not restart the runtime yet: it may not finish starting while a runc does not return. \
         Before that, {end}; then {command}, which leaves running containers running"
    )
}

/// The runtime, a shim or a conmon that waits in the kernel, usually for a disk.
fn blocked(facts: &NodeFacts) -> Option<&Process> {
    let shims = shims(facts).unwrap_or_default();
    let shims = shims.iter().map(|shim| shim.process);
    let mut all = facts.runtime_process().into_iter().chain(shims);
    all.find(|process| process.blocked_threads().next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{Talk, UnixSockets};
    use crate::node::{Node, node};

    #[test]
    fn a_session_of_exec_is_not_taken_for_a_runc_that_is_stuck() {
        let facts = node("cri-o", "1.36.3")
            .process(300, 10, "runc")
            .process(301, 300, "sh")
            .process(310, 10, "runc")
            .process(320, 99, "runc")
            .facts();
        let pids: Vec<u32> = stuck_runcs(&facts).iter().map(|runc| runc.pid).collect();
        assert_eq!(pids, [310]);
    }

    fn old_runc() -> Node {
        node("containerd", "1.7.24")
            .package("runc", "1.3.2")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .aged(200, 90.0)
    }

    #[test]
    fn a_runc_for_which_the_list_of_containers_waits_is_an_update_and_no_short_exec() {
        assert_eq!(idle_runcs(&old_runc().facts())[0].pid, 200);
        let update = old_runc()
            .call(Rpc::ListContainers, Outcome::Hung, 20.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        assert!(idle_runcs(&update.facts()).is_empty());
    }

    #[test]
    fn a_runc_that_waits_for_systemd_or_is_stopped_is_no_short_exec() {
        let mut facts = old_runc().facts();
        let talk = Talk {
            pid: 200,
            to: "/run/dbus/system_bus_socket".to_owned(),
            ..Talk::default()
        };
        let sockets = UnixSockets {
            talks: vec![talk],
            ..UnixSockets::default()
        };
        facts.host.sockets = Fact::known(sockets, "sock_diag(7)");
        assert!(idle_runcs(&facts).is_empty());
        let stopped = old_runc().in_state(200, 'T');
        assert!(idle_runcs(&stopped.facts()).is_empty());
    }
}
