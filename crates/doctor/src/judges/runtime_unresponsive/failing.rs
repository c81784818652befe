//! A runtime that fails status calls: a kubelet then keeps the last known state of those pods.

use causes::finding::{Confidence, Finding};
use pleg::runtime::Rpc;

use super::finding;
use crate::evidence::phrases::{name_of_call, not_answered, subject};
use crate::facts::NodeFacts;
use crate::facts::probes::{ConnectionLosses, Failures, MAX_SINGLED_OUT, Probe};

/// A finding for each kind of call that fails. The failure is a fact; that the runtime is at
/// fault is a suspicion.
pub(super) fn statuses(facts: &NodeFacts, runtime: &str) -> Vec<Finding> {
    let of_ids = facts.probes.failures.iter();
    let of_ids = of_ids.filter_map(|failures| of_kind(facts, runtime, failures));
    let lost = match &facts.probes.went_away {
        ConnectionLosses::During(calls) => &calls[..],
        // If the connection was lost each time, any of these calls may be the reason.
        ConnectionLosses::Never | ConnectionLosses::EachTime(_) => &[],
    };
    let fatal = lost.iter().map(|probe| fatal(facts, runtime, probe));
    fatal
        .chain(of_ids)
        .chain(of_itself(facts, runtime))
        .collect()
}

/// The runtime responds, but the connection is lost each time this call is made for this id.
fn fatal(facts: &NodeFacts, runtime: &str, probe: &Probe) -> Finding {
    let (call, subject) = (probe.call, subject(probe));
    let sentence =
        format!("the connection to {runtime} is lost each time {call} is called for {subject}");
    let evidence = match probe.by_agent {
        true => format!(
            "the agent on this node does not make {call} of {subject} for now, because the \
             connection to {runtime} was lost each time"
        ),
        false => format!(
            "the connection to {runtime} was lost each time {call} of {subject} was made alone; \
             without this call, {runtime} responds"
        ),
    };
    let mut found = finding(facts, Confidence::Medium, sentence, [evidence]);
    name(&mut found, probe);
    found
}

/// Adds the pod and container of a call to the culprit.
fn name(found: &mut Finding, probe: &Probe) {
    found.culprit.pod = probe.pod.clone();
    found.culprit.container = probe.container.clone();
    found.culprit.id = probe.id.clone();
}

fn of_kind(facts: &NodeFacts, runtime: &str, failures: &Failures) -> Option<Finding> {
    let Failures { call, failed, made } = *failures;
    let mut calls = facts.probes.calls.iter();
    let first = calls.find(|probe| probe.call == call && is_failed_status(probe))?;
    let error = first.error()?;
    let call = call.name();
    let (sentence, evidence) = match failed {
        1 => (
            format!("{runtime} cannot report the status of {}", subject(first)),
            format!("{} failed: {error}", name_of_call(first)),
        ),
        _ => (
            format!("{failed} of {made} {call} calls to {runtime} fail"),
            format!("{failed} of {made} {call} calls failed: {error}"),
        ),
    };
    // Even if only one of many calls fails, a kubelet cannot inspect that pod.
    let hung = facts.probes.hung(first.call).take(MAX_SINGLED_OUT);
    let evidence = [evidence].into_iter().chain(hung.map(not_answered));
    let mut found = finding(facts, Confidence::Medium, sentence, evidence);
    if failed == 1 {
        name(&mut found, first);
    }
    Some(found)
}

fn is_failed_status(probe: &Probe) -> bool {
    probe.id.is_some() && probe.error().is_some()
}

/// A finding if `Status` fails, from which a kubelet learns whether the runtime is ready.
fn of_itself(facts: &NodeFacts, runtime: &str) -> Option<Finding> {
    let error = facts.probes.node(Rpc::Status)?.error()?;
    let sentence = format!("{runtime} cannot report its own status");
    let failed = format!("Status failed: {error}");
    Some(finding(facts, Confidence::Medium, sentence, [failed]))
}

#[cfg(test)]
mod tests {
    use pleg::runtime::CallError;

    use super::super::super::Opinion;
    use super::super::judge;
    use super::*;
    use crate::node::{found, node};
    use causes::finding::Verdict;

    #[test]
    fn a_runtime_that_fails_every_status_is_suspected_with_the_count_and_the_error() {
        let why = CallError::Refused("Unknown: no".into());
        let ids = ["c1", "c2", "c3"];
        let facts = node("containerd", "1.7.24").failing(Rpc::ContainerStatus, &ids, 3, &why);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        assert_eq!(findings[0].confidence, Confidence::Medium);
        assert_eq!(
            findings[0].evidence,
            ["3 of 3 ContainerStatus calls failed: the runtime answered Unknown: no"]
        );
    }

    #[test]
    fn a_call_that_hangs_while_all_others_fail_is_reported_with_them() {
        let why = CallError::Refused("Unknown: no".into());
        let facts = node("containerd", "1.7.24")
            .failing(Rpc::ContainerStatus, &["c1", "c2"], 2, &why)
            .status(Rpc::ContainerStatus, "c3", "shop", "web", "app");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings.len(), 1, "{findings:#?}");
        let evidence = findings[0].evidence.join("; ");
        assert!(evidence.contains("2 of 2 ContainerStatus"), "{evidence}");
        assert!(evidence.contains("has not answered for"), "{evidence}");
    }

    #[test]
    fn one_failing_container_of_many_is_named() {
        let why = CallError::Malformed("no state".into());
        let facts = node("containerd", "1.7.24").failing(Rpc::ContainerStatus, &["c1"], 60, &why);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].confidence, Confidence::Medium);
        assert_eq!(findings[0].culprit.id.as_deref(), Some("c1"));
    }

    #[test]
    fn a_runtime_that_cannot_report_its_own_status_is_suspected() {
        let why = CallError::Refused("Internal: no".into());
        let facts = node("containerd", "1.7.24").failed(Rpc::Status, why);
        let findings = found(judge(&facts.facts()));
        assert!(findings[0].evidence[0].starts_with("Status failed"));
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
    }
}
