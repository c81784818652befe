//! The shim of one pod does not respond to the runtime.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::exits::says;
use crate::evidence::lack::{NOT_PROBED, lack_of_tasks};
use crate::evidence::remedy::{blame, look_for, resume};
use crate::evidence::shims::{Shim, role, serving, shims};
use crate::evidence::who::{culprit, go, not_answered, of_pod, short, subject};
use crate::facts::NodeFacts;
use crate::facts::probes::{Outcome, Probe};
use crate::limits::SLOW_CALL_SECONDS;

mod unnoticed;
mod without_conmon;

/// The symptom: the status of one sandbox hangs, or a shim is stopped.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if probes.calls.is_empty() {
        return Opinion::CannotTell(NOT_PROBED.to_owned());
    }
    // Only containerd calls a shim for it; in other runtimes a lock is held.
    let hung = match probes.may_blame_one() && probes.may_be_containerd() {
        true => probes.singled_out(Rpc::PodSandboxStatus),
        false => Vec::new(),
    };
    let mut findings = Vec::new();
    let mut blamed = Vec::new();
    let seen = shims(facts);
    let shims = seen.as_ref().map_or(&[][..], Vec::as_slice);
    for probe in hung {
        let shim = serving(shims, probe);
        blamed.extend(shim.map(|shim| shim.process.pid));
        let who = subject(probe);
        // A shim that merely sleeps may wait for nothing, and the runtime for its disk.
        let (confidence, sentence) = match shim.is_some_and(|shim| shim.fault().is_none()) {
            true => (
                Confidence::Medium,
                format!(
                    "the status of {who} hangs, usually for its shim, which is not shown to be at \
                     fault"
                ),
            ),
            false => (
                Confidence::High,
                format!("the shim of {who} does not respond to the runtime"),
            ),
        };
        let mut finding = Finding::new(Cause::ShimUnresponsive, confidence);
        finding.culprit = culprit(probe, shim);
        finding.sentence = sentence;
        finding.evidence.push(not_answered(probe));
        match shim {
            Some(shim) => blame(&mut finding, shim, facts),
            None => finding.advise_first(look_for(probe, probes)),
        }
        findings.push(finding);
    }
    let stopped = shims.iter().filter(|shim| shim.process.is_stopped());
    let unnamed = stopped.filter(|shim| !blamed.contains(&shim.process.pid));
    findings.extend(unnamed.map(|shim| of_stopped(facts, shim)));
    findings.extend(unnoticed::judge(facts, shims));
    findings.extend(without_conmon::judge(facts));
    let unseen = seen.as_ref().err().cloned().or(lack_of_tasks(probes));
    let unseen = unseen.map(|why| format!("no {} could be inspected: {why}", role(probes)));
    Opinion::of(findings, [unseen])
}

