//! The diagnosis of a node: the findings of all judges, root causes first.

use causes::Cause;
use causes::finding::{Confidence, Finding, leave_out_superseded};
use pleg_text::redacted;
use serde::Serialize;

pub use crate::evidence::rights::NotPermitted;
use crate::evidence::rights::not_permitted;
use crate::facts::NodeFacts;
use crate::judges::kubelet_not_running::has_no_kubelet;
pub use crate::judges::systemd_cookie_overflow::SerialsLeft;
use crate::judges::{Opinion, has_judge, judged, opinion, systemd_cookie_overflow};

mod leave_out;
mod logs;
mod summary;

use summary::{cannot_judge, doubt, healthy, not_found};

/// What is wrong with the node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// Whether there is a problem, according to the highest confidence of the findings.
    pub verdict: NodeVerdict,
    /// One sentence, with the names of pods and processes.
    pub summary: String,
    /// What was found, root causes before their victims.
    pub findings: Vec<Finding>,
    /// Causes that could not be judged, and why.
    pub not_checked: Vec<NotChecked>,
    /// Whether only some of the causes were judged.
    #[serde(skip)]
    pub is_partial: bool,
    /// What could not be read for lack of permission.
    pub not_permitted: Vec<NotPermitted>,
    /// How long systemd can go on sending messages on the system bus
    /// (`systemd-cookie-overflow`).
    #[serde(skip_serializing_if = "SerialsLeft::is_unknown")]
    pub systemd_cookie_left_seconds: SerialsLeft,
}

/// The verdict on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeVerdict {
    /// No problem was found, or problems are only suspected, with low confidence.
    Ok,
    /// A problem was found.
    Problem,
    /// Too little is known.
    Unknown,
}

impl NodeVerdict {
    /// The verdict for the highest confidence of the findings. A finding of low confidence may have a
    /// harmless reason: it is shown, but does not make the node unhealthy.
    fn of(strongest: Option<Confidence>, is_known: bool) -> Self {
        match strongest {
            Some(Confidence::Medium | Confidence::High | Confidence::Certain) => Self::Problem,
            Some(Confidence::Low) | None if is_known => Self::Ok,
            Some(Confidence::Low) | None => Self::Unknown,
        }
    }
}

/// A cause that could not be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotChecked {
    /// The cause.
    pub cause: Cause,
    /// Why the cause could not be judged.
    pub why: String,
}

/// Judges a node by the causes that are `wanted`.
pub fn diagnose(facts: &NodeFacts, wanted: impl Fn(Cause) -> bool) -> Diagnosis {
    let mut findings = Vec::new();
    let mut not_checked = Vec::new();
    let mut clear = Vec::new();
    for cause in judged().filter(|cause| wanted(*cause)) {
        match opinion(facts, cause) {
            Opinion::Found(found) => findings.extend(found),
            Opinion::Clear => clear.push(cause),
            Opinion::Unknown(why) => not_checked.push(NotChecked {
                cause,
                why: redacted(why),
            }),
        }
    }
    let is_over = |cause: Cause| {
        has_judge(cause) && clear.contains(&cause) && logs::can_be_seen_to_be_over(facts, cause)
    };
    let mut past = logs::add(facts, &mut findings, &wanted, is_over);
    leave_out::processes_that_are_named(&mut findings, &facts.host);
    leave_out::measured_without_cpu_time(&mut findings);
    leave_out_superseded(&mut findings);
    for finding in findings.iter_mut().chain(&mut past) {
        leave_out::advice(finding, &facts.probes);
        leave_out::fixes(finding, facts);
        finding.redact();
    }
    // Problems first, then suspicions, then those of low confidence; within each group, root causes first,
    // which is the order of the judges.
    findings.sort_by_key(|finding| {
        std::cmp::Reverse((finding.verdict, finding.confidence > Confidence::Low))
    });
    // A user who has access only to an agent sees its reports, which contain nothing about the network.
    let essential = match facts.probes.agent {
        None => &ESSENTIAL[..],
        Some(_) => &ESSENTIAL[..2],
    };
    let blind = not_checked.iter().any(|not| essential.contains(&not.cause));
    let doubt = doubt(&facts.probes).filter(|_| OF_CALLS.iter().any(|cause| wanted(*cause)));
    let is_judged = !clear.is_empty() || !findings.is_empty();
    let strongest = findings.first().map(|finding| finding.confidence);
    let verdict = NodeVerdict::of(strongest, is_judged && !blind && doubt.is_none());
    let is_partial = judged().any(|cause| !wanted(cause));
    let summary = match (verdict, findings.first(), doubt) {
        (NodeVerdict::Problem, Some(first), _) => first.said().to_owned(),
        (NodeVerdict::Unknown, _, Some(doubt)) => redacted(doubt),
        (NodeVerdict::Unknown, _, None) => cannot_judge(&not_checked, essential),
        (_, Some(first), _) if is_partial => {
            format!("suspected with low confidence only: {}", first.said())
        }
        (_, None, _) if is_partial => not_found(&clear),
        (_, _, _) => healthy(facts, !has_no_kubelet(facts)),
    };
    findings.extend(past);
    Diagnosis {
        verdict,
        is_partial,
        summary,
        findings,
        not_checked,
        not_permitted: not_permitted(facts),
        systemd_cookie_left_seconds: systemd_cookie_overflow::serials_left(facts),
    }
}

