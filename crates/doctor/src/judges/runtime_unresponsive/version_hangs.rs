//! A runtime that does not answer `Version`: it answers no call, or it answers other calls, or it was not
//! observed which.

use causes::finding::{Confidence, Finding};
use pleg::runtime::Rpc;

use super::{finding, queue};
use crate::evidence::culprit;
use crate::evidence::phrases::{duration, not_answered, series, with_state};
use crate::evidence::remedy::{release_runc, resume_daemon, thaw};
use crate::evidence::runc::{container_of_runc, hung_runcs, starter};
use crate::facts::NodeFacts;
use crate::facts::probes::{End, Probe};

/// Whether the runtime's process is stopped, or frozen with its control group.
pub(super) fn is_kept_from_running(facts: &NodeFacts) -> bool {
    let process = facts.runtime_process();
    process.is_some_and(|it| it.is_stopped() || facts.host.frozen_group(it).is_some())
}

pub(super) fn all_but_version(facts: &NodeFacts, version: &Probe) -> Finding {
    let calls = facts.probes.calls.iter();
    let of_node = calls.filter(|probe| probe.id.is_none() && probe.end == End::Hung);
    let others: Vec<_> = of_node.filter(|probe| probe.call != Rpc::Version).collect();
    let mut names = vec![version.call.name()];
    names.extend(others.iter().map(|probe| probe.call.name()));
    let names = series(&names, "or");
    let sentence = format!("the container runtime answers other calls, but not {names}");
    let hung = [version].into_iter().chain(others);
    finding(facts, Confidence::Medium, sentence, hung.map(not_answered))
}

/// There was no time to observe other calls, or they were answered only now and then.
pub(super) fn perhaps_all(facts: &NodeFacts, version: &Probe) -> Finding {
    let sentence = "the container runtime does not answer Version; whether it answers other calls \
                    now was not seen"
        .to_owned();
    finding(facts, Confidence::Medium, sentence, [not_answered(version)])
}

pub(super) fn no_call_answered(facts: &NodeFacts, version: &Probe) -> Finding {
    let runtime = facts.runtime_process();
    let stopped = runtime.filter(|process| process.is_stopped());
    let frozen = runtime.and_then(|process| facts.host.frozen_group(process));
    let (confidence, state) = match (frozen, stopped) {
        (Some(_), _) => (Confidence::Certain, "is frozen: every call hangs"),
        (None, Some(_)) => (Confidence::Certain, "is stopped: every call hangs"),
        (None, None) => (Confidence::High, "does not answer any call"),
    };
    let name = match runtime {
        Some(process) => process.label(),
        None => format!("at {}", facts.probes.endpoint),
    };
    let sentence = format!("the container runtime {name} {state}");
    let waited = duration(version.seconds);
    let hangs = match version.by_agent {
        true => format!("it has not answered the agent on this node for {waited}"),
        false => format!("it accepted a connection but has not answered Version for {waited}"),
    };
    let evidence = [hangs]
        .into_iter()
        .chain(queue(facts))
        .chain(runtime.map(with_state));
    let contains = frozen.map(|group| format!("{} contains {}", group.file, group.state));
    let found = finding(facts, confidence, sentence, evidence.chain(contains));
    match (frozen, stopped) {
        (Some(group), _) => found.advising(thaw(group)),
        (None, Some(process)) => found.advising(resume_daemon(process)),
        (None, None) => waits_for_runc(facts, found),
    }
}

/// Adds to the finding a runc for which the runtime waits: CRI-O answers no call until the runcs that it
/// launched while starting have returned.
fn waits_for_runc(facts: &NodeFacts, mut found: Finding) -> Finding {
    let runtime = facts.runtime_process().map(|process| process.pid);
    let runcs = hung_runcs(facts).into_iter();
    let mut own = runcs.filter(|runc| Some(runc.ppid) == runtime);
    let Some(runc) = own.next() else {
        return found;
    };
    found.sentence += &format!("; {}, which it has started, does not return", runc.label());
    found.culprit = culprit::of_process(runc);
    let started_by = starter(facts, runc);
    found.advising(release_runc(
        runc,
        &started_by,
        container_of_runc(runc),
        facts,
    ))
}
