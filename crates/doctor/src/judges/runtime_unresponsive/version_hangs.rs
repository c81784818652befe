//! A runtime that does not answer `Version`. It answers no call, or it answers other calls, or that
//! was not observed.

use causes::finding::{Confidence, Finding};
use pleg::runtime::Rpc;

use super::{finding, queue};
use crate::evidence::remedy::{resume_daemon, thaw};
use crate::evidence::who::{go, not_answered, series};
use crate::facts::NodeFacts;
use crate::facts::probes::{End, Probe};

/// Whether the runtime's process is stopped, or frozen with its control group.
pub(super) fn is_kept_from_running(facts: &NodeFacts) -> bool {
    let process = facts.runtime_process();
    process.is_some_and(|who| who.is_stopped() || facts.host.frozen_group(who).is_some())
}

pub(super) fn all_but_version(facts: &NodeFacts, version: &Probe) -> Finding {
    let calls = facts.probes.calls.iter();
    let of_node = calls.filter(|probe| probe.id.is_none() && probe.end == End::Hung);
    let others: Vec<_> = of_node.filter(|probe| probe.call != Rpc::Version).collect();
    let mut names = vec![version.call.name()];
    names.extend(others.iter().map(|probe| probe.call.name()));
    let names = series(&names, "or");
    let sentence = format!("the container runtime answers other calls, but not {names}");
    let mut finding = finding(facts, Confidence::Medium, sentence);
    let hung = [version].into_iter().chain(others);
    finding.evidence.extend(hung.map(not_answered));
    finding
}

/// There was no time to observe other calls, or they were answered only now and then.
pub(super) fn perhaps_all(facts: &NodeFacts, version: &Probe) -> Finding {
    let sentence = "the container runtime does not answer Version; whether it answers other calls \
                    now was not seen"
        .to_owned();
    let mut finding = finding(facts, Confidence::Medium, sentence);
    finding.evidence.push(not_answered(version));
    finding
}

pub(super) fn no_call_answered(facts: &NodeFacts, version: &Probe) -> Finding {
    let at = &facts.probes.endpoint;
    let listener = facts.runtime_process();
    let stopped = listener.filter(|process| process.is_stopped());
    let frozen = listener.and_then(|process| facts.host.frozen_group(process));
    let (confidence, sentence) = match (stopped, listener) {
        (_, Some(who)) if frozen.is_some() => {
            let who = who.label();
            let sentence = format!("the container runtime {who} is frozen: every call hangs");
            (Confidence::Certain, sentence)
        }
        (Some(who), _) => {
            let who = who.label();
            let sentence = format!("the container runtime {who} is stopped: every call hangs");
            (Confidence::Certain, sentence)
        }
        (None, Some(who)) => {
            let who = who.label();
            let sentence = format!("the container runtime {who} does not answer any call");
            (Confidence::High, sentence)
        }
        (None, None) => {
            let sentence = format!("the container runtime at {at} does not answer any call");
            (Confidence::High, sentence)
        }
    };
    let mut finding = finding(facts, confidence, sentence);
    let waited = go(version.seconds);
    finding.evidence.push(match version.by_agent {
        true => format!("it has not answered the agent on this node for {waited}"),
        false => format!("it accepted a connection but has not answered Version for {waited}"),
    });
    finding.evidence.extend(queue(facts));
    if let Some(who) = listener {
        finding
            .evidence
            .push(format!("{} {}", who.label(), who.doing()));
    }
    if let Some(group) = frozen {
        let (file, state) = (&group.file, &group.state);
        finding.evidence.push(format!("{file} contains {state}"));
        finding.advise_first(thaw(group));
    } else if let Some(who) = stopped {
        finding.advise_first(resume_daemon(who));
    }
    finding
}
