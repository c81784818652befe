//! A list that is, or soon will be, larger than one gRPC message may be.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding, PodName};
use pleg::runtime::CallError;
use pleg::runtime::Rpc;

use super::Opinion;
use crate::facts::NodeFacts;
use crate::facts::probes::ProbeFacts;

/// The kubelet's receive limit, and what grpc-go runtimes send at most.
const LIMIT: u64 = 16 << 20;

/// From this share of it on it is time to clean up.
const WARN_PERCENT: u64 = 50;

/// The tell: our own list answers, weighed.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
    let lists: Vec<_> = lists.iter().filter_map(|call| probes.node(*call)).collect();
    let mut findings = Vec::new();
    for probe in &lists {
        let call = probe.call.name();
        if let Some(error @ CallError::TooLarge(_)) = probe.error() {
            let mut found = finding(probes, Confidence::Certain);
            found.sentence = format!(
                "{call} is refused for its size, so the kubelet can neither list nor clean up"
            );
            found.evidence.insert(0, format!("{call} failed: {error}"));
            findings.push(found);
            continue;
        }
        let Some(bytes) = probe.bytes else { continue };
        let percent = bytes.saturating_mul(100) / LIMIT;
        if percent < WARN_PERCENT {
            continue;
        }
        let over = bytes > LIMIT;
        let mut found = finding(
            probes,
            match over {
                true => Confidence::Certain,
                false => Confidence::Medium,
            },
        );
        found.sentence = match over {
            true => format!(
                "the answer of {call} is larger than one gRPC message may be ({percent} % of 16 MiB)"
            ),
            false => format!(
                "the answer of {call} has reached {percent} % of the 16 MiB at which the kubelet \
                 can list no more"
            ),
        };
        found.evidence.insert(
            0,
            format!("{call} answered {bytes} bytes, {percent} % of {LIMIT}"),
        );
        findings.push(found);
    }
    let failure = probes
        .agent
        .as_ref()
        .and_then(|agent| agent.failure.as_ref());
    if let Some(why @ CallError::TooLarge(_)) = failure {
        let mut found = finding(probes, Confidence::Certain);
        found.sentence =
            "a list is refused for its size, so the kubelet can neither list nor clean up"
                .to_owned();
        let says = format!("a list of the agent on this node failed: {why}");
        found.evidence.insert(0, says);
        findings.push(found);
    }
    match (
        findings.is_empty(),
        lists.iter().any(|probe| probe.bytes.is_some()),
    ) {
        (false, _) => Opinion::Found(findings),
        (true, true) => Opinion::Clear,
        (true, false) => Opinion::CannotTell("no list was answered".to_owned()),
    }
}

fn finding(probes: &ProbeFacts, confidence: Confidence) -> Finding {
    let mut finding = Finding::new(Cause::ListExceedsGrpcLimit, confidence);
    if let Some(rows) = &probes.rows {
        let counts = [
            (
                rows.dead_sandboxes,
                rows.sandboxes,
                "sandboxes do not run any more",
            ),
            (rows.exited, rows.containers, "containers have exited"),
        ];
        // Of a list that did not come nothing is counted.
        let counts = counts.iter().filter(|(_, all, _)| *all > 0);
        finding
            .evidence
            .extend(counts.map(|(dead, all, what)| format!("{dead} of {all} {what}")));
        if let Some((namespace, count)) = &rows.most_dead {
            finding.evidence.push(format!(
                "most of what is dead is in the namespace {namespace}: {count}"
            ));
            finding.culprit = Culprit {
                pod: Some(PodName {
                    namespace: Some(namespace.clone()),
                    ..PodName::default()
                }),
                ..Culprit::default()
            };
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{found, node};
    use causes::finding::Verdict;

    #[test]
    fn a_list_of_half_the_limit_is_warned_of_and_one_above_it_is_the_problem() {
        let half = node("containerd", "1.7.24").bytes(Rpc::ListContainers, 9 << 20);
        let findings = found(judge(&half.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        assert!(
            findings[0].sentence.contains("56 %"),
            "{}",
            findings[0].sentence
        );
        let over = node("containerd", "1.7.24").bytes(Rpc::ListContainers, 17 << 20);
        assert_eq!(found(judge(&over.facts()))[0].verdict, Verdict::Problem);
    }

    #[test]
    fn a_list_that_the_runtime_does_not_send_is_the_problem() {
        let why = CallError::TooLarge("17302190 vs. 16777216".into());
        let facts = node("containerd", "1.7.24").failed(Rpc::ListContainers, why);
        assert_eq!(
            found(judge(&facts.facts()))[0].confidence,
            Confidence::Certain
        );
    }

    #[test]
    fn a_small_list_is_clear_and_none_cannot_be_judged() {
        let small = node("containerd", "1.7.24").bytes(Rpc::ListContainers, 170_000);
        let mut facts = small.facts();
        assert_eq!(judge(&facts), Opinion::Clear);
        facts.probes = ProbeFacts::default();
        assert!(matches!(judge(&facts), Opinion::CannotTell(_)));
    }
}
