//! A list that exceeds, or will soon exceed, the maximum size of a gRPC message.

use causes::Cause;
use causes::finding::{Confidence, Finding, PodName};
use pleg::runtime::{CallError, Rpc};

use super::Opinion;
use super::opinion::of_machine;
use crate::facts::NodeFacts;
use crate::facts::probes::ProbeFacts;

/// The kubelet's receive limit, and the send limit of runtimes that use grpc-go.
const LIMIT_BYTES: u64 = 16 << 20;

const LISTS: [Rpc; 2] = [Rpc::ListPodSandbox, Rpc::ListContainers];

/// From this percentage of the limit on, a list is reported.
const WARN_PERCENT: u64 = 50;

/// The symptom: the size of the list responses.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    let lists: Vec<_> = LISTS.iter().filter_map(|call| probes.node(*call)).collect();
    let mut findings = Vec::new();
    for probe in &lists {
        let call = probe.call.name();
        if let Some(error @ CallError::TooLarge(_)) = probe.error() {
            findings.push(too_large(probes, call, format!("{call} failed: {error}")));
            continue;
        }
        let Some(bytes) = probe.bytes else { continue };
        let percent = bytes.saturating_mul(100) / LIMIT_BYTES;
        if percent < WARN_PERCENT {
            continue;
        }
        let (confidence, sentence) = match bytes > LIMIT_BYTES {
            true => (
                Confidence::Certain,
                format!(
                    "the response to {call} exceeds the maximum size of a gRPC message ({percent} % \
                     of 16 MiB)"
                ),
            ),
            false => (
                Confidence::Medium,
                format!(
                    "the response to {call} has reached {percent} % of 16 MiB, the largest that the \
                     kubelet accepts"
                ),
            ),
        };
        let shown = format!("{call} returned {bytes} bytes, {percent} % of {LIMIT_BYTES}");
        findings.push(finding(probes, confidence, sentence, shown));
    }
    let agent = probes.agent.as_ref();
    if let Some(why @ CallError::TooLarge(_)) = agent.and_then(|agent| agent.failure.as_ref()) {
        let shown = format!("a list call of the agent on this node failed: {why}");
        findings.push(too_large(probes, "a list call", shown));
    }
    let is_unknown = |call: &Rpc| probes.node(*call).is_none_or(|probe| probe.bytes.is_none());
    let unknown = LISTS.into_iter().filter(is_unknown);
    let unknown: Vec<&str> = unknown.map(Rpc::name).collect();
    let unknown = match unknown[..] {
        [] => None,
        [one] => Some(format!("{one} was not answered")),
        _ => Some("no list call was answered".to_owned()),
    };
    Opinion::of(findings, [unknown])
}

fn too_large(probes: &ProbeFacts, call: &str, shown: String) -> Finding {
    let sentence = format!(
        "{call} fails because its response is too large, so the kubelet can neither list nor \
         garbage-collect containers"
    );
    finding(probes, Confidence::Certain, sentence, shown)
}

fn finding(
    probes: &ProbeFacts,
    confidence: Confidence,
    sentence: String,
    shown: String,
) -> Finding {
    let mut finding = of_machine(Cause::ListExceedsGrpcLimit, confidence, vec![shown]);
    finding.sentence = sentence;
    if let Some(rows) = &probes.rows {
        let counts = [
            (
                rows.dead_sandboxes,
                rows.sandboxes,
                "sandboxes are not ready",
            ),
            (rows.exited, rows.containers, "containers have exited"),
        ];
        // There are no counts of a list that was not answered.
        let counts = counts.iter().filter(|(_, all, _)| *all > 0);
        finding
            .evidence
            .extend(counts.map(|(dead, all, what)| format!("{dead} of {all} {what}")));
        if let Some((namespace, count)) = &rows.most_dead {
            finding.evidence.push(format!(
                "most of these are in the namespace {namespace}: {count}"
            ));
            finding.culprit.pod = Some(PodName {
                namespace: Some(namespace.clone()),
                ..PodName::default()
            });
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::probes::Outcome;
    use crate::node::{found, node};
    use causes::finding::Verdict;

    #[test]
    fn a_list_of_half_the_limit_is_suspected_and_one_above_it_is_the_problem() {
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
        let small = || {
            node("containerd", "1.7.24")
                .bytes(Rpc::ListPodSandbox, 70_000)
                .bytes(Rpc::ListContainers, 170_000)
        };
        let mut facts = small().facts();
        assert_eq!(judge(&facts), Opinion::Clear);
        let one = small()
            .call(Rpc::ListPodSandbox, Outcome::Hung, 2.0)
            .facts();
        let why = "ListPodSandbox was not answered".to_owned();
        assert_eq!(judge(&one), Opinion::Unknown(why));
        facts.probes = ProbeFacts::default();
        assert!(matches!(judge(&facts), Opinion::Unknown(_)));
    }
}
