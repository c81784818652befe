//! One container's status lock in containerd's CRI plugin, for which every list waits.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::lack::NOT_ANSWERED;
use crate::evidence::remedy::{blame, look_for};
use crate::evidence::shims::{serving, shims};
use crate::evidence::who::{culprit, go, stacks, subject, unanswered};
use crate::facts::NodeFacts;
use crate::facts::probes::{MAX_SINGLED_OUT, Outcome, ProbeFacts};

/// The symptom: `ListContainers` hangs, `ListPodSandbox` does not, and of the status calls only
/// that of the culprit hangs.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    match probes.outcome(Rpc::ListContainers) {
        None => return Opinion::CannotTell("ListContainers was not called".to_owned()),
        Some(Outcome::Refused) => {
            return Opinion::CannotTell("the runtime cannot be reached".to_owned());
        }
        Some(Outcome::Ok) => return Opinion::Clear,
        Some(Outcome::Error) => {
            return Opinion::CannotTell("ListContainers failed".to_owned());
        }
        Some(Outcome::Hung) => {}
    }
    if probes.may_be_silent() {
        return Opinion::CannotTell(NOT_ANSWERED.to_owned());
    }
    if !probes.may_be_containerd() || probes.hung(Rpc::ContainerStatus).count() > MAX_SINGLED_OUT {
        return Opinion::Clear;
    }
    if probes.outcome(Rpc::ListPodSandbox) != Some(Outcome::Ok) {
        return Opinion::CannotTell("ListPodSandbox was not answered".to_owned());
    }
    let shims = shims(facts).unwrap_or_default();
    let mut findings: Vec<Finding> = probes
        .hung(Rpc::ContainerStatus)
        .map(|probe| {
            let shim = serving(&shims, probe);
            let mut finding = Finding::new(Cause::ContainerStatusLock, confidence(probes));
            finding.culprit = culprit(probe, shim);
            let who = subject(probe);
            finding.sentence = match shim.filter(|shim| shim.process.is_stopped()) {
                Some(shim) => format!(
                    "containerd holds the status lock of {who}, whose shim {} is stopped, so \
                     listing containers hangs for the whole node",
                    shim.process.label()
                ),
                None => format!(
                    "containerd holds the status lock of {who}, so listing containers hangs for \
                     the whole node"
                ),
            };
            finding.evidence = lists(probes);
            finding.evidence.push(unanswered(probe));
            finding.evidence.extend(others(probes));
            finding.evidence.extend(stacks(probes));
            match shim {
                Some(shim) => blame(&mut finding, shim, probes),
                None => finding.advise_first(look_for(probe, probes)),
            }
            finding
        })
        .collect();
    if findings.is_empty() {
        findings.push(nobody(probes));
    }
    Opinion::Found(findings)
}

/// If a list is slow that does not wait for that lock, both may be slow.
const SLOW_LIST_SECONDS: f64 = 2.0;

fn confidence(probes: &ProbeFacts) -> Confidence {
    let other = probes.node(Rpc::ListPodSandbox);
    if other.is_some_and(|list| list.seconds >= SLOW_LIST_SECONDS) {
        return Confidence::Medium;
    }
    match (probes.is_containerd(), probes.cost(Rpc::ContainerStatus)) {
        (true, Some(_)) => Confidence::Certain,
        (true, None) | (false, Some(_)) => Confidence::High,
        (false, None) => Confidence::Medium,
    }
}

fn lists(probes: &ProbeFacts) -> Vec<String> {
    let hangs = probes.node(Rpc::ListContainers).map(unanswered);
    let answers = probes
        .node(Rpc::ListPodSandbox)
        .map(|probe| match probe.by_agent {
            true => format!("ListPodSandbox is answered{}", probe.source()),
            false => format!("ListPodSandbox answered in {}", go(probe.seconds)),
        });
    hangs.into_iter().chain(answers).collect()
}

fn others(probes: &ProbeFacts) -> Option<String> {
    let cost = probes.cost(Rpc::ContainerStatus)?;
    let count = cost.count;
    let max = go(cost.max);
    Some(match count {
        1 => format!("ContainerStatus of one other container answered in {max}"),
        _ => format!("ContainerStatus of {count} other containers answered within {max}"),
    })
}

fn nobody(probes: &ProbeFacts) -> Finding {
    let mut finding = Finding::new(Cause::ContainerStatusLock, Confidence::Medium);
    finding.sentence =
        "containerd may hold one container's status lock: ListContainers hangs, and \
                        ListPodSandbox does not"
            .to_owned();
    finding.evidence = lists(probes);
    finding.evidence.extend(others(probes));
    finding.evidence.push(
        "no container with a hanging ContainerStatus was found; container ids are known only from \
         an agent or, as root, from the runtime's state directories"
            .to_owned(),
    );
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{found, node};
    use causes::finding::Verdict;

    #[test]
    fn the_container_whose_status_hangs_is_named_with_its_shim_and_what_frees_it() {
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 5, 0.004)
            .shim(4711, true, &["s1", "c1"])
            .facts();
        let [finding] = &found(judge(&facts))[..] else {
            panic!("one culprit");
        };
        assert_eq!(finding.confidence, Confidence::Certain);
        assert_eq!(finding.culprit.pid, Some(4711));
        let said = &finding.sentence;
        assert!(said.contains("container app of pod shop/web"), "{said}");
        assert!(
            finding.advice[0].contains("kill -CONT 4711"),
            "{:?}",
            finding.advice
        );
        let evidence = finding.evidence.join("\n");
        assert!(
            evidence.contains("of 5 other containers answered within 4ms"),
            "{evidence}"
        );
    }

    #[test]
    fn containerd_2_has_the_same_lock_and_what_does_not_say_its_name_may_have() {
        let at = |runtime: (&str, &str)| {
            let facts = node(runtime.0, runtime.1)
                .call(Rpc::ListContainers, Outcome::Hung, 2.0)
                .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
                .answered(Rpc::ContainerStatus, 5, 0.004);
            found(judge(&facts.facts()))[0].confidence
        };
        assert_eq!(at(("containerd", "2.1.9+unknown")), Confidence::Certain);
        assert_eq!(at(("something", "1.0")), Confidence::High);
    }

    #[test]
    fn without_ids_it_is_suspected_and_nobody_is_named() {
        let facts = node("containerd", "1.7.24").call(Rpc::ListContainers, Outcome::Hung, 2.0);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        assert!(findings[0].culprit.is_nobody());
    }

    #[test]
    fn a_node_that_answers_is_not_this_and_of_one_that_hangs_as_a_whole_it_cannot_be_told() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .call(Rpc::ListPodSandbox, Outcome::Hung, 2.0);
        assert!(matches!(judge(&facts.facts()), Opinion::CannotTell(_)));
        let facts = node("cri-o", "1.29.1").call(Rpc::ListContainers, Outcome::Hung, 2.0);
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn where_the_other_list_is_slow_too_a_lock_is_only_suspected() {
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 10.0)
            .call(Rpc::ListPodSandbox, Outcome::Ok, 4.9)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 5, 0.004)
            .facts();
        let finding = &found(judge(&facts))[0];
        assert_eq!(finding.verdict, Verdict::Suspect);
    }
}
