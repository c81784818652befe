//! Converts an engine's report to facts.

use std::collections::BTreeMap;

use pleg::model::id::Id;
use pleg::out::call_costs::CallCost;
use pleg::out::health::FailingCall;
use pleg::out::status_report::{GuardMode, InFlight, StatusReport};
use pleg::runtime::{CallError, Rpc, RuntimeVersion};

use super::bounded::{bounded, bounded_error, bounded_message, bounded_version};
use super::disagreements::Disagreeing;
use super::names::{Named, pod_name};
use super::observed::Observed;
use crate::facts::probes::{
    AgentReport, ConnectionLosses, Cost, End, Failures, GuardFacts, OtherCalls, Probe, ProbeFacts,
};
use crate::limits::UNRESPONSIVE_AFTER;

mod rows;

use rows::rows;

/// How many calls must have been made alone for their mean to be used: one outlier would dominate the mean
/// of fewer.
const MIN_FOR_MEAN: usize = 10;

/// How many failed calls are kept.
const MAX_FAILED: usize = 200;

/// What an engine reports, and what else was found out.
pub(super) struct Report<'a> {
    pub observed: &'a Observed,
    pub names: &'a BTreeMap<Id, Named>,
    /// The containers about which the runtime and the kernel disagree. They are reported with the tasks, so
    /// a status call that fails for one of them is left out.
    pub disagreeing: &'a Disagreeing,
    /// The status calls that were overdue before they were answered, with the seconds that they took.
    pub slow: Vec<((Rpc, Id), f64)>,
    /// Whether the engine is that of an agent on the node.
    pub by_agent: bool,
}

