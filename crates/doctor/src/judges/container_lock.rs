//! One container's lock in CRI-O or dockerd: its status hangs while the lists answer.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::remedy::{blame, look_for};
use crate::evidence::shims::{serving, shims};
use crate::evidence::who::{culprit, go, stacks, subject};
use crate::facts::NodeFacts;
use crate::facts::probes::Outcome;

/// The tell: both lists answer, and the status of one container does not.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    match probes.outcome(Rpc::ListContainers) {
        None => return Opinion::CannotTell("ListContainers was not called".to_owned()),
        Some(Outcome::Refused) => {
            return Opinion::CannotTell("the runtime cannot be reached".to_owned());
        }
        // Where it hangs on containerd that is the status lock, which is another cause.
        Some(Outcome::Hung) if probes.may_be_containerd() => return Opinion::Clear,
        Some(_) => {}
    }
    // If nobody's status is answered, it is the runtime as a whole.
    if probes.outcome(Rpc::Version) != Some(Outcome::Ok) {
        return Opinion::Clear;
    }
    let hung = probes.singled_out(Rpc::ContainerStatus);
    if hung.is_empty() {
        return Opinion::Clear;
    }
    // containerd has no lock that is known to hold up one status and no list; while an agent
    // waits for one it sees all others.
    let confidence = match probes.is_containerd() {
        true => Confidence::Medium,
        false => Confidence::High,
    };
    let others = match &probes.agent {
        Some(_) => "every other pod is seen".to_owned(),
        None => {
            let cost = probes.cost(Rpc::ContainerStatus);
            let others = cost.map_or(0, |cost| cost.count);
            format!("the status of {others} others was answered")
        }
    };
    let shims = shims(facts).unwrap_or_default();
    let findings = hung.into_iter().map(|probe| {
        let shim = serving(&shims, probe);
        let mut finding = Finding::new(Cause::ContainerLock, confidence);
        finding.culprit = culprit(probe, shim);
        let who = subject(probe);
        finding.sentence =
            format!("the runtime does not answer for {who}: its lock is held, and who asks waits");
        finding.evidence.push(format!(
            "ContainerStatus of {who} has not answered for {}, while {others}{}",
            go(probe.seconds),
            probe.source()
        ));
        if probes.is_containerd() {
            finding.evidence.push(
                "both lists answered, so it is not containerd's status lock, for which they \
                 wait too, unless it was taken since"
                    .to_owned(),
            );
        }
        finding.evidence.extend(stacks(probes));
        match shim {
            Some(shim) => blame(&mut finding, shim, probes),
            None => finding.advise_first(look_for(probe)),
        }
        finding
    });
    Opinion::Found(findings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{found, node};
    use causes::finding::Verdict;

    #[test]
    fn a_container_whose_status_hangs_while_lists_answer_is_named() {
        let facts = node("cri-o", "1.29.13")
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
    fn of_containerd_no_such_lock_is_known_so_it_is_suspected() {
        let facts = node("containerd", "2.1.9")
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 7, 0.002);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        let evidence = findings[0].evidence.join("\n");
        assert!(evidence.contains("both lists answered"), "{evidence}");
    }

    #[test]
    fn where_no_other_status_is_answered_no_container_is_named() {
        let facts = node("cri-o", "1.29.13")
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .status(Rpc::ContainerStatus, "c2", "shop", "web", "log");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn a_node_that_answers_and_the_status_lock_are_not_this() {
        assert_eq!(judge(&node("cri-o", "1.29.13").facts()), Opinion::Clear);
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }
}
