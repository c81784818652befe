//! One container's lock in CRI-O or dockerd: its status hangs while the lists answer.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::culprit;
use crate::evidence::lack::NOT_ANSWERED;
use crate::evidence::phrases::{duration, stacks, subject};
use crate::evidence::remedy::{blame, blame_runc, look_for};
use crate::evidence::runc::stuck_runcs;
use crate::evidence::shims::{Shim, serving, shims, stopped_conmon_of_pod};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::{MAX_SINGLED_OUT, Outcome, Probe, ProbeFacts};

/// The symptom: both lists are answered, but the status of one container is not.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    match probes.outcome(Rpc::ListContainers) {
        None => return Opinion::unknown("ListContainers was not called"),
        Some(Outcome::Refused) => return Opinion::unknown("the runtime cannot be reached"),
        // If no call is answered, the runtime as a whole is the cause.
        Some(_) if !probes.may_blame_one() => return Opinion::unknown(NOT_ANSWERED),
        // On containerd, this is the status lock, which is another cause.
        Some(Outcome::Hung) if probes.may_be_containerd() => return Opinion::Clear,
        Some(_) => {}
    }
    let mut hung = probes.singled_out(Rpc::ContainerStatus);
    hung.extend(sandboxes(probes, &hung));
    let shims = shims(facts).unwrap_or_default();
    let runcs = match probes.may_be_containerd() {
        true => Vec::new(),
        false => stuck_runcs(facts),
    };
    let findings = hung.into_iter().map(|probe| {
        let stopped = || stopped_conmon_of_pod(&shims, probe).filter(|_| is_sandbox(probe));
        let shim = stopped().or_else(|| serving(&shims, probe));
        of_one(facts, probe, shim, &runcs)
    });
    Opinion::of(findings, [])
}

/// Sandboxes whose status hangs, except those of pods whose container is reported itself. For that status,
/// containerd calls a shim, which is another cause; other runtimes wait for the locks of the pod's
/// containers.
fn sandboxes<'a>(probes: &'a ProbeFacts, containers: &[&Probe]) -> Vec<&'a Probe> {
    let many = probes.hung(Rpc::ContainerStatus).count() > MAX_SINGLED_OUT;
    if probes.may_be_containerd() || many {
        return Vec::new();
    }
    let mut sandboxes = probes.singled_out(Rpc::PodSandboxStatus);
    sandboxes.retain(|sandbox| {
        let mut named = containers.iter().filter(|one| one.pod.is_some());
        !named.any(|container| container.pod == sandbox.pod)
    });
    sandboxes
}

fn is_sandbox(probe: &Probe) -> bool {
    probe.call == Rpc::PodSandboxStatus
}

fn of_one(facts: &NodeFacts, probe: &Probe, shim: Option<&Shim>, runcs: &[&Process]) -> Finding {
    let probes = &facts.probes;
    let stopped = shim.filter(|shim| shim.process.is_stopped());
    // No lock is known in containerd that blocks one status call but no list.
    let confidence = match probes.is_containerd() {
        true => Confidence::Medium,
        false => Confidence::High,
    };
    let subject = subject(probe);
    let why = match (stopped, runcs) {
        (Some(shim), _) => format!("its {} is stopped", shim.named()),
        (None, [runc]) if runc.is_stopped() => {
            format!("it waits for {}, which is stopped", runc.label())
        }
        _ => "its lock is held, and every call for it waits".to_owned(),
    };
    let mut finding = Finding {
        culprit: culprit::of_hung_call(probe, shim),
        sentence: format!("status calls for {subject} hang: {why}"),
        ..Finding::new(Cause::ContainerLock, confidence)
    };
    finding.evidence.push(format!(
        "{} of {subject} has not answered for {}, while {}{}",
        probe.call.name(),
        duration(probe.seconds),
        others(probes, probe.call),
        probe.source()
    ));
    if probes.is_containerd() {
        finding.evidence.push(
            "both lists were answered, so containerd's status lock, which also blocks lists, is \
             not the cause, unless it was taken afterwards"
                .to_owned(),
        );
    }
    finding.evidence.extend(stacks(probes));
    match shim {
        Some(shim) if stopped.is_some() || runcs.is_empty() => blame(&mut finding, shim, facts),
        _ if !runcs.is_empty() => {
            if let [runc] = runcs {
                finding.culprit = culprit::with_process(finding.culprit, runc);
            }
            blame_runc(&mut finding, runcs, facts);
        }
        _ => finding.advise_first(look_for(probe, probes)),
    }
    finding
}

