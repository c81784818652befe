//! Calls for the statistics of all containers are not answered, while the lists are: then a kubelet evicts
//! no pod.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::culprit;
use crate::evidence::ending::endings;
use crate::evidence::lack::{NOT_ANSWERED, NOT_PROBED, lack_of_processes};
use crate::evidence::phrases::{
    MAX_EXAMPLES, duration, name_of_task, names, not_answered, series, short, whole_seconds,
};
use crate::evidence::remedy::release_runc;
use crate::evidence::runc::{container_of_runc, hung_runcs, old_execs, started, starter};
use crate::evidence::shims::{Shim, ShimFault, shims};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::{End, Outcome, Probe, STATISTICS};
use crate::limits::RUNC_ALONE_SECONDS;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if probes.calls.is_empty() {
        return Opinion::unknown(NOT_PROBED);
    }
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers].into_iter();
    let mut lists = lists.map(|list| probes.outcome(list));
    if !probes.may_blame_one() || lists.any(|list| list != Some(Outcome::Ok)) {
        return Opinion::unknown(NOT_ANSWERED);
    }
    // A runtime calls each shim for the statistics. A shim that is stuck is a separate finding.
    let shims = shims(facts).unwrap_or_default();
    let is_stuck = |fault: ShimFault| !matches!(fault, ShimFault::Runc(_));
    if shims.iter().filter_map(Shim::fault).any(is_stuck) {
        return Opinion::Clear;
    }
    let calls = STATISTICS.into_iter().filter_map(|call| probes.node(call));
    let hung: Vec<&Probe> = calls.filter(|probe| probe.end == End::Hung).collect();
    match hung.is_empty() {
        true => Opinion::Clear,
        false => Opinion::Found(vec![of(facts, &hung)]),
    }
}

fn of(facts: &NodeFacts, hung: &[&Probe]) -> Finding {
    let names: Vec<&str> = hung.iter().map(|probe| probe.call.name()).collect();
    let longest = hung.iter().map(|probe| probe.seconds).fold(0.0, f64::max);
    let mut evidence: Vec<String> = hung.iter().copied().map(not_answered).collect();
    evidence.push("both lists are answered".to_owned());
    let runcs = hung_runcs(facts).into_iter().chain(old_execs(facts));
    let runcs = runcs.map(|runc| started(facts, runc));
    evidence.extend(runcs.take(MAX_EXAMPLES));
    let (confidence, culprit, held_by, advice) = match held_by(facts) {
        Some(HeldBy {
            culprit,
            said,
            advice,
        }) => (Confidence::High, culprit, format!("; {said}"), advice),
        // The calls may only be slow.
        None => (
            Confidence::Medium,
            Culprit::default(),
            String::new(),
            look_for(facts, &mut evidence),
        ),
    };
    let mut found = finding(Cause::StatisticsHang, confidence, culprit, evidence);
    found.sentence = format!(
        "{} {} not answered for {}, so that {}{held_by}",
        series(&names, "and"),
        if names.len() == 1 { "was" } else { "were" },
        whole_seconds(longest),
        consequence(hung),
    );
    found.advising(advice)
}

/// What to do if no container and no command is known to hold up the statistics.
fn look_for(facts: &NodeFacts, evidence: &mut Vec<String>) -> String {
    let execs = old_execs(facts);
    if !execs.is_empty() {
        return format!(
            "find out what {} waits for; it may hold up the statistics of its container",
            names(execs)
        );
    }
    if lack_of_processes(&facts.host).is_none() {
        evidence.push(format!(
            "no container that is to stop and does not, and no runc of this node that has run for \
             {}, was found",
            duration(RUNC_ALONE_SECONDS)
        ));
    }
    if facts.probes.is_crio() {
        return "look for a pod of this node that is Terminating: CRI-O answers no statistics until its \
                containers have ended, even within an ordinary grace period. `kubectl delete pod \
                --grace-period=1` shortens that of one that may end at once"
            .to_owned();
    }
    "run `pleg doctor` again in a minute: it names a `runc` that does not return by then".to_owned()
}

/// What is missing: a kubelet decides on evictions by the statistics, but merely passes on the metrics.
fn consequence(hung: &[&Probe]) -> &'static str {
    let is_metrics = |probe: &&Probe| probe.call == Rpc::ListPodSandboxMetrics;
    match hung.iter().all(is_metrics) {
        true => "the metrics of all pods are missing",
        false => "the kubelet evicts no pod",
    }
}

/// What holds up the statistics.
struct HeldBy {
    culprit: Culprit,
    said: String,
    advice: String,
}

