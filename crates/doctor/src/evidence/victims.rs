//! Which components are affected by a shortage of the machine. Without a victim, a busy machine
//! is not a finding.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use pleg::runtime::NoConnection;
use pleg::runtime::Rpc;

use crate::evidence::owner::is_in_a_pod;
use crate::evidence::plugins::is_any_old;
use crate::evidence::shims::shims;
use crate::evidence::waits::blocked_in;
use crate::evidence::who::{go, not_answered, subject};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::{End, Outcome, Probe, ProbeFacts};
use crate::limits::SLOW_CALL_SECONDS;

/// How many victims are quoted.
const MAX_VICTIMS: usize = 3;

/// The finding, with the affected components as evidence; `None` if no component that the node
/// needs is affected.
///
/// If the runtime could not be probed, it may be affected: then the finding is a suspicion.
pub(crate) fn if_felt(facts: &NodeFacts, finding: Option<Finding>) -> Option<Finding> {
    let mut finding = finding?;
    let victims = victims(facts, finding.cause);
    match could_not_be_asked(&facts.probes) {
        Some(why) if victims.is_empty() => {
            finding.confidence = finding.confidence.min(Confidence::Medium);
            finding.verdict = finding.confidence.verdict();
            finding.evidence.push(why);
        }
        None if victims.is_empty() => return None,
        _ => finding
            .evidence
            .extend(victims.into_iter().take(MAX_VICTIMS)),
    }
    Some(finding)
}

fn could_not_be_asked(probes: &ProbeFacts) -> Option<String> {
    let version = probes.node(Rpc::Version);
    if version.is_some_and(|version| !version.is_forbidden()) {
        return None;
    }
    Some("the runtime could not be probed, so it may be affected".to_owned())
}

fn victims(facts: &NodeFacts, of: Cause) -> Vec<String> {
    let probes = &facts.probes;
    let calls = probes.calls.iter();
    let calls = calls.filter(|probe| !is_explained(facts, probe));
    // If it is not known that others are answered, no container is blamed.
    let calls = calls.filter(|probe| probe.id.is_none() || !probes.may_be_unresponsive());
    let mut victims: Vec<String> = calls.filter_map(of_call).collect();
    victims.extend(kubelet(probes));
    // A thread that is blocked in the kernel does not wait for a CPU.
    let blocked = facts.host.blocked_threads();
    victims.extend(
        blocked
            .filter(|_| of != Cause::CpuStarved)
            .filter(|(process, _)| process.serves_containers())
            .filter(|(process, _)| {
                // A shim may be in its pod's cgroup; other processes there serve only that pod.
                let is_of_node = !process.is_daemon() && !process.is_runc();
                is_of_node || !is_in_a_pod(process)
            })
            .map(|(process, thread)| {
                let function = thread.functions().next().unwrap_or("the kernel");
                blocked_in(&process.label(), function)
            }),
    );
    victims
}

/// Whether the call would hang or fail on an idle machine, too.
fn is_explained(facts: &NodeFacts, probe: &Probe) -> bool {
    match probe.outcome() {
        // A process that is stopped or blocked does not respond, and holds what others wait for.
        Outcome::Hung if is_held_by_a_process(facts) => true,
        // It waits for a running CNI plugin.
        Outcome::Hung if probe.call == Rpc::Status => is_any_old(facts),
        Outcome::Refused => matches!(
            probe.no_connection(),
            Some(
                NoConnection::Forbidden
                    | NoConnection::Refused
                    | NoConnection::NoSocket
                    | NoConnection::NotASocket
            )
        ),
        _ => false,
    }
}

/// Whether the runtime is stopped, or something shows that a shim does not respond to it.
fn is_held_by_a_process(facts: &NodeFacts) -> bool {
    let runtime = facts.runtime_process();
    let shims = shims(facts).unwrap_or_default();
    runtime.is_some_and(Process::is_stopped) || shims.iter().any(|shim| shim.fault().is_some())
}

fn of_call(probe: &Probe) -> Option<String> {
    let call = probe.call.name();
    let call = match probe.id {
        Some(_) => format!("{call} of {}", subject(probe)),
        None => call.to_owned(),
    };
    let seconds = go(probe.seconds);
    match &probe.end {
        End::Hung => Some(not_answered(probe)),
        End::Failed(error) => Some(format!("{call} failed: {error}")),
        End::Answered => {
            (probe.seconds > SLOW_CALL_SECONDS).then(|| format!("{call} took {seconds}"))
        }
    }
}

fn kubelet(probes: &ProbeFacts) -> Option<String> {
    let at = probes.kubelet.source();
    let health = probes.kubelet.value()?;
    let is_well = matches!(health.code, Some(200..300));
    (!is_well).then(|| format!("{at} {}", health.says()))
}

#[cfg(test)]
mod tests {
    use pleg::runtime::CallError;

    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{CgroupPath, Thread};
    use crate::node::node;

    fn felt(facts: &NodeFacts) -> Option<Finding> {
        let finding = Finding::new(Cause::DiskSaturated, Confidence::High);
        if_felt(facts, Some(finding))
    }