fn others(probes: &ProbeFacts, call: Rpc) -> String {
    if probes.agent.is_some() {
        return "all other pods are up to date".to_owned();
    }
    match probes.cost(call).map_or(0, |cost| cost.count) {
        1 => "the call for one other was answered".to_owned(),
        others => format!("the calls for {others} others were answered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::probes::OtherCalls;
    use crate::node::{found, node};
    use causes::finding::Verdict;

    #[test]
    fn a_container_whose_status_hangs_while_lists_answer_is_named() {
        let facts = node("docker", "20.10.24")
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 7, 0.002);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].verdict, Verdict::Problem);
        assert!(
            findings[0]
                .sentence
                .contains("container app of pod shop/web")
        );
    }

    #[test]
    fn in_containerd_no_such_lock_is_known_so_it_is_only_suspected() {
        let facts = node("containerd", "2.1.9")
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 7, 0.002);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        let evidence = findings[0].evidence.join("\n");
        assert!(evidence.contains("both lists were answered"), "{evidence}");
    }

    #[test]
    fn no_container_is_blamed_if_no_other_status_is_answered() {
        let facts = node("cri-o", "1.29.13")
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .status(Rpc::ContainerStatus, "c2", "shop", "web", "log");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn a_node_that_answers_and_the_status_lock_are_no_finding() {
        assert_eq!(judge(&node("cri-o", "1.29.13").facts()), Opinion::Clear);
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    fn crio() -> crate::node::Node {
        node("cri-o", "1.36.3")
            .conmon(70, "s1", None)
            .conmon(80, "c1", Some("s1"))
            .conmon(90, "c2", Some("s1"))
            .answered(Rpc::ContainerStatus, 7, 0.002)
            .answered(Rpc::PodSandboxStatus, 7, 0.002)
    }

    /// Asserts that the advice is to resume this process, and to kill none.
    #[track_caller]
    fn is_to_be_resumed(finding: &Finding, pid: u32) {
        assert_eq!(finding.culprit.pid, Some(pid), "{finding:?}");
        assert!(finding.advice[0].contains(&format!("kill -CONT {pid}")));
        let advice = finding.advice.join("\n");
        assert!(!advice.contains("-KILL"), "{advice}");
    }

    #[test]
    fn in_cri_o_a_sandbox_whose_status_hangs_leads_to_the_stopped_conmon_of_its_container() {
        let facts = crio()
            .in_state(80, 'T')
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings.len(), 1);
        is_to_be_resumed(&findings[0], 80);
        let said = "status calls for pod shop/web hang: its conmon (80) is stopped";
        assert_eq!(findings[0].sentence, said);
    }

    #[test]
    fn a_sandbox_that_waits_for_its_container_is_not_named_beside_it() {
        let facts = crio()
            .in_state(80, 'T')
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "")
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings.len(), 1);
        is_to_be_resumed(&findings[0], 80);
        assert_eq!(findings[0].culprit.id.as_deref(), Some("c1"));
    }

    #[test]
    fn a_stopped_runc_that_cri_o_has_started_is_what_its_lock_waits_for() {
        let facts = crio().process(300, 10, "runc").in_state(300, 'T').status(
            Rpc::ContainerStatus,
            "c1",
            "shop",
            "web",
            "app",
        );
        let findings = found(judge(&facts.facts()));
        is_to_be_resumed(&findings[0], 300);
        assert_eq!(findings[0].confidence, Confidence::High);
        assert!(findings[0].sentence.contains("runc (300)"));
    }

    #[test]
    fn a_stuck_container_is_named_although_version_hangs_if_other_calls_are_answered() {
        let facts = node("containerd", "1.7.24")
            .call(Rpc::Version, Outcome::Hung, 6.0)
            .call(Rpc::ListPodSandbox, Outcome::Ok, 0.002)
            .call(Rpc::ListContainers, Outcome::Ok, 0.002)
            .answered(Rpc::ContainerStatus, 5, 0.002)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        let mut facts = facts.facts();
        assert!(matches!(judge(&facts), Opinion::Unknown(_)));
        facts.probes.besides_version = OtherCalls::Answered;
        let findings = found(judge(&facts));
        assert_eq!(findings[0].culprit.id.as_deref(), Some("c1"));
    }

    #[test]
    fn a_conmon_that_sleeps_is_not_to_be_killed_for_a_status_that_hangs() {
        let hangs = crio().status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        let findings = found(judge(&hangs.facts()));
        assert_eq!(findings[0].confidence, Confidence::High);
        let advice = &findings[0].advice[0];
        assert!(advice.contains("do not kill conmon (80)"), "{advice}");
    }

    #[test]
    fn if_no_conmon_is_visible_the_advice_names_the_pid_file_of_cri_o() {
        let hung = node("cri-o", "1.36.3")
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 7, 0.002);
        let findings = found(judge(&hung.facts()));
        let advice = &findings[0].advice[0];
        assert!(advice.contains("/c1/userdata/conmon-pidfile"), "{advice}");
    }
}