/// The container for which the calls may wait: one that is to end, or that a runc changes.
fn held_by(facts: &NodeFacts) -> Option<HeldBy> {
    if let Some(ending) = endings(facts).first() {
        let name = name_of_task(ending.task);
        return Some(HeldBy {
            culprit: culprit::of_task(ending.task),
            advice: format!("have {name} end: the finding about it shows how"),
            said: format!("{name} is to stop and does not"),
        });
    }
    let runc: &Process = hung_runcs(facts).into_iter().next()?;
    let id = container_of_runc(runc);
    let of_container = id.map_or(String::new(), |id| format!(" of container {}", short(id)));
    let container = Culprit {
        id: id.map(str::to_owned),
        ..Culprit::default()
    };
    Some(HeldBy {
        culprit: culprit::with_process(container, runc),
        said: format!("{}{of_container} does not return", runc.label()),
        advice: release_runc(runc, &starter(facts, runc), id, facts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::EndSignal;
    use crate::node::{Node, found, node};

    fn crio() -> Node {
        node("cri-o", "1.37.0").conmon(80, "c1", Some("s1"))
    }

    fn hung(node: Node) -> Node {
        node.statistics(Rpc::ListContainerStats, Outcome::Hung, 6.0)
    }

    #[test]
    fn statistics_that_hang_while_lists_are_answered_are_a_finding() {
        let node = hung(crio())
            .statistics(Rpc::ListPodSandboxStats, Outcome::Hung, 6.2)
            .statistics(Rpc::ListPodSandboxMetrics, Outcome::Hung, 6.2);
        let found = &found(judge(&node.facts()))[0];
        assert_eq!(found.confidence, Confidence::Medium);
        assert_eq!(
            found.sentence,
            "ListContainerStats, ListPodSandboxStats and ListPodSandboxMetrics were not answered \
             for 6s, so that the kubelet evicts no pod"
        );
        assert_eq!(found.culprit, Culprit::default());
        let looked = "no runc of this node that has run for 30s, was found";
        assert!(found.evidence.join("\n").ends_with(looked), "{found:#?}");
    }

    #[test]
    fn the_kubelet_still_evicts_pods_if_only_the_metrics_are_missing() {
        let node = crio().statistics(Rpc::ListPodSandboxMetrics, Outcome::Hung, 6.0);
        let found = &found(judge(&node.facts()))[0];
        assert_eq!(
            found.sentence,
            "ListPodSandboxMetrics was not answered for 6s, so that the metrics of all pods are missing"
        );
    }

    #[test]
    fn the_container_that_does_not_end_is_named_or_the_runc_that_does_not_return() {
        let ending = hung(crio())
            .pending(81, EndSignal::Kill)
            .blocked(81, "fuse_wait_answer");
        let finding = &found(judge(&ending.facts()))[0];
        assert_eq!(finding.confidence, Confidence::High);
        assert_eq!(finding.culprit.id.as_deref(), Some("c1"));
        let runc = hung(crio()).process(200, 10, "runc");
        let finding = &found(judge(&runc.facts()))[0];
        assert_eq!(finding.culprit.pid, Some(200));
        assert!(finding.evidence[2].starts_with("runc (200), which "));
        assert!(finding.advice[0].starts_with("run `kill -KILL 200`"));
    }

    /// A runc that hangs has a child process, like the runc of a session that a user has opened.
    #[test]
    fn an_old_exec_below_a_conmon_is_named_and_not_blamed() {
        let id = "c".repeat(64);
        let exec = |parent: u32, age: f64| {
            let node = hung(node("cri-o", "1.37.0").conmon(80, &id, Some("s1")));
            let node = node.process(90, 1, "conmon").process(200, parent, "runc");
            let node = node.process(201, 200, "runc:[2:INIT]").aged(200, age);
            let node = node.commanded(200, &format!("runc exec --process p --detach {id}"));
            found(judge(&node.facts())).remove(0)
        };
        let old = exec(90, 45.0);
        assert_eq!(old.confidence, Confidence::Medium);
        assert_eq!(old.culprit, Culprit::default());
        let said = "runc (200), which conmon (90) started 45s ago, sleeps";
        assert!(old.evidence.iter().any(|one| one == said), "{old:#?}");
        assert!(old.advice[0].contains("runc (200)"), "{old:#?}");
        for other in [exec(90, 3.0), exec(10, 45.0)] {
            assert!(!other.evidence.join("").contains("200"), "{other:#?}");
        }
    }

    #[test]
    fn answered_or_unimplemented_statistics_and_hanging_lists_are_no_finding() {
        assert_eq!(judge(&crio().facts()), Opinion::Clear);
        let answered = crio().statistics(Rpc::ListContainerStats, Outcome::Ok, 0.2);
        assert_eq!(judge(&answered.facts()), Opinion::Clear);
        let both = hung(crio()).call(Rpc::ListContainers, Outcome::Hung, 9.0);
        assert!(matches!(judge(&both.facts()), Opinion::Unknown(_)));
        let stopped = hung(crio()).in_state(80, 'T');
        assert_eq!(judge(&stopped.facts()), Opinion::Clear);
    }
}
