//! Some versions of runc miss the exit of a short-lived process that they started.

use causes::Cause;
use causes::finding::Confidence;
use causes::versions::{RuncFault, runc_has};
use cri::Rpc;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack_of_processes;
use crate::evidence::owner::culprit;
use crate::evidence::shims::shims;
use crate::evidence::who::{MAX_EXAMPLES, names};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};
use crate::facts::probes::Outcome;

/// Under a shim, runc exits as soon as the process that it starts is running.
const STUCK_SECONDS: f64 = 60.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let stuck: Vec<&Process> = host
        .all_processes()
        .iter()
        .filter(|process| is_left_waiting(host, process) && !is_update(facts, process))
        .collect();
    let Some(first) = stuck.first() else {
        return Opinion::of(None, [lack_of_processes(host)]);
    };
    let version = host.versions.runc();
    if version.and_then(|version| runc_has(RuncFault::ShortExec, version)) != Some(true) {
        let unknown = version.is_none().then(|| {
            format!(
                "the version of runc is not known; without a child process for more than \
                 {STUCK_SECONDS:.0} s: {}",
                names(stuck.iter().copied())
            )
        });
        return Opinion::of(None, [unknown]);
    }
    let evidence = vec![
        format!(
            "started by a shim more than {STUCK_SECONDS:.0} s ago, without a child process and not blocked \
             in the kernel: {}",
            names(stuck.iter().copied())
        ),
        format!("version of runc: {}", version.unwrap_or_default()),
    ];
    let found = finding(
        Cause::RuncShortExecStuck,
        Confidence::High,
        culprit(first),
        evidence,
    );
    let pids: Vec<String> = stuck
        .iter()
        .take(MAX_EXAMPLES)
        .map(|process| process.pid.to_string())
        .collect();
    Opinion::Found(vec![found.advising(format!(
        "run `kill -KILL {}` to end these runc processes, which wait for an exit that they \
         missed; the containers are not affected",
        pids.join(" ")
    ))])
}

fn is_left_waiting(host: &HostFacts, process: &Process) -> bool {
    let under_shim = host.process(process.ppid).is_some_and(Process::is_shim);
    let mut running = host
        .children(process.pid)
        .filter(|child| child.state != 'Z');
    process.is_runc()
        && process.age_seconds > STUCK_SECONDS
        && under_shim
        && !process.is_stopped()
        && running.next().is_none()
        && process.threads.iter().all(|thread| thread.state != 'D')
}

/// An update waits for systemd, and containerd holds the status lock of its container meanwhile,
/// for which the list of containers waits. An `exec` takes no such lock and does not call systemd
/// once its process has been started.
fn is_update(facts: &NodeFacts, runc: &Process) -> bool {
    let sockets = facts.host.sockets.value();
    let mut talks = sockets
        .into_iter()
        .flat_map(|sockets| sockets.talks_of(runc.pid));
    let calls_systemd = talks.any(|talk| is_of_systemd(&talk.to));
    let probes = &facts.probes;
    let is_list_hung = probes.outcome(Rpc::ListContainers) == Some(Outcome::Hung);
    let shims = shims(facts).unwrap_or_default();
    let shim = shims.iter().find(|shim| shim.process.pid == runc.ppid);
    let holds_lock = shim.is_some_and(|shim| {
        let mut hung = probes.hung(Rpc::ContainerStatus);
        hung.any(|probe| probe.id.as_deref().is_some_and(|id| shim.serves(id)))
    });
    calls_systemd || is_list_hung && holds_lock
}

fn is_of_systemd(socket: &str) -> bool {
    socket.ends_with("/dbus/system_bus_socket") || socket.ends_with("/systemd/private")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{Talk, UnixSockets};
    use crate::node::{Node, found, node};

    fn old_runc() -> Node {
        node("containerd", "1.7.24")
            .package("runc", "1.3.2")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .aged(200, 90.0)
    }

    #[test]
    fn a_runc_for_which_the_list_of_containers_waits_is_an_update_and_no_short_exec() {
        let is_exec = found(judge(&old_runc().facts()));
        assert_eq!(is_exec[0].culprit.pid, Some(200));
        let update = old_runc()
            .call(Rpc::ListContainers, Outcome::Hung, 20.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        assert_eq!(judge(&update.facts()), Opinion::Clear);
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
        assert_eq!(judge(&facts), Opinion::Clear);
        let stopped = old_runc().in_state(200, 'T');
        assert_eq!(judge(&stopped.facts()), Opinion::Clear);
    }
}