impl Report<'_> {
    pub fn facts(&self) -> ProbeFacts {
        let status = &self.observed.status;
        let version = self.version();
        ProbeFacts {
            runtime: runtime_version(status),
            besides_version: self.besides(version.as_ref()),
            calls: self.calls(version),
            costs: status.costs.iter().filter_map(cost).collect(),
            failures: self.failures(),
            rows: rows(self.observed),
            unobserved: self.observed.not_observed_in_time(),
            went_away: self.went_away(),
            agent: self.by_agent.then(|| agents_word(status)),
            guard: guard(status),
            ..ProbeFacts::default()
        }
    }

    fn probe(&self, call: Rpc, end: End, seconds: f64) -> Probe {
        Probe {
            by_agent: self.by_agent,
            ..Probe::new(call, end, seconds)
        }
    }

    fn of_one(&self, call: Rpc, id: &Id, end: End, seconds: f64) -> Probe {
        let Named { pod, container } = self.names.get(id).cloned().unwrap_or_default();
        Probe {
            id: Some(bounded(id.as_str())),
            pod,
            container,
            ..self.probe(call, end, seconds)
        }
    }

    /// How `Version` ended, or how it would end according to the other calls.
    fn version(&self) -> Option<Probe> {
        let call = Rpc::Version;
        // There is a connection, although the last relist may have failed for lack of one.
        if self.observed.is_unresponsive() {
            let ages = self.observed.outstanding().map(|call| call.age_seconds);
            return Some(self.probe(call, End::Hung, ages.fold(0.0, f64::max)));
        }
        if let Some(why) = self.observed.unreachable() {
            let why = bounded_error(CallError::Unavailable(why.clone()));
            return Some(self.probe(call, End::Failed(why), 0.0));
        }
        // An engine calls `Version` once, possibly long ago, and again only if something is overdue.
        let is_anything_answered = self.since_an_answer() < f64::INFINITY;
        let answered = || is_anything_answered.then(|| self.probe(call, End::Answered, 0.0));
        self.of_node(call).or_else(answered)
    }

    /// How many seconds ago any call was answered.
    fn since_an_answer(&self) -> f64 {
        let costs = self.observed.status.costs.iter();
        let ago = costs.filter_map(|cost| cost.answered_ago);
        ago.fold(f64::INFINITY, f64::min)
    }

    /// The call of this kind for the whole node: the outstanding one if it hangs, or else the newest one
    /// that has ended.
    fn of_node(&self, call: Rpc) -> Option<Probe> {
        let outstanding = self.observed.node_call(call);
        if let Some(hung) = outstanding.filter(|call| self.observed.hangs(call)) {
            return Some(self.probe(call, End::Hung, hung.age_seconds));
        }
        let cost = self.observed.cost(call)?;
        // A lost connection does not count if there is a connection again.
        let is_reachable = self.observed.unreachable().is_none();
        let is_over =
            |error: &&CallError| is_reachable && matches!(error, CallError::Unavailable(_));
        if let Some(error) = cost.error.as_ref().filter(|error| !is_over(error)) {
            let failed = End::Failed(bounded_error(error.clone()));
            return Some(self.probe(call, failed, 0.0));
        }
        (cost.count > 0).then(|| Probe {
            bytes: cost.bytes,
            ..self.probe(call, End::Answered, cost.last)
        })
    }

    /// Whether other calls are answered while `Version` hangs.
    fn besides(&self, version: Option<&Probe>) -> OtherCalls {
        let Some(version) = version.filter(|version| version.end == End::Hung) else {
            return OtherCalls::Unknown;
        };
        if self.observed.is_unresponsive() {
            return match version.seconds >= UNRESPONSIVE_AFTER {
                true => OtherCalls::Hang,
                false => OtherCalls::Unknown,
            };
        }
        // An answer in the second half of this time was to a call that was sent after `Version`.
        match self.since_an_answer() < version.seconds / 2.0 {
            true => OtherCalls::Answered,
            false => OtherCalls::Unknown,
        }
    }

    fn calls(&self, version: Option<Probe>) -> Vec<Probe> {
        let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
        let lists = lists.into_iter().filter_map(|list| self.of_node(list));
        let hung = self.observed.outstanding();
        let hung = hung.filter(|call| call.id.is_some() && self.observed.hangs(call));
        let hung = hung.filter_map(|call| Some(self.hung(call, call.id.as_ref()?)));
        let failing = self.failing().take(MAX_FAILED);
        let slow = self.slow.iter();
        let mut calls = Vec::from_iter(version);
        calls.extend(lists.chain(hung));
        calls.extend(failing.map(|failing| self.failed(failing)));
        calls.extend(slow.map(|((call, id), took)| self.of_one(*call, id, End::Answered, *took)));
        calls
    }

    fn hung(&self, call: &InFlight, id: &Id) -> Probe {
        let mut probe = self.of_one(call.call, id, End::Hung, call.age_seconds);
        let mut all_stuck = self.observed.status.stuck.iter();
        let stuck = all_stuck.find(|stuck| stuck.call == call.call && stuck.id == call.id);
        if let Some(stuck) = stuck.filter(|_| probe.pod.is_none()) {
            probe.pod = stuck.pod.as_ref().map(pod_name);
            probe.container = stuck.container.as_deref().map(bounded);
        }
        probe
    }

    /// The status calls that fail. A slow pod does not count, nor does a failure for an id that only the host
    /// knows: that container may not exist.
    fn failing(&self) -> impl Iterator<Item = &FailingCall> {
        let failing = self.observed.status.failing.iter();
        failing
            .filter(|it| !it.whole_pod && !it.withheld && it.pod.is_some())
            // A container that is unlisted or contradicted is reported although no call fails for it.
            .filter(|it| !it.unlisted && !it.contradicted)
            .filter(|it| !self.disagreeing.contains(&it.id))
    }

    fn failed(&self, failing: &FailingCall) -> Probe {
        let error = failing.cause.clone();
        let error = error.unwrap_or_else(|| CallError::Malformed(failing.error.as_str().into()));
        let end = End::Failed(bounded_error(error));
        Probe {
            pod: failing.pod.as_ref().map(pod_name),
            container: failing.container.as_deref().map(bounded),
            ..self.of_one(failing.call, &failing.id, end, 0.0)
        }
    }

    fn failures(&self) -> Vec<Failures> {
        let calls = [Rpc::PodSandboxStatus, Rpc::ContainerStatus].into_iter();
        let failures = calls.map(|call| {
            let failing = self.failing().filter(|failing| failing.call == call);
            let failed = failing.count();
            let pods = self.observed.pods.iter();
            let observed = pods.filter(|pod| pod.as_of.is_some() && pod.error.is_none());
            let answered = observed.map(|pod| match call {
                Rpc::PodSandboxStatus => pod.status.sandboxes.len(),
                _ => pod.status.containers.len(),
            });
            let made = failed + answered.sum::<usize>();
            Failures { call, failed, made }
        });
        failures.filter(|failures| failures.failed > 0).collect()
    }

    /// Whether the connection was lost, and during which status calls.
    fn went_away(&self) -> ConnectionLosses {
        let status = &self.observed.status;
        let unreachable = self.observed.unreachable();
        let withheld = status.failing.iter().filter(|failing| failing.withheld);
        let withheld = withheld.map(|failing| Probe {
            end: End::Failed(CallError::Withheld),
            seconds: failing.since_seconds,
            ..self.failed(failing)
        });
        let withheld: Vec<Probe> = withheld.collect();
        if unreachable.is_none() && !withheld.is_empty() {
            return ConnectionLosses::During(withheld);
        }
        let is_lost = !self.observed.is_complete() && self.observed.has_lost_connection();
        if unreachable.is_none() && !is_lost {
            return ConnectionLosses::Never;
        }
        let why = unreachable.map_or(CallError::Withheld, |why| {
            bounded_error(CallError::Unavailable(why.clone()))
        });
        let suspects = status.suspects.iter();
        let lost = suspects.map(|it| self.of_one(it.call, &it.id, End::Failed(why.clone()), 0.0));
        ConnectionLosses::EachTime(lost.collect())
    }
}