impl Diagnosis {
    /// Adds the findings of earlier diagnoses, from the history, that this diagnosis does not contain: they
    /// are past. The verdict does not change, because it is about the node as it is now.
    pub fn add_past(&mut self, earlier: Vec<Finding>) {
        let is_found = |it: &Finding| self.findings.iter().any(|now| now.is_same_fault(it));
        let past = earlier.into_iter().filter(|it| !is_found(it));
        let past: Vec<_> = past.map(|it| Finding { past: true, ..it }).collect();
        if let Some(first) = past.first() {
            self.summary += &format!("; {}: {}", first.past_note(), first.said());
        }
        self.findings.extend(past);
    }

    /// The findings that hold now, without past ones.
    pub fn current(&self) -> &[Finding] {
        let current = self.findings.iter().take_while(|it| !it.past).count();
        &self.findings[..current]
    }
}

/// A node is not called healthy without an opinion on these causes: whether the runtime answers, whether a
/// kubelet runs, and whether the pod network is ready.
const ESSENTIAL: [Cause; 3] = [
    Cause::RuntimeUnresponsive,
    Cause::KubeletNotRunning,
    Cause::CniNotReady,
];

/// The causes that calls to the runtime show.
const OF_CALLS: [Cause; 4] = [
    Cause::RuntimeUnresponsive,
    Cause::ContainerLock,
    Cause::ContainerStatusLock,
    Cause::ShimUnresponsive,
];

#[cfg(test)]
mod tests {
    use cri::Rpc;
    use pleg::model::wall_time::WallTime;
    use pleg::out::health::{HealthState, Reason};
    use pleg::runtime::{CallError, NoConnection, Unreachable};

    mod restart_advice;

    use super::*;
    use crate::facts::HostFacts;
    use crate::facts::probes::{AgentReport, End, Outcome, Probe, ProbeFacts};
    use crate::node::node;

    fn nothing() -> NodeFacts {
        NodeFacts {
            taken: WallTime::from_unix_nanos(1).unwrap(),
            probes: ProbeFacts::default(),
            host: HostFacts::default(),
        }
    }

    #[test]
    fn nothing_is_claimed_about_a_node_that_could_not_be_probed() {
        let diagnosis = diagnose(&nothing(), |_| true);
        assert_eq!(diagnosis.verdict, NodeVerdict::Unknown);
        assert!(diagnosis.findings.is_empty());
    }