fn of_stopped(facts: &NodeFacts, shim: &Shim) -> Finding {
    let probes = &facts.probes;
    let mut finding = Finding::new(Cause::ShimUnresponsive, Confidence::Certain);
    let who = shim.process.label();
    let known = probes.calls.iter().find(|probe| {
        let id = probe.id.as_deref();
        id.is_some_and(|id| shim.serves(id)) && probe.pod.is_some()
    });
    let whose = known
        .and_then(|probe| probe.pod.as_ref())
        .or(shim.pod)
        .cloned();
    let pod = whose.as_ref().map(of_pod);
    let serves = shim.ids.first().map(|id| short(id)).unwrap_or("?");
    let pod = pod.unwrap_or_else(|| format!("container {serves}"));
    finding.sentence = match shim.is_conmon() {
        true => format!(
            "{who} of {pod} is stopped: the output of its container is not read, and its exit \
             will not be noticed"
        ),
        false => format!(
            "the shim {who} of {pod} is stopped: its containers cannot be started, stopped or \
             entered"
        ),
    };
    finding.culprit = Culprit {
        pod: whose,
        id: shim.ids.first().map(|id| (*id).to_owned()),
        pid: Some(shim.process.pid),
        process: Some(shim.process.comm.clone()),
        ..Culprit::default()
    };
    let slow = probes
        .calls
        .iter()
        .filter(|probe| probe.seconds >= SLOW_CALL_SECONDS);
    finding.evidence.extend(
        slow.filter(|probe| probe.id.as_deref().is_some_and(|id| shim.serves(id)))
            .map(|probe| match probe.outcome() {
                Outcome::Hung => not_answered(probe),
                _ => format!("{} for it took {}", probe.call.name(), go(probe.seconds)),
            }),
    );
    finding
        .evidence
        .extend(unnoticed::of(probes, shim).map(says));
    let its = |probe: &&Probe| probe.id.as_deref().is_some_and(|id| shim.serves(id));
    let mut its_calls = probes.calls.iter().filter(its);
    match its_calls.any(|probe| probe.outcome() == Outcome::Hung) {
        true => blame(&mut finding, shim, facts),
        false => resume(&mut finding, shim, facts),
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{found, node};

    #[test]
    fn a_sandbox_whose_status_hangs_leads_to_its_shim() {
        let facts = node("containerd", "1.6.20")
            .answered(Rpc::PodSandboxStatus, 7, 0.002)
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "")
            .shim(99, false, &["s1"])
            .process(200, 99, "runc");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].confidence, Confidence::High);
        assert_eq!(findings[0].culprit.pid, Some(200));
        assert!(findings[0].advice[0].contains("kill -KILL 99"));
    }

    #[test]
    fn a_sandbox_whose_shim_merely_sleeps_is_a_suspicion_and_no_process_is_to_be_killed() {
        let facts = node("containerd", "1.6.20")
            .answered(Rpc::PodSandboxStatus, 7, 0.002)
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "")
            .shim(99, false, &["s1"]);
        let finding = &found(judge(&facts.facts()))[0];
        assert_eq!(finding.confidence, Confidence::Medium);
        assert_eq!(finding.culprit.pid, None);
        assert!(finding.sentence.contains("not shown to be at fault"));
        let advice = finding.advice.join("\n");
        assert!(!advice.contains("-KILL"), "{advice}");
    }

    #[test]
    fn no_shim_is_a_finding_if_no_sandbox_status_is_answered_or_all_are_slow() {
        let hung = node("containerd", "1.6.20")
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "")
            .shim(99, false, &["s1"]);
        assert_eq!(judge(&hung.facts()), Opinion::Clear);
        let slow = node("containerd", "1.6.20")
            .answered(Rpc::PodSandboxStatus, 7, 30.0)
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "")
            .shim(99, false, &["s1"]);
        assert_eq!(judge(&slow.facts()), Opinion::Clear);
    }

    #[test]
    fn a_stopped_shim_is_found_before_it_is_called() {
        let facts = node("containerd", "1.7.24").shim(99, true, &["s1", "c1"]);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].confidence, Confidence::Certain);
        let advice = &findings[0].advice[0];
        assert!(advice.contains("kill -CONT 99"), "{advice}");
        // Nothing waits for it: it frees no node, and is not to be killed.
        assert!(
            !advice.contains("frees") && !advice.contains("KILL"),
            "{advice}"
        );
    }

    #[test]
    fn a_node_that_answers_is_clear() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
    }

    #[test]
    fn in_cri_o_a_conmon_that_sleeps_is_not_accused_for_the_status_of_its_sandbox() {
        let facts = node("cri-o", "1.36.3")
            .answered(Rpc::PodSandboxStatus, 7, 0.002)
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "")
            .conmon(70, "s1", None);
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn a_stopped_conmon_is_found_before_its_container_ends_and_reported_once() {
        let node = || {
            node("cri-o", "1.36.3")
                .answered(Rpc::PodSandboxStatus, 7, 0.002)
                .conmon(80, "c1", Some("s1"))
                .in_state(80, 'T')
        };
        let findings = found(judge(&node().facts()));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].confidence, Confidence::Certain);
        assert_eq!(findings[0].culprit.id.as_deref(), Some("c1"));
        assert!(findings[0].sentence.contains("conmon (80) of pod shop/web"));
        assert!(findings[0].advice[0].contains("kill -CONT 80"));
        // What hangs for it is reported with it, once.
        let hangs = node().status(Rpc::PodSandboxStatus, "s1", "shop", "web", "");
        let findings = crate::diagnosis::diagnose(&hangs.facts(), |_| true).findings;
        let causes: Vec<Cause> = findings.iter().map(|finding| finding.cause).collect();
        assert_eq!(causes, [Cause::ContainerLock]);
    }

    #[test]
    fn what_cannot_be_looked_at_is_called_as_the_runtime_calls_it() {
        for (runtime, role) in [
            ("cri-o", "no conmon could"),
            ("containerd", "no shim could"),
        ] {
            let mut facts = node(runtime, "1").facts();
            facts.probes.tasks = crate::facts::Fact::missing("no folder", "/run");
            let Opinion::CannotTell(why) = judge(&facts) else {
                panic!("{runtime}");
            };
            assert!(why.starts_with(role), "{why}");
        }
    }
}
