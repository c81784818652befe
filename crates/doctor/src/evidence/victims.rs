//! Which components are affected by a shortage on the machine. Without a victim, a busy machine is not a
//! finding.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use pleg::runtime::{NoConnection, Rpc};

use super::owner::is_in_a_pod;
use super::phrases::{duration, name_of_call, not_answered};
use super::plugins::is_any_old;
use super::shims::{Shim, serving, shims};
use super::waits::blocked_in;
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
pub(crate) fn with_victims(facts: &NodeFacts, mut finding: Finding) -> Option<Finding> {
    let victims = victims(facts, finding.cause);
    if !victims.is_empty() {
        let quoted = victims.into_iter().take(MAX_VICTIMS);
        finding.evidence.extend(quoted);
    } else if is_unknown(&facts.probes) {
        finding.confidence = finding.confidence.min(Confidence::Medium);
        finding.verdict = finding.confidence.verdict();
        let why = "the runtime could not be probed, so it may be affected";
        finding.evidence.push(why.to_owned());
    } else {
        return None;
    }
    Some(finding)
}

/// Whether the runtime could not be probed.
fn is_unknown(probes: &ProbeFacts) -> bool {
    probes.node(Rpc::Version).is_none_or(Probe::is_forbidden)
}

fn victims(facts: &NodeFacts, of: Cause) -> Vec<String> {
    let probes = &facts.probes;
    // If it is not known whether other calls are answered, no container is blamed.
    let may_blame_one = !probes.may_be_unresponsive();
    let shims = shims(facts).unwrap_or_default();
    let calls = probes.calls.iter();
    let mut victims: Vec<String> = calls
        .filter(|probe| probe.id.is_none() || may_blame_one)
        // Statistics take long on any machine with many containers.
        .filter(|probe| !probe.call.is_statistics() && !is_explained(facts, &shims, probe, of))
        .filter_map(of_call)
        .collect();
    victims.extend(kubelet(probes));
    // A thread that is blocked in the kernel does not wait for a CPU.
    if of == Cause::CpuStarved {
        return victims;
    }
    let blocked = facts.host.blocked_threads();
    let blocked = blocked.filter(|(process, _)| {
        // A shim may be in its pod's cgroup; other processes there serve only that pod.
        let may_be_in_a_pod = !process.is_daemon() && !process.is_runc();
        process.serves_containers() && (may_be_in_a_pod || !is_in_a_pod(process))
    });
    victims.extend(blocked.map(|(process, thread)| {
        let function = thread.functions().next().unwrap_or("the kernel");
        blocked_in(&process.label(), function)
    }));
    victims
}

