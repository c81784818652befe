//! The shim of one pod does not respond to the runtime.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::culprit;
use crate::evidence::exits::{listed_though_dead, says};
use crate::evidence::lack::{NOT_PROBED, lack_of_tasks};
use crate::evidence::phrases::{duration, name_of_pod, not_answered, short, subject};
use crate::evidence::remedy::{blame, look_for, resume, resume_all};
use crate::evidence::shims::{Shim, role, serving, shims};
use crate::facts::NodeFacts;
use crate::facts::probes::{MAX_SINGLED_OUT, Outcome};
use crate::limits::SLOW_CALL_SECONDS;

mod unnoticed;
mod without_conmon;

/// The symptom: the status of one sandbox hangs, a shim is stopped, an exit was not noticed, or a conmon
/// has ended.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if probes.calls.is_empty() {
        return Opinion::unknown(NOT_PROBED);
    }
    // Only containerd calls a shim for the status of a sandbox; in other runtimes, that call waits for a
    // lock.
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
        let subject = subject(probe);
        // A shim that merely sleeps may not be at fault: the runtime may wait for its disk.
        let (confidence, sentence) = match shim.is_some_and(|shim| shim.fault().is_none()) {
            true => (
                Confidence::Medium,
                format!(
                    "the status of {subject} hangs, usually for its shim, which is not shown to be at \
                     fault"
                ),
            ),
            false => (
                Confidence::High,
                format!("the shim of {subject} does not respond to the runtime"),
            ),
        };
        let culprit = culprit::of_hung_call(probe, shim);
        let evidence = vec![not_answered(probe)];
        let mut finding = finding(Cause::ShimUnresponsive, confidence, culprit, evidence);
        finding.sentence = sentence;
        match shim {
            Some(shim) => blame(&mut finding, shim, facts),
            None => finding.advise_first(look_for(probe, probes)),
        }
        findings.push(finding);
    }
    let stopped = shims.iter().filter(|shim| shim.process.is_stopped());
    let unnamed = stopped.filter(|shim| !blamed.contains(&shim.process.pid));
    let unnamed: Vec<&Shim> = unnamed.collect();
    match unnamed.len() > MAX_SINGLED_OUT {
        true => findings.push(of_many_stopped(&unnamed)),
        false => findings.extend(unnamed.iter().map(|shim| of_stopped(facts, shim))),
    }
    findings.extend(unnoticed::judge(facts, shims));
    findings.extend(without_conmon::judge(facts));
    let unseen = seen.as_ref().err().cloned().or(lack_of_tasks(probes));
    let unseen = unseen.map(|why| format!("no {} could be inspected: {why}", role(probes)));
    Opinion::of(findings, [unseen])
}

/// One finding for many stopped shims, because something has stopped them all.
fn of_many_stopped(stopped: &[&Shim]) -> Finding {
    let mut finding = Finding {
        sentence: format!(
            "{} shims are stopped: their containers cannot be started, stopped or entered, or their \
             exits are not noticed",
            stopped.len()
        ),
        culprit: culprit::of_process(stopped[0].process),
        ..Finding::new(Cause::ShimUnresponsive, Confidence::Certain)
    };
    resume_all(
        &mut finding,
        stopped,
        "; find out what has stopped them (a script, a snapshot)",
    );
    finding
}

fn of_stopped(facts: &NodeFacts, shim: &Shim) -> Finding {
    let probes = &facts.probes;
    let calls = || probes.calls.iter().filter(|probe| shim.serves_call(probe));
    let pod = calls().find_map(|probe| probe.pod.as_ref()).or(shim.pod);
    let id = shim.ids.first().copied();
    let label = shim.process.label();
    let served = match pod {
        Some(pod) => name_of_pod(pod),
        None => format!("container {}", id.map_or("?", short)),
    };
    let sentence = match shim.is_conmon() {
        true => format!(
            "{label} of {served} is stopped: the output of its container is not read, and its exit \
             will not be noticed"
        ),
        false => format!(
            "the shim {label} of {served} is stopped: its containers cannot be started, stopped or \
             entered"
        ),
    };
    let culprit = Culprit {
        pod: pod.cloned(),
        id: id.map(str::to_owned),
        ..Culprit::default()
    };
    let slow = calls().filter(|probe| probe.seconds >= SLOW_CALL_SECONDS);
    let slow = slow.map(|probe| match probe.outcome() {
        Outcome::Hung => not_answered(probe),
        _ => format!(
            "{} for it took {}",
            probe.call.name(),
            duration(probe.seconds)
        ),
    });
    let unnoticed = listed_though_dead(probes).filter(|task| shim.serves(&task.id));
    let mut finding = Finding {
        sentence,
        culprit: culprit::with_process(culprit, shim.process),
        evidence: slow.chain(unnoticed.map(says)).collect(),
        ..Finding::new(Cause::ShimUnresponsive, Confidence::Certain)
    };
    match calls().any(|probe| probe.outcome() == Outcome::Hung) {
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
    fn a_sandbox_whose_status_hangs_is_reported_with_its_shim() {
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
        // Nothing waits for the shim: resuming it frees no node, and it is not to be killed.
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
    fn in_cri_o_a_conmon_that_sleeps_is_not_blamed_for_the_status_of_its_sandbox() {
        let facts = node("cri-o", "1.36.3")
            .answered(Rpc::PodSandboxStatus, 7, 0.002)
            .status(Rpc::PodSandboxStatus, "s1", "shop", "web", "")
            .conmon(70, "s1", None);
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn a_stopped_conmon_is_found_before_its_container_ends_and_is_reported_once() {
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
        // A call that hangs for the container is reported together with the conmon, once.
        let hangs = node().status(Rpc::PodSandboxStatus, "s1", "shop", "web", "");
        let findings = crate::diagnosis::diagnose(&hangs.facts(), |_| true).findings;
        let causes: Vec<Cause> = findings.iter().map(|finding| finding.cause).collect();
        assert_eq!(causes, [Cause::ContainerLock]);
    }

    #[test]
    fn without_shims_or_conmons_the_opinion_is_unknown_and_uses_the_word_of_the_runtime() {
        for (runtime, role) in [
            ("cri-o", "no conmon could"),
            ("containerd", "no shim could"),
        ] {
            let mut facts = node(runtime, "1").facts();
            facts.probes.tasks = crate::facts::Fact::missing("no folder", "/run");
            let Opinion::Unknown(why) = judge(&facts) else {
                panic!("{runtime}");
            };
            assert!(why.starts_with(role), "{why}");
        }
    }
}
