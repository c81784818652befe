//! A runc that the runtime or a shim has started to create, start, kill, update or delete a container,
//! and that does not return: whoever asked for it waits, whatever the lists and statuses say.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding, PodName};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack_of_processes;
use crate::evidence::runc::hung_runcs;
use crate::evidence::shims::shims;
use crate::evidence::who::go;
use crate::facts::NodeFacts;
use crate::facts::host::Process;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let hung = hung_runcs(facts);
    let findings: Vec<Finding> = hung.iter().map(|runc| of(facts, runc)).collect();
    Opinion::of(findings, [lack_of_processes(&facts.host)])
}

fn of(facts: &NodeFacts, runc: &Process) -> Finding {
    let age = go(runc.age_seconds.floor());
    let (who, doing) = (runc.label(), runc.doing());
    let parent = facts.host.process(runc.ppid);
    let below = parent.map_or_else(String::new, |parent| format!(" by {}", parent.label()));
    let mut evidence = vec![format!("{who}, started{below} {age} ago, {doing}")];
    let children = facts.host.children(runc.pid);
    evidence.extend(children.map(|child| format!("below it, {} {}", child.label(), child.doing())));
    let culprit = Culprit {
        pid: Some(runc.pid),
        process: Some(runc.comm.clone()),
        pod: pod(facts, runc),
        ..Culprit::default()
    };
    // A slow disk delays one for as long.
    let confidence = match runc.is_stopped() {
        true => Confidence::Certain,
        false => Confidence::High,
    };
    let mut found = finding(Cause::RuncHung, confidence, culprit, evidence);
    found.sentence = match runc.is_stopped() {
        true => format!("{who} is stopped; what the runtime asked it to do does not end"),
        false => format!("{who} has not returned for {age}; what the runtime asked it to do does not end"),
    };
    if runc.is_stopped() {
        found.advise_first(format!(
            "run `kill -CONT {}` to resume it; nothing is lost",
            runc.pid
        ));
    }
    found
}

/// The pod of the shim that started it.
fn pod(facts: &NodeFacts, runc: &Process) -> Option<PodName> {
    let shims = shims(facts).unwrap_or_default();
    let shim = shims.iter().find(|shim| shim.process.pid == runc.ppid);
    shim?.pod.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{found, node};

    #[test]
    fn a_runc_that_a_shim_has_waited_for_half_a_minute_is_named_although_all_calls_are_answered() {
        let facts = node("containerd", "2.3.4")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .aged(200, 127.0)
            .facts();
        let found = &found(judge(&facts))[0];
        assert_eq!(found.culprit.pid, Some(200));
        assert_eq!(found.confidence, Confidence::High);
        assert!(found.sentence.starts_with("runc (200) has not returned for 2m7s"));
        assert!(found.evidence[0].contains("by containerd-shim (99)"));
    }

    #[test]
    fn a_stopped_runc_is_resumed_and_nothing_is_killed() {
        let facts = node("cri-o", "1.37.0")
            .process(200, 10, "runc")
            .aged(200, 3.0)
            .in_state(200, 'T')
            .facts();
        let found = &found(judge(&facts))[0];
        assert_eq!(found.confidence, Confidence::Certain);
        assert!(found.advice[0].starts_with("run `kill -CONT 200`"));
    }

    #[test]
    fn a_young_runc_one_of_a_session_of_exec_and_one_of_a_user_are_no_findings() {
        let young = node("containerd", "2.3.4")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .aged(200, 12.0);
        assert_eq!(judge(&young.facts()), Opinion::Clear);
        let session = node("cri-o", "1.37.0")
            .process(300, 10, "runc")
            .process(301, 300, "sh");
        assert_eq!(judge(&session.facts()), Opinion::Clear);
        let of_a_user = node("containerd", "2.3.4").process(310, 77, "runc");
        assert_eq!(judge(&of_a_user.facts()), Opinion::Clear);
    }
}
