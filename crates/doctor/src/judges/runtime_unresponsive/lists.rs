//! A runtime that answers `Version`: how it answers the lists and the status calls.

use causes::finding::{Confidence, Finding};
use pleg::runtime::{CallError, Rpc};

use super::{failing, finding};
use crate::evidence::phrases::{duration, name_of_runtime, not_answered, whole_seconds};
use crate::evidence::plugins::is_any_old;
use crate::facts::NodeFacts;
use crate::facts::probes::{End, MAX_SINGLED_OUT, Outcome};

/// If half of the status calls take longer, the runtime is slow: a healthy one takes milliseconds.
const SLOW_SECONDS: f64 = 2.0;

/// The findings about lists and status calls that hang, fail or are slow, and about a runtime that is not
/// ready.
pub(super) fn lists(facts: &NodeFacts) -> Vec<Finding> {
    let probes = &facts.probes;
    let name = name_of_runtime(probes);
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers].into_iter();
    let lists = lists.filter_map(|call| probes.node(call));
    let hung = lists.clone().filter(|probe| probe.end == End::Hung);
    if hung.clone().count() == 2 {
        let waited = hung.clone().map(|probe| probe.seconds);
        let within = whole_seconds(waited.fold(f64::INFINITY, f64::min));
        let sentence = match probes.node(Rpc::Version) {
            Some(_) => format!("{name} answers Version, but neither list call within {within}"),
            None => format!("{name} answers neither list call within {within}"),
        };
        let one = probes.singled_out(Rpc::ContainerStatus);
        let evidence = hung.chain(one).map(not_answered);
        return vec![finding(facts, Confidence::High, sentence, evidence)];
    }
    let failed = lists.filter(|probe| probe.outcome() == Outcome::Error);
    let failed = failed.filter_map(|probe| Some((probe.call.name(), probe.error()?)));
    // A list that is too large is another cause.
    let failed = failed.filter(|(_, why)| !matches!(why, CallError::TooLarge(_)));
    let found = failed.map(|(call, why)| {
        let (sentence, failed) = (
            format!("{name} fails {call}"),
            format!("{call} failed: {why}"),
        );
        finding(facts, Confidence::High, sentence, [failed])
    });
    let mut found: Vec<Finding> = found.collect();
    found.extend(refused_to_agent(facts, name));
    found.extend(hung_alone(facts, name));
    found.extend(no_status(facts, name));
    found.extend(many_statuses(facts, name));
    found.extend(failing::statuses(facts, name));
    found.extend(not_ready(facts, name));
    if found.is_empty() {
        found.extend(slow_statuses(facts, name));
    }
    found
}

/// A finding about a list call of the agent that failed. The agent does not report which one.
fn refused_to_agent(facts: &NodeFacts, name: &str) -> Option<Finding> {
    let failure = facts.probes.agent.as_ref()?.failure.as_ref()?;
    if matches!(failure, CallError::TooLarge(_)) {
        return None;
    }
    let sentence = format!("{name} fails a list call of the agent on this node");
    let failed = format!("the list call failed: {failure}");
    Some(finding(facts, Confidence::High, sentence, [failed]))
}

/// The runtime answers, but reports that it is not ready.
fn not_ready(facts: &NodeFacts, name: &str) -> Option<Finding> {
    let condition = facts.probes.unmet("RuntimeReady")?;
    let why = [&*condition.reason, &*condition.message].join(": ");
    let sentence = format!("{name} reports that it is not ready ({why})");
    let unmet = format!("the condition RuntimeReady is false: {why}");
    Some(finding(facts, Confidence::High, sentence, [unmet]))
}

/// One call for the whole node hangs, and no other cause explains it.
fn hung_alone(facts: &NodeFacts, name: &str) -> Option<Finding> {
    let probes = &facts.probes;
    let hung = |call: &Rpc| probes.outcome(*call) == Some(Outcome::Hung);
    let explained = |call: &Rpc| match call {
        Rpc::ListContainers => probes.may_be_containerd(),
        // The plugin that `Status` waits for is reported by another judge.
        Rpc::Status => is_any_old(facts),
        _ => false,
    };
    let calls = [Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::Status];
    let mut calls = calls.into_iter().filter(hung);
    let probe = probes.node(calls.find(|call| !explained(call))?)?;
    let sentence = format!("{name} answers Version, but not {}", probe.call.name());
    let evidence = [not_answered(probe)];
    Some(finding(facts, Confidence::Medium, sentence, evidence))
}