    #[track_caller]
    fn says(facts: &NodeFacts, expected: &str) {
        let finding = felt(facts).unwrap();
        assert_eq!(finding.confidence, Confidence::High);
        assert_eq!(finding.evidence, [expected]);
    }

    #[test]
    fn where_everybody_is_served_nothing_is_found() {
        let facts = node("containerd", "1.7.24")
            .answered(Rpc::ContainerStatus, 100, 0.2)
            .kubelet(200, &[]);
        assert_eq!(felt(&facts.facts()), None);
        assert_eq!(if_felt(&node("containerd", "1.7.24").facts(), None), None);
    }

    #[test]
    fn a_call_or_a_kubelet_that_waits_is_named() {
        let slow = node("containerd", "1.7.24").call(Rpc::ListContainers, Outcome::Ok, 3.2);
        says(&slow.facts(), "ListContainers took 3.2s");
        let hung =
            node("containerd", "1.7.24").status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        says(
            &hung.facts(),
            "ContainerStatus of container app of pod shop/web has not answered for 2s",
        );
        let late = CallError::Refused("DeadlineExceeded: too late".into());
        let failed = node("containerd", "1.7.24").failed(Rpc::Status, late);
        says(
            &failed.facts(),
            "Status failed: the runtime answered DeadlineExceeded: too late",
        );
        let kubelet = node("containerd", "1.7.24").kubelet(500, &["syncloop"]);
        says(
            &kubelet.facts(),
            "http://127.0.0.1:10248/healthz returned 500: syncloop failed",
        );
    }

    #[test]
    fn a_shim_that_stands_still_in_the_kernel_is_a_victim_and_a_workload_is_none() {
        let blocked_below = |comm: &str, path: &str| {
            let thread = Thread {
                tid: 700,
                state: 'D',
                still: true,
                wchan: Some("io_schedule".to_owned()),
                ..Thread::default()
            };
            let process = Process {
                pid: 700,
                comm: comm.to_owned(),
                threads: vec![thread],
                cgroups: vec![CgroupPath {
                    path: path.to_owned(),
                    ..CgroupPath::default()
                }],
                ..Process::default()
            };
            let mut facts = node("containerd", "1.7.24").facts();
            facts.host.processes = Fact::known(vec![process], "/proc");
            facts
        };
        let blocked = |comm: &str| blocked_below(comm, "/system.slice/containerd.service");
        says(
            &blocked("containerd-shim"),
            "containerd-shim (700) waits in io_schedule and did not run between two samples",
        );
        assert_eq!(felt(&blocked("dd")), None);
        let starved = Finding::new(Cause::CpuStarved, Confidence::High);
        assert_eq!(if_felt(&blocked("containerd-shim"), Some(starved)), None);
        // What serves a pod from within harms that pod; a shim may be there for the node.
        let pod = "/kubepods/pod0e2f4a9c-1111-2222-3333-444455556666";
        for (comm, of_the_node) in [("runc", false), ("dockerd", false), ("conmon", true)] {
            assert!(felt(&blocked(comm)).is_some(), "{comm}");
            let below = felt(&blocked_below(comm, pod));
            assert_eq!(below.is_some(), of_the_node, "{comm}");
        }
    }

    #[test]
    fn where_the_runtime_may_not_be_asked_it_is_a_suspicion() {
        for facts in [
            node("containerd", "1.7.24").refused(NoConnection::Forbidden),
            node("containerd", "1.7.24").unasked(),
        ] {
            let finding = felt(&facts.facts()).unwrap();
            assert_eq!(finding.confidence, Confidence::Medium);
            assert!(
                finding.evidence[0].contains("could not be probed"),
                "{finding:?}"
            );
        }
        let full = node("containerd", "1.7.24").refused(NoConnection::QueueFull);
        let finding = felt(&full.facts()).unwrap();
        assert_eq!(finding.confidence, Confidence::High);
    }

    #[test]
    fn what_an_idle_machine_would_not_help_is_not_blamed_on_a_busy_one() {
        let gone = node("containerd", "1.7.24").refused(NoConnection::Refused);
        assert_eq!(felt(&gone.facts()), None);
        let locked = || {
            node("containerd", "1.7.24")
                .call(Rpc::ListContainers, Outcome::Hung, 2.0)
                .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
        };
        assert_eq!(felt(&locked().shim(4711, true, &["c1"]).facts()), None);
        assert!(felt(&locked().shim(4711, false, &["c1"]).facts()).is_some());
        let runc = locked()
            .shim(4711, false, &["c1"])
            .process(200, 4711, "runc");
        assert_eq!(felt(&runc.aged(200, 60.0).facts()), None);
        let stopped = locked().listener(812, "containerd", 'T');
        assert_eq!(felt(&stopped.facts()), None);
        let status = node("containerd", "1.7.24").call(Rpc::Status, Outcome::Hung, 2.0);
        let waits = status.plugin(70, "terway", 90.0, "unix_stream_read_generic");
        assert_eq!(felt(&waits.facts()), None);
    }
}