/// Whether the call would hang or fail on an idle machine, too.
fn is_explained(facts: &NodeFacts, shims: &[Shim], probe: &Probe, of: Cause) -> bool {
    let is_of_faulty_shim = serving(shims, probe).is_some_and(|shim| shim.fault().is_some());
    match probe.outcome() {
        _ if is_of_faulty_shim => true,
        // A process that is stopped or blocked does not respond, and holds what others wait for.
        Outcome::Hung if is_held_by_a_process(facts, shims) => true,
        // A runtime that waits for a disk does not wait for a CPU.
        Outcome::Hung if of == Cause::CpuStarved && is_blocked_in_kernel(facts) => true,
        // `Status` waits for a running CNI plugin.
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
fn is_held_by_a_process(facts: &NodeFacts, shims: &[Shim]) -> bool {
    let runtime = facts.runtime_process();
    runtime.is_some_and(Process::is_stopped) || shims.iter().any(|shim| shim.fault().is_some())
}

fn is_blocked_in_kernel(facts: &NodeFacts) -> bool {
    let runtime = facts.runtime_process();
    runtime.is_some_and(|runtime| runtime.blocked_threads().next().is_some())
}

fn of_call(probe: &Probe) -> Option<String> {
    let (call, took) = (name_of_call(probe), duration(probe.seconds));
    match &probe.end {
        End::Hung => Some(not_answered(probe)),
        End::Failed(error) => Some(format!("{call} failed: {error}")),
        End::Answered => (probe.seconds > SLOW_CALL_SECONDS).then(|| format!("{call} took {took}")),
    }
}

fn kubelet(probes: &ProbeFacts) -> Option<String> {
    let at = probes.kubelet.source();
    let health = probes.kubelet.value()?;
    let is_healthy = matches!(health.code, Some(200..300));
    (!is_healthy).then(|| format!("{at} {}", health.says()))
}

#[cfg(test)]
mod tests {
    use pleg::runtime::CallError;

    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{CgroupPath, Thread};
    use crate::node::node;

    fn found(facts: &NodeFacts) -> Option<Finding> {
        with_victims(facts, Finding::new(Cause::DiskSaturated, Confidence::High))
    }

    #[track_caller]
    fn says(facts: &NodeFacts, expected: &str) {
        let finding = found(facts).unwrap();
        assert_eq!(finding.confidence, Confidence::High);
        assert_eq!(finding.evidence, [expected]);
    }

    #[test]
    fn a_machine_whose_calls_are_answered_in_time_has_no_victim() {
        let facts = node("containerd", "1.7.24")
            .answered(Rpc::ContainerStatus, 100, 0.2)
            .kubelet(200, &[]);
        assert_eq!(found(&facts.facts()), None);
    }

    #[test]
    fn a_call_or_a_kubelet_that_waits_is_a_victim() {
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
    fn a_shim_that_is_blocked_in_the_kernel_is_a_victim_and_a_workload_is_not() {
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
        assert_eq!(found(&blocked("dd")), None);
        let starved = Finding::new(Cause::CpuStarved, Confidence::High);
        assert_eq!(with_victims(&blocked("containerd-shim"), starved), None);
        // A daemon in a pod serves only that pod; a shim may be there for the node.
        let pod = "/kubepods/pod0e2f4a9c-1111-2222-3333-444455556666";
        for (comm, of_the_node) in [("runc", false), ("dockerd", false), ("conmon", true)] {
            assert!(found(&blocked(comm)).is_some(), "{comm}");
            let below = found(&blocked_below(comm, pod));
            assert_eq!(below.is_some(), of_the_node, "{comm}");
        }
    }

    #[test]
    fn a_shortage_is_a_suspicion_if_the_runtime_could_not_be_probed() {
        for facts in [
            node("containerd", "1.7.24").refused(NoConnection::Forbidden),
            node("containerd", "1.7.24").unasked(),
        ] {
            let finding = found(&facts.facts()).unwrap();
            assert_eq!(finding.confidence, Confidence::Medium);
            assert!(
                finding.evidence[0].contains("could not be probed"),
                "{finding:?}"
            );
        }
        let full = node("containerd", "1.7.24").refused(NoConnection::QueueFull);
        let finding = found(&full.facts()).unwrap();
        assert_eq!(finding.confidence, Confidence::High);
    }

    #[test]
    fn a_call_that_would_fail_on_an_idle_machine_too_is_no_victim() {
        let gone = node("containerd", "1.7.24").refused(NoConnection::Refused);
        assert_eq!(found(&gone.facts()), None);
        let locked = || {
            node("containerd", "1.7.24")
                .call(Rpc::ListContainers, Outcome::Hung, 2.0)
                .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
        };
        assert_eq!(found(&locked().shim(4711, true, &["c1"]).facts()), None);
        assert!(found(&locked().shim(4711, false, &["c1"]).facts()).is_some());
        let runc = locked()
            .shim(4711, false, &["c1"])
            .process(200, 4711, "runc");
        assert_eq!(found(&runc.aged(200, 60.0).facts()), None);
        let stopped = locked().listener(812, "containerd", 'T');
        assert_eq!(found(&stopped.facts()), None);
        let status = node("containerd", "1.7.24").call(Rpc::Status, Outcome::Hung, 2.0);
        let waits = status.plugin(70, "terway", 90.0, "unix_stream_read_generic");
        assert_eq!(found(&waits.facts()), None);
    }
}