/// No status call of one kind is answered, so no container is singled out.
fn no_status(facts: &NodeFacts, runtime: &str) -> Option<Finding> {
    let probes = &facts.probes;
    if probes.agent.is_some() {
        return None;
    }
    // If few calls hang, they may wait for the lock of one of their containers.
    let is_few = |call: Rpc| probes.hung(call).count() <= MAX_SINGLED_OUT;
    let is_list_hung = probes.outcome(Rpc::ListContainers) == Some(Outcome::Hung);
    let calls = [Rpc::ContainerStatus, Rpc::PodSandboxStatus].into_iter();
    // An error is an answer.
    let fails = |call: Rpc| probes.failures.iter().any(|it| it.call == call);
    let mut never_answered = calls.filter(|call| probes.cost(*call).is_none() && !fails(*call));
    let call = never_answered.find(|call| probes.hung(*call).next().is_some())?;
    if is_list_hung && is_few(call) {
        return None;
    }
    let sentence = format!("{runtime} does not answer any {call} call");
    let waited: Vec<f64> = probes.hung(call).map(|probe| probe.seconds).collect();
    let evidence = format!(
        "{} calls were made and none was answered, the oldest for {}: the runtime is slow, or all \
         of them wait for the same resource",
        waited.len(),
        duration(waited.into_iter().fold(0.0, f64::max))
    );
    Some(finding(facts, Confidence::Medium, sentence, [evidence]))
}

/// Several status calls hang while others are answered: a daemon blocks them, and each id is a
/// victim.
fn many_statuses(facts: &NodeFacts, runtime: &str) -> Option<Finding> {
    let probes = &facts.probes;
    let calls = [Rpc::ContainerStatus, Rpc::PodSandboxStatus].into_iter();
    let mut calls = calls.filter(|call| probes.cost(*call).is_some() || probes.agent.is_some());
    let call = calls.find(|call| probes.hung(*call).count() > MAX_SINGLED_OUT)?;
    let count = probes.hung(call).count();
    let sentence = format!("{runtime} does not answer {call} for {count} ids at the same time");
    let examples = probes.hung(call).take(MAX_SINGLED_OUT + 1);
    let usually = "a call that hangs for several ids is usually blocked by a daemon or a disk, not \
                   by each container";
    let evidence = examples.map(not_answered).chain([usually.to_owned()]);
    Some(finding(facts, Confidence::Medium, sentence, evidence))
}

/// Status calls are answered, but take seconds each: a kubelet makes one after the other.
fn slow_statuses(facts: &NodeFacts, runtime: &str) -> Option<Finding> {
    let calls = [Rpc::ContainerStatus, Rpc::PodSandboxStatus].into_iter();
    let mut costs = calls.filter_map(|call| facts.probes.cost(call));
    let slow = costs.find(|cost| cost.p50 >= SLOW_SECONDS)?;
    let call = slow.call.name();
    let half = duration(slow.p50);
    let sentence = format!("{runtime} is slow: {call} takes {half}");
    let evidence = format!(
        "of {} {call} calls, half took {half} or more, and the slowest {}",
        slow.count,
        duration(slow.max)
    );
    Some(finding(facts, Confidence::Low, sentence, [evidence]))
}

#[cfg(test)]
mod tests {
    use causes::finding::Verdict;

    use super::super::{Opinion, judge};
    use super::*;
    use crate::node::{found, node};

    #[test]
    fn a_runtime_is_slow_if_half_of_its_status_calls_take_seconds() {
        let slow = node("containerd", "1.7.24").answered(Rpc::ContainerStatus, 20, 4.8);
        let findings = found(judge(&slow.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        let said = "containerd is slow: ContainerStatus takes 4.8s";
        assert_eq!(findings[0].sentence, said);
        let quick = node("containerd", "1.7.24").answered(Rpc::ContainerStatus, 20, 0.8);
        assert_eq!(judge(&quick.facts()), Opinion::Clear);
    }
}
