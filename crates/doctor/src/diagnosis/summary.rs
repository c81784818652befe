//! The sentence that sums up a diagnosis.

use std::time::Duration;

use causes::Cause;
use cri::Rpc;
use pleg::out::words::counted;
use pleg_text::GoDuration;

use super::NotChecked;
use crate::evidence::phrases::{duration, name_of_call, not_answered, subject};
use crate::facts::NodeFacts;
use crate::facts::probes::{AgentReport, End, Probe, ProbeFacts};
use crate::limits::SLOW_CALL_SECONDS;

/// The summary if only these causes were judged, and none of them was found.
pub(super) fn not_found(causes: &[Cause]) -> String {
    let ids: Vec<&str> = causes.iter().map(|cause| cause.id()).collect();
    let were = if ids.len() == 1 { "was" } else { "were" };
    let ids = ids.join(", ");
    format!("{ids} {were} not found; nothing else was checked")
}

/// The summary if the state is not known. The reason is that of the first of the `essential` causes
/// that could not be judged, or else of the first other cause.
pub(super) fn cannot_judge(not_checked: &[NotChecked], essential: &[Cause]) -> String {
    let lacks = |cause: &Cause| not_checked.iter().find(|not| not.cause == *cause);
    let first = essential.iter().find_map(lacks);
    let why = first.or(not_checked.first());
    let why = why.map_or(String::new(), |first| format!(": {}", first.why));
    format!("the state of this node could not be determined{why}")
}

/// What keeps a node on which nothing was found from being called healthy: the state that an agent reports,
/// if its data is used and it is not healthy, or how much of the node was not seen.
pub(super) fn doubt(probes: &ProbeFacts) -> Option<String> {
    match &probes.agent {
        Some(agent) if agent.is_healthy() => None,
        Some(AgentReport { state, message, .. }) => {
            Some(format!("the agent on this node reports {state}: {message}"))
        }
        None => unseen(probes),
    }
}

/// What was not seen of a node whose runtime responds.
fn unseen(probes: &ProbeFacts) -> Option<String> {
    probes
        .node(Rpc::Version)
        .filter(|it| it.end == End::Answered)?;
    if probes.is_interrupted() {
        let during = match probes.went_away.calls() {
            [one] => format!("during {}", name_of_call(one)),
            _ => "while the doctor ran".to_owned(),
        };
        return Some(format!(
            "the connection to the runtime was lost {during}, and the runtime responds again; run \
             the doctor again"
        ));
    }
    if let Some(hung) = probes.calls.iter().find(|probe| probe.end == End::Hung) {
        return Some(format!("the runtime responds, but {}", not_answered(hung)));
    }
    for call in [Rpc::ListPodSandbox, Rpc::ListContainers] {
        let list = probes.node(call);
        if list.is_none_or(|list| list.end != End::Answered) {
            let failed = match list.and_then(Probe::error) {
                Some(why) => format!("failed: {why}"),
                None => "was not answered".to_owned(),
            };
            return Some(format!("the runtime responds, but {call} {failed}"));
        }
    }
    if let Some(why) = &probes.unreachable_to_agent {
        return Some(format!(
            "the runtime responds to the doctor, but the agent on this node cannot reach it: {why}"
        ));
    }
    if let Some(lost) = probes.went_away.calls().first() {
        let (call, subject) = (lost.call, subject(lost));
        return Some(format!(
            "the connection to the runtime is lost each time {call} is called for {subject}"
        ));
    }
    if probes.undecided > 0 {
        let rows = counted(probes.undecided, "row");
        return Some(format!(
            "the runtime responds, but {rows} of its lists may be wrong: it is not known whether their \
             processes run"
        ));
    }
    if probes.unobserved > 0 {
        let all = probes.rows.as_ref().map_or(0, |rows| rows.sandboxes);
        let all = counted(all.max(probes.unobserved), "pod");
        return Some(format!(
            "the runtime responds, but {} of {all} were not observed in time",
            probes.unobserved
        ));
    }
    let is_of_one = |call: Rpc| matches!(call, Rpc::ContainerStatus | Rpc::PodSandboxStatus);
    let made = probes.costs.iter().filter(|cost| is_of_one(cost.call));
    let made: usize = made.map(|cost| cost.count).sum();
    let unasked = probes.unasked;
    (unasked > 0).then(|| {
        let all = counted(unasked + made, "status call");
        format!(
            "the runtime responds, but {unasked} of {all} were not made or not answered in time"
        )
    })
}

/// The summary of a node on which nothing was found, with what was not checked.
pub(super) fn healthy(facts: &NodeFacts, has_kubelet: bool) -> String {
    let probes = &facts.probes;
    let mut said = match (&probes.agent, has_kubelet) {
        (Some(agent), _) => format!(
            "{} answers the agent on this node: {}",
            name_and_version(probes),
            agent.message
        ),
        (None, true) => format!("{}: {}", responds(probes), calls(probes)),
        (None, false) => responds(probes),
    };
    if let Some(slow) = slow_status(probes) {
        let (call, took) = (name_of_call(slow), duration(slow.seconds));
        said += &format!("; {call} took {took}");
    }
    if !has_kubelet {
        said = format!("no kubelet on this machine; {said}");
    } else if let Some(why) = facts.host.api_server.why() {
        said += &format!("; its API server was not asked: {why}");
    } else if let Some(why) = facts.host.api_server.value().and_then(|it| it.lease.why()) {
        said += &format!("; whether the kubelet renews its lease was not checked: {why}");
    }
    if probes.conditions.is_none() {
        said += "; whether the pod network is ready was not checked";
    }
    said
}

/// The slowest status call that was overdue before it was answered.
fn slow_status(probes: &ProbeFacts) -> Option<&Probe> {
    let of_one = probes.calls.iter().filter(|probe| probe.id.is_some());
    let slow = of_one.filter(|it| it.end == End::Answered && it.seconds >= SLOW_CALL_SECONDS);
    slow.max_by(|one, other| one.seconds.total_cmp(&other.seconds))
}

/// How long the slowest call to the runtime took, in seconds.
fn slowest(probes: &ProbeFacts) -> f64 {
    let costs = probes.costs.iter().map(|cost| cost.max);
    let slow = slow_status(probes).map(|probe| probe.seconds);
    costs.chain(slow).fold(0.0, f64::max)
}

/// The name and version of the runtime, in at most 40 characters.
fn name_and_version(probes: &ProbeFacts) -> String {
    let name = match &probes.runtime {
        Some(runtime) => format!("{} {}", runtime.name, runtime.version),
        None => "the runtime".to_owned(),
    };
    name.chars().take(40).collect()
}

fn responds(probes: &ProbeFacts) -> String {
    let normally = match slowest(probes) >= SLOW_CALL_SECONDS {
        true => "",
        false => " normally",
    };
    format!("{} responds{normally}", name_and_version(probes))
}

fn calls(probes: &ProbeFacts) -> String {
    let calls: usize = probes.costs.iter().map(|cost| cost.count).sum();
    let slowest = slowest(probes) * 1000.0;
    let slowest = GoDuration(Duration::from_millis(slowest.ceil() as u64));
    let failed = probes
        .calls
        .iter()
        .filter(|probe| probe.end != End::Answered);
    let failed = match failed.count() {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    format!("{calls} calls, slowest {slowest}{failed}")
}