    #[test]
    fn a_runtime_without_an_answered_status_call_is_not_called_healthy() {
        let mut facts = node("containerd", "1.7.24").facts();
        assert_eq!(diagnose(&facts, |_| true).verdict, NodeVerdict::Ok);
        facts.probes.unasked = 3;
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.verdict, NodeVerdict::Unknown);
        let no_time = "3 of 3 status calls were not made or not answered in time";
        assert!(
            diagnosis.summary.ends_with(no_time),
            "{}",
            diagnosis.summary
        );
    }

    #[test]
    fn a_slow_status_call_is_in_the_summary_of_a_healthy_node() {
        let slow = node("cri-o", "1.37.0").status(Rpc::ContainerStatus, "c1", "shop", "web", "app");
        let mut facts = slow.facts();
        let call = facts.probes.calls.last_mut().unwrap();
        (call.end, call.seconds) = (End::Answered, 1.5);
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.verdict, NodeVerdict::Ok);
        let said =
            "cri-o 1.37.0 responds; ContainerStatus of container app of pod shop/web took 1.5s";
        assert!(diagnosis.summary.contains(said), "{}", diagnosis.summary);
    }

    #[test]
    fn a_runtime_that_does_not_know_what_it_listed_is_not_called_healthy() {
        let mut facts = node("containerd", "1.7.24").facts();
        facts.probes.undecided = 1;
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.verdict, NodeVerdict::Unknown);
        let said = "1 row of its lists may be wrong";
        assert!(diagnosis.summary.contains(said), "{}", diagnosis.summary);
    }

    #[test]
    fn a_runtime_whose_list_was_lost_is_not_called_healthy() {
        let mut facts = node("containerd", "1.7.24").facts();
        let is_list = |probe: &&mut Probe| probe.call == Rpc::ListContainers;
        let list = facts.probes.calls.iter_mut().find(is_list).unwrap();
        list.end = End::Failed(CallError::Unavailable(Unreachable {
            cause: NoConnection::Lost,
            message: "connection reset".into(),
        }));
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.verdict, NodeVerdict::Unknown);
        assert!(diagnosis.summary.contains("but ListContainers failed: "));
        facts
            .probes
            .calls
            .retain(|probe| probe.call != Rpc::ListContainers);
        assert_eq!(diagnose(&facts, |_| true).verdict, NodeVerdict::Unknown);
    }

    #[test]
    fn an_unhealthy_agent_is_not_overruled_if_nothing_else_is_found() {
        let mut facts = nothing();
        facts.probes.agent = Some(AgentReport {
            state: HealthState::Degraded,
            reason: Reason::ListFails,
            message: "the node cannot be listed".to_owned(),
            relist_seconds: None,
            failure: None,
        });
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.verdict, NodeVerdict::Unknown);
        let expected = "the agent on this node reports Degraded: the node cannot be listed";
        assert_eq!(diagnosis.summary, expected);
        let other = diagnose(&facts, |cause| cause == Cause::DiskFull);
        assert_ne!(other.summary, expected);
    }

    /// The agent loses the connection to the runtime each time it makes another call.
    #[test]
    fn an_agent_that_cannot_reach_the_runtime_is_not_overruled_if_the_runtime_responds() {
        let mut facts = node("containerd", "1.7.24").facts();
        assert_eq!(diagnose(&facts, |_| true).verdict, NodeVerdict::Ok);
        facts.probes.unreachable_to_agent = Some("stream closed".to_owned());
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.verdict, NodeVerdict::Unknown);
        let expected = "the agent on this node cannot reach it: stream closed";
        assert!(diagnosis.summary.ends_with(expected));
    }

    #[test]
    fn nothing_is_claimed_about_causes_that_were_not_judged() {
        let facts = node("containerd", "1.7.24").shim(99, true, &["c1"]).facts();
        let diagnosis = diagnose(&facts, |cause| cause == Cause::ContainerStatusLock);
        assert_eq!(diagnosis.verdict, NodeVerdict::Ok);
        let expected = "container-status-lock was not found; nothing else was checked";
        assert_eq!(diagnosis.summary, expected);
    }

    #[test]
    fn a_stopped_shim_is_reported_with_its_container_or_alone_if_only_its_cause_is_wanted() {
        let locked = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .shim(99, true, &["s1", "c1"])
            .facts();
        let causes = |wanted: fn(Cause) -> bool| -> Vec<Cause> {
            let findings = diagnose(&locked, wanted).findings;
            findings.iter().map(|finding| finding.cause).collect()
        };
        assert_eq!(causes(|_| true), [Cause::ContainerStatusLock]);
        let shim = Cause::ShimUnresponsive;
        assert_eq!(causes(|cause| cause == Cause::ShimUnresponsive), [shim]);
    }

    #[test]
    fn no_lock_is_ruled_out_if_the_runtime_answers_no_call() {
        let unresponsive = node("containerd", "1.7.24")
            .call(Rpc::Version, Outcome::Hung, 2.0)
            .call(Rpc::ListPodSandbox, Outcome::Hung, 2.0)
            .call(Rpc::ListContainers, Outcome::Hung, 2.0);
        let failing = node("containerd", "1.7.24")
            .call(Rpc::Version, Outcome::Error, 0.1)
            .call(Rpc::ListPodSandbox, Outcome::Error, 0.1)
            .call(Rpc::ListContainers, Outcome::Error, 0.1);
        for facts in [unresponsive.facts(), failing.facts()] {
            for lock in [Cause::ContainerLock, Cause::ContainerStatusLock] {
                let diagnosis = diagnose(&facts, |cause| cause == lock);
                assert_eq!(diagnosis.verdict, NodeVerdict::Unknown, "{lock}");
            }
        }
    }

    #[test]
    fn a_finding_of_low_confidence_is_shown_and_is_no_problem() {
        let mut facts = node("containerd", "1.7.24").facts();
        let healthy = diagnose(&facts, |_| true);
        let paused =
            node("containerd", "1.7.24").frozen("/kubepods/pod1", "freezer.state", "THAWED");
        facts.host.cgroups = paused.facts().host.cgroups;
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.findings.len(), 1);
        assert_eq!(diagnosis.findings[0].confidence, Confidence::Low);
        assert_eq!(diagnosis.verdict, NodeVerdict::Ok);
        assert_eq!(diagnosis.summary, healthy.summary);
        let alone = diagnose(&facts, |cause| cause == Cause::RuncInitFrozen);
        assert_eq!(alone.verdict, NodeVerdict::Ok);
        assert!(alone.summary.starts_with("suspected with low confidence"));
        // Whatever else keeps a node from being called healthy still does.
        facts.probes.unasked = 3;
        assert_eq!(diagnose(&facts, |_| true).verdict, NodeVerdict::Unknown);
        // A suspicion with more confidence is listed first.
        let unready = node("containerd", "1.7.24").unmet("NetworkReady", "no networks found");
        let mut facts = NodeFacts {
            host: facts.host,
            ..unready.facts()
        };
        facts.probes.unasked = 0;
        let diagnosis = diagnose(&facts, |_| true);
        assert_eq!(diagnosis.findings[0].cause, Cause::CniNotReady);
        assert_eq!(diagnosis.verdict, NodeVerdict::Problem);
    }

    #[test]
    fn every_cause_is_judged_or_reported_as_not_checked() {
        let diagnosis = diagnose(&nothing(), |_| true);
        assert_eq!(diagnosis.not_checked.len(), Cause::ALL.len());
        let one = diagnose(&nothing(), |cause| cause == Cause::RepairLoop);
        assert_eq!(one.not_checked.len(), 1);
        assert_eq!(one.verdict, NodeVerdict::Unknown);
    }

    #[test]
    fn advice_and_fixes_for_containerd_are_not_shown_for_another_runtime() {
        let said = |runtime: &str| {
            let stopped = node(runtime, "1.6.3").shim(99, true, &["c1"]);
            let diagnosis = diagnose(&stopped.facts(), |cause| cause == Cause::ShimUnresponsive);
            let finding = &diagnosis.findings[0];
            let advice = finding.advice.join("; ").contains("keep containerd");
            (advice, finding.fixed_in.contains(&"containerd 1.6.25"))
        };
        assert_eq!(said("containerd"), (true, true));
        assert_eq!(said("cri-o"), (false, false));
    }

    #[test]
    fn only_newer_versions_are_shown_as_fixes() {
        let fixes = |version: &str| {
            let stopped = node("containerd", version).shim(99, true, &["c1"]);
            let diagnosis = diagnose(&stopped.facts(), |cause| cause == Cause::ShimUnresponsive);
            diagnosis.findings[0].fixed_in.clone()
        };
        assert_eq!(fixes("1.7.2"), ["containerd 1.7.8"]);
        assert!(fixes("2.4.0").is_empty());
    }
}