fn runtime_version(status: &StatusReport) -> Option<RuntimeVersion> {
    let runtime = &status.runtime;
    Some(bounded_version(RuntimeVersion {
        name: runtime.name.clone()?,
        version: runtime.version.clone()?,
        api_version: runtime.api_version.clone().unwrap_or_default(),
    }))
}

fn cost(cost: &CallCost) -> Option<Cost> {
    (cost.count > 0).then(|| Cost {
        call: cost.call,
        count: cost.count,
        p50: cost.p50,
        p90: cost.p90,
        p99: cost.p99,
        max: cost.max,
        // Calls that are made at the same time as others are not faster than those made alone. If they
        // appear to be, one of those made alone was an outlier.
        alone: cost.alone_mean.map(|alone| match cost.alone {
            ..MIN_FOR_MEAN => alone.min(cost.mean),
            _ => alone,
        }),
    })
}

fn agents_word(status: &StatusReport) -> AgentReport {
    let health = &status.health;
    AgentReport {
        state: health.state,
        reason: health.reason,
        message: bounded_message(&health.message),
        relist_seconds: status.relist.last_duration_seconds,
        failure: None,
    }
}

/// What the agent reports about its guard, if it has one.
fn guard(status: &StatusReport) -> Option<GuardFacts> {
    let guard = &status.guard;
    let view = &status.kubelet_view;
    (guard.mode != GuardMode::Off).then(|| GuardFacts {
        mode: guard.mode,
        since_seconds: guard.since_seconds,
        runtime_silent: guard.runtime_silent,
        waiting: guard.waiting,
        refusing: guard.refusing,
        limit_reached: guard.limit_reached,
        unused_seconds: guard.idle_seconds.filter(|_| guard.is_bypassed()),
        kubelet_ready: view.ready,
        kubelet: bounded_message(&view.message),
    })
}

#[cfg(test)]
mod tests {
    use pleg::out::health::Reason;

    use super::super::names::names;
    use super::super::observed::tests::healthy;
    use super::*;
    use crate::facts::probes::Outcome;

    fn facts_of(observed: &Observed) -> ProbeFacts {
        let report = Report {
            observed,
            names: &names(&observed.pods),
            disagreeing: &Disagreeing::default(),
            slow: Vec::new(),
            by_agent: false,
        };
        report.facts()
    }

    #[test]
    fn measurements_and_lists_become_facts() {
        let facts = facts_of(&healthy());
        for call in [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers] {
            let probe = facts.node(call).unwrap();
            assert_eq!((probe.outcome(), probe.seconds), (Outcome::Ok, 0.002));
        }
        assert_eq!(facts.cost(Rpc::ContainerStatus).unwrap().alone, Some(0.002));
        assert_eq!(facts.rows.as_ref().unwrap().containers, 1);
        assert_eq!(facts.went_away, ConnectionLosses::Never);
        assert!(facts.is_containerd() && facts.agent.is_none());
    }

