//! runc processes that do not return. CRI-O starts, stops and inspects containers with runc;
//! containerd and dockerd leave that to shims.

use super::remedy::release_runc;
use super::shims::shims;
use super::who::names;
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::host::process::RuncCommand;
use crate::limits::{RUNC_ALONE_SECONDS, RUNC_WAITED_FOR_SECONDS};

/// Those that the runtime itself has started and waits for, and that make no progress: stopped,
/// or old.
pub(crate) fn stuck_runcs(facts: &NodeFacts) -> Vec<&Process> {
    let runtime = facts.runtime_process().map(|runtime| runtime.pid);
    let is_stuck =
        |runc: &&Process| runc.is_stopped() || runc.age_seconds >= RUNC_WAITED_FOR_SECONDS;
    let runcs = runcs(facts).filter(|runc| Some(runc.ppid) == runtime);
    runcs.filter(is_stuck).collect()
}

/// Those that the runtime or one of its shims has started, and that are stopped or far too old. Those
/// of another runtime on this machine are not the node's. The shim of a sandbox that is being created
/// serves nothing yet: its runc is known by the container.
pub(crate) fn hung_runcs(facts: &NodeFacts) -> Vec<&Process> {
    let shims = shims(facts).unwrap_or_default();
    let runtime = facts.runtime_process().map(|runtime| runtime.pid);
    let tasks = facts.probes.tasks.value().map_or(&[][..], Vec::as_slice);
    let is_ours = |runc: &&Process| {
        let of = runc.runc.as_ref().and_then(|it| it.container.as_ref());
        Some(runc.ppid) == runtime
            || shims.iter().any(|shim| shim.process.pid == runc.ppid)
            || of.is_some_and(|id| tasks.iter().any(|task| task.id == *id))
    };
    let is_session = |runc: &Process| runc.runc.as_ref().is_some_and(RuncCommand::is_session);
    let is_hung = |runc: &&Process| {
        runc.is_stopped() || runc.age_seconds >= RUNC_ALONE_SECONDS && !is_session(runc)
    };
    runcs(facts).filter(is_ours).filter(is_hung).collect()
}

/// Those that have not returned between the two samples. The runc of an `exec` has a child process
/// for as long as its session lasts, except below a shim.
fn runcs(facts: &NodeFacts) -> impl Iterator<Item = &Process> {
    let host = &facts.host;
    let all = host.all_processes().iter();
    all.filter(|process| process.is_runc() && !process.has_ended())
        .filter(|runc| {
            let parent = host.process(runc.ppid);
            let is_of_shim = parent.is_some_and(|one| one.is_shim() && one.comm != "conmon");
            runc.is_stopped() || is_of_shim || host.children(runc.pid).next().is_none()
        })
}

/// How to restart the runtime, by its unit if that is known.
pub(crate) fn restart_runtime(facts: &NodeFacts) -> String {
    let process = facts.runtime_process();
    let command = match process.and_then(Process::service) {
        Some(unit) => format!("`systemctl restart {unit}`"),
        None => "a restart of the runtime".to_owned(),
    };
    restart(facts, &command)
}

/// How to restart a runtime by this command. containerd 2.3 does not finish starting while a runc
/// does not return.
pub(crate) fn restart(facts: &NodeFacts, command: &str) -> String {
    let runcs: Vec<&Process> = runcs(facts).collect();
    if runcs.is_empty() {
        return format!("{command} leaves running containers running");
    }
    let end = match hung_runcs(facts)[..] {
        [] => format!("find out what {} waits for, and end it", names(runcs)),
        [runc, ref others @ ..] => {
            let of = runc.runc.as_ref().and_then(|it| it.container.as_deref());
            let ids: Vec<&str> = of.into_iter().collect();
            let release = release_runc(runc, "it", &ids, facts);
            match others.is_empty() {
                true => release,
                false => format!("{release}; do so for {} too", names(others.iter().copied())),
            }
        }
    };
    format!(
        "do not restart the runtime yet: it may not finish starting while a runc does not return. \
         Before that, {end}; then {command} leaves running containers running"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::node;

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
}
