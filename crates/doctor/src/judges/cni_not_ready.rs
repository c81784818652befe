//! The runtime reports that the pod network is not ready.

use causes::Cause;
use causes::finding::{Confidence, Finding, MAX_HEADLINE};
use pleg::runtime::Condition;

use super::Opinion;
use super::opinion::of_machine;
use crate::evidence::kubelet;
use crate::facts::NodeFacts;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    match (probes.unmet("NetworkReady"), &probes.conditions) {
        (Some(condition), _) => Opinion::Found(vec![not_ready(facts, condition)]),
        (None, Some(_)) => Opinion::Clear,
        (None, None) => Opinion::unknown("the runtime did not report its conditions"),
    }
}

fn not_ready(facts: &NodeFacts, condition: &Condition) -> Finding {
    let why = [&*condition.reason, &*condition.message].join(": ");
    // Without a kubelet, a pod network may not be needed.
    let confidence = match kubelet(&facts.host) {
        Some(_) => Confidence::High,
        None => Confidence::Medium,
    };
    let mut evidence = vec![format!("the condition NetworkReady is false: {why}")];
    if let Some(networks) = facts.host.cni.value() {
        evidence.push(match &networks[..] {
            [] => "no network is configured in /etc/cni/net.d".to_owned(),
            networks => {
                let names: Vec<&str> = networks.iter().map(|network| &*network.name).collect();
                format!("configured in /etc/cni/net.d: {}", names.join(", "))
            }
        });
    }
    let mut found = of_machine(Cause::CniNotReady, confidence, evidence);
    let mut sentences = [&*why, &*condition.message]
        .into_iter()
        .map(|why| format!("the pod network is not ready ({why})"));
    let sentence = sentences.find(|sentence| sentence.chars().count() <= MAX_HEADLINE);
    found.sentence = sentence.unwrap_or_else(|| "the pod network is not ready".to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{found, node};

    #[test]
    fn a_runtime_without_a_network_is_a_problem_where_a_kubelet_runs() {
        let unready = || node("containerd", "1.7.24").unmet("NetworkReady", "no networks found");
        let found_without = found(judge(&unready().facts()));
        assert_eq!(found_without[0].confidence, Confidence::Medium);
        let found_with = found(judge(&unready().process(70, 1, "kubelet").facts()));
        assert_eq!(found_with[0].confidence, Confidence::High);
        let expected = "the pod network is not ready (Reason: no networks found)";
        assert_eq!(found_with[0].sentence, expected);
    }

    #[test]
    fn a_runtime_that_reports_no_conditions_is_not_judged() {
        let mut facts = node("containerd", "1.7.24").facts();
        assert_eq!(judge(&facts), Opinion::Clear);
        facts.probes.conditions = None;
        assert!(matches!(judge(&facts), Opinion::Unknown(_)));
    }
}
