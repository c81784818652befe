//! The runtime answers, but the kubelet's own loop makes no progress.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::lack::NOT_PROBED;
use crate::evidence::owner::culprit;
use crate::evidence::remedy::resume_daemon;
use crate::evidence::who::go;
use crate::facts::probes::Outcome;
use crate::facts::{Fact, NodeFacts};

/// A runtime that answers every call within this time does not block a kubelet.
const FAST_SECONDS: f64 = 1.0;

/// The symptom: all calls of the doctor are quick, but `/healthz` reports the sync loop.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if probes.outcome(Rpc::ListContainers).is_none() {
        return Opinion::CannotTell(NOT_PROBED.to_owned());
    }
    let health = match &probes.kubelet {
        Fact::Known { value, .. } => value,
        Fact::Missing { why, source } => {
            return Opinion::CannotTell(format!("no kubelet answers at {source}: {why}"));
        }
    };
    let syncloop = health.failed.iter().any(|check| check == "syncloop");
    let silent = health.code.is_none();
    let mut processes = facts.host.all_processes().iter();
    let process = processes.find(|process| process.comm == "kubelet");
    let stopped = process.filter(|process| silent && process.is_stopped());
    let slowest = probes.costs.iter().map(|cost| cost.max).fold(0.0, f64::max);
    // An agent reports no single calls, but the duration of its last relist.
    let relist = probes.agent.as_ref().map(|agent| agent.relist_seconds);
    let slowest = relist.map_or(slowest, |relist| relist.unwrap_or(f64::MAX));
    let quick = !probes.any_hung()
        && probes.outcome(Rpc::ListContainers) == Some(Outcome::Ok)
        && probes.outcome(Rpc::ListPodSandbox) == Some(Outcome::Ok)
        && slowest < FAST_SECONDS;
    if stopped.is_none() && (!quick || !(syncloop || silent)) {
        return Opinion::Clear;
    }
    let confidence = match (stopped, syncloop) {
        (Some(_), _) => Confidence::Certain,
        (None, true) => Confidence::High,
        (None, false) => Confidence::Medium,
    };
    let mut finding = Finding::new(Cause::KubeletInternal, confidence);
    finding.sentence = match (stopped, syncloop) {
        (Some(kubelet), _) => format!("{} is stopped", kubelet.label()),
        (None, true) => {
            "the runtime answers every call at once, but the kubelet's sync loop makes \
                         no progress"
                .to_owned()
        }
        (None, false) => {
            "the runtime answers every call at once, but the kubelet does not respond".to_owned()
        }
    };
    finding.culprit = Culprit {
        process: Some("kubelet".to_owned()),
        ..process.map(culprit).unwrap_or_default()
    };
    if let Some(kubelet) = stopped {
        // Its goroutines and its version have nothing to do with that.
        finding.advice = vec![resume_daemon(kubelet).into()];
        finding.fixed_in.clear();
        finding
            .evidence
            .push(format!("{} {}", kubelet.label(), kubelet.doing()));
    } else if let Some(pid) = finding.culprit.pid {
        finding.advise_first(format!(
            "run `kill -ABRT {pid}`: the kubelet writes its goroutines to its log and exits, and \
             systemd restarts it"
        ));
    }
    finding
        .evidence
        .push(format!("{} {}", probes.kubelet.source(), health.says()));
    if stopped.is_some() {
        return Opinion::Found(vec![finding]);
    }
    let calls: usize = probes.costs.iter().map(|cost| cost.count).sum();
    let slowest = go(slowest);
    finding.evidence.push(match relist {
        Some(_) => format!("the last relist of the agent on this node took {slowest}"),
        None => {
            format!("the runtime answered {calls} calls of the doctor, the slowest in {slowest}")
        }
    });
    Opinion::Found(vec![finding])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::kubelet::KubeletHealth;
    use crate::node::{found, node};

    #[test]
    fn a_sync_loop_that_stands_beside_a_quick_runtime_is_the_kubelets_own_fault() {
        let facts = node("containerd", "1.7.24").kubelet(500, &["syncloop"]);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].confidence, Confidence::High);
    }

    #[test]
    fn a_stopped_kubelet_is_resumed_and_not_aborted() {
        let mut facts = node("containerd", "1.7.24")
            .process(500, 1, "kubelet")
            .in_state(500, 'T')
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .facts();
        facts.probes.kubelet = Fact::known(KubeletHealth::default(), "healthz");
        let finding = &found(judge(&facts))[0];
        assert_eq!(finding.confidence, Confidence::Certain);
        assert_eq!(finding.sentence, "kubelet (500) is stopped");
        let advice = finding.advice.join("\n");
        assert!(advice.starts_with("run `kill -CONT 500`"), "{advice}");
        assert!(
            !advice.contains("ABRT") && !advice.contains("restart"),
            "{advice}"
        );
        // The kubelet of that address answers, so the stopped one is another.
        let other = node("containerd", "1.7.24")
            .process(500, 1, "kubelet")
            .in_state(500, 'T')
            .kubelet(200, &[]);
        assert_eq!(judge(&other.facts()), Opinion::Clear);
    }

    #[test]
    fn a_kubelet_that_is_well_or_waits_for_a_runtime_is_not_at_fault() {
        let well = node("containerd", "1.7.24").kubelet(200, &[]);
        assert_eq!(judge(&well.facts()), Opinion::Clear);
        let waits = node("containerd", "1.7.24")
            .kubelet(500, &["syncloop"])
            .call(Rpc::ListContainers, Outcome::Hung, 2.0);
        assert_eq!(judge(&waits.facts()), Opinion::Clear);
        let none = judge(&node("containerd", "1.7.24").facts());
        assert!(matches!(none, Opinion::CannotTell(_)));
    }
}