    #[test]
    fn pods_that_are_listed_and_not_inspected_yet_count_as_rows() {
        let mut observed = healthy();
        observed.status.pods = 100;
        let states = [("running", 200), ("exited", 20)];
        let states = states.map(|(state, count)| (state.to_owned(), count));
        observed.status.containers = states.into();
        let rows = facts_of(&observed).rows.unwrap();
        assert_eq!(
            (rows.sandboxes, rows.containers, rows.exited),
            (100, 220, 20)
        );
        observed.pods.clear();
        assert_eq!(facts_of(&observed).rows, Some(rows));
    }

    #[test]
    fn one_outlier_does_not_dominate_the_mean_of_few_calls() {
        let mut observed = healthy();
        let cost = observed.cost_mut(Rpc::ContainerStatus);
        (cost.alone_mean, cost.mean) = (Some(2.0), 0.4);
        let facts = facts_of(&observed);
        let cost = facts.cost(Rpc::ContainerStatus).unwrap();
        assert_eq!(cost.alone, Some(0.4));
    }

    #[test]
    fn a_status_call_that_hangs_is_named_by_its_pod() {
        let hangs = healthy().waits(Rpc::ContainerStatus, Some("c1"), 4.0, true);
        let facts = facts_of(&hangs);
        let probe = facts.hung(Rpc::ContainerStatus).next().unwrap();
        assert_eq!(probe.container.as_deref(), Some("app"));
        let pod = probe.pod.as_ref().unwrap();
        assert_eq!(pod.name.as_deref(), Some("web"));
        assert_eq!(facts.singled_out(Rpc::ContainerStatus).len(), 1);
        let slow = healthy().waits(Rpc::ContainerStatus, Some("c1"), 4.0, false);
        assert_eq!(facts_of(&slow).hung(Rpc::ContainerStatus).count(), 0);
    }

    #[test]
    fn other_calls_hang_only_if_the_runtime_is_unresponsive_for_long() {
        for (seconds, expected) in [(9.0, OtherCalls::Hang), (4.0, OtherCalls::Unknown)] {
            let mut unresponsive =
                healthy().waits(Rpc::ContainerStatus, Some("c1"), seconds, false);
            unresponsive.status.health.reason = Reason::RuntimeSilent;
            let facts = facts_of(&unresponsive);
            assert_eq!(facts.outcome(Rpc::Version), Some(Outcome::Hung));
            assert_eq!(facts.besides_version, expected);
            assert!(facts.may_be_unresponsive());
        }
        let answers = facts_of(&healthy().waits(Rpc::Version, None, 4.0, false));
        assert_eq!(answers.besides_version, OtherCalls::Answered);
    }

    #[test]
    fn a_list_fails_with_its_own_error_or_while_the_connection_is_lost() {
        let mut fails = healthy();
        fails.cost_mut(Rpc::ListContainers).error = Some(CallError::Refused("Unknown: x".into()));
        let facts = facts_of(&fails);
        assert_eq!(facts.outcome(Rpc::ListContainers), Some(Outcome::Error));
        let mut gone = healthy();
        let why = CallError::connection_refused();
        gone.cost_mut(Rpc::ListContainers).error = Some(why.clone());
        assert_eq!(
            facts_of(&gone).outcome(Rpc::ListContainers),
            Some(Outcome::Ok)
        );
        gone.status.relist.last_failure = Some(why);
        let facts = facts_of(&gone);
        assert_eq!(facts.outcome(Rpc::Version), Some(Outcome::Refused));
        assert_eq!(facts.outcome(Rpc::ListContainers), Some(Outcome::Refused));
    }

    #[test]
    fn a_withheld_call_is_one_during_which_the_connection_is_lost() {
        let mut observed = healthy();
        let failing = serde_json::json!({
            "call": "ContainerStatus", "id": "c1", "container": "app", "pod": null,
            "error": "e", "sinceSeconds": 9.0, "withheld": true,
        });
        observed.status.failing = vec![serde_json::from_value(failing).unwrap()];
        let facts = facts_of(&observed);
        assert!(facts.failures.is_empty());
        let ConnectionLosses::During(calls) = &facts.went_away else {
            panic!("{:?}", facts.went_away);
        };
        assert_eq!(calls[0].id.as_deref(), Some("c1"));
    }
}
