//! From an engine's report to facts: the only place that knows both.

use std::collections::BTreeMap;

use pleg::model::id::Id;
use pleg::out::call_costs::CallCost;
use pleg::out::health::FailingCall;
use pleg::out::status_report::{GuardMode, InFlight, StatusReport};
use pleg::runtime::{CallError, Rpc, RuntimeVersion};

use super::bounded::{MAX_SENTENCE_CHARS, bounded, bounded_error, bounded_version};
use super::disagreements::Disagreeing;
use super::names::{Named, pod_name};
use super::observed::Observed;
use crate::facts::probes::{
    AgentsWord, Cost, End, Failures, GuardFacts, OtherCalls, Probe, ProbeFacts, WentAway,
};
use crate::limits::UNRESPONSIVE_AFTER;

mod rows;

use rows::rows;

/// With fewer calls that were made alone, one outlier would dominate their mean.
const MIN_FOR_MEAN: usize = 10;

/// How many calls that fail are kept.
const MAX_FAILED: usize = 200;

/// What an engine reports, as facts; `by_agent` if it is that of an agent on the node. The containers
/// about which the kernel disagrees have a fact of their own.
pub(super) fn facts(
    observed: &Observed,
    names: &BTreeMap<Id, Named>,
    disagreeing: &Disagreeing,
    by_agent: bool,
) -> ProbeFacts {
    let convert = Convert {
        observed,
        names,
        disagreeing,
        by_agent,
    };
    let status = &observed.status;
    let version = convert.version();
    let costs = status.costs.iter();
    ProbeFacts {
        runtime: runtime_version(status),
        besides_version: convert.besides(version.as_ref()),
        calls: convert.calls(version),
        costs: costs.filter_map(cost).collect(),
        failures: convert.failures(),
        rows: rows(observed),
        unobserved: observed.not_observed_in_time(),
        went_away: convert.went_away(),
        agent: by_agent.then(|| agents_word(status)),
        guard: guard(status),
        ..ProbeFacts::default()
    }
}

/// A status call that was overdue before it was answered.
pub(super) fn slow(
    (call, id, seconds): (Rpc, Id, f64),
    names: &BTreeMap<Id, Named>,
    by_agent: bool,
) -> Probe {
    let Named { pod, container } = names.get(&id).cloned().unwrap_or_default();
    Probe {
        call,
        id: Some(bounded(id.as_str())),
        end: End::Answered,
        seconds,
        by_agent,
        bytes: None,
        pod,
        container,
    }
}

struct Convert<'a> {
    observed: &'a Observed,
    names: &'a BTreeMap<Id, Named>,
    disagreeing: &'a Disagreeing,
    by_agent: bool,
}

impl Convert<'_> {
    fn probe(&self, call: Rpc, end: End, seconds: f64) -> Probe {
        Probe {
            call,
            id: None,
            end,
            seconds,
            by_agent: self.by_agent,
            bytes: None,
            pod: None,
            container: None,
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

    fn cost(&self, call: Rpc) -> Option<&CallCost> {
        let mut costs = self.observed.status.costs.iter();
        costs.find(|cost| cost.call == call)
    }

    /// `Version`, which is called while nothing else is answered.
    fn version(&self) -> Option<Probe> {
        let call = Rpc::Version;
        if let Some(why) = self.observed.unreachable() {
            let why = bounded_error(CallError::Unavailable(why.clone()));
            return Some(self.probe(call, End::Failed(why), 0.0));
        }
        if self.observed.is_unresponsive() {
            let ages = self.observed.outstanding().map(|call| call.age_seconds);
            return Some(self.probe(call, End::Hung, ages.fold(0.0, f64::max)));
        }
        // An engine calls it once, which may be long ago, and again if something is overdue.
        let is_anything_answered = || self.since_an_answer() < f64::INFINITY;
        let version = self.of_node(call);
        version.or_else(|| is_anything_answered().then(|| self.probe(call, End::Answered, 0.0)))
    }

    /// How many seconds ago any call was answered.
    fn since_an_answer(&self) -> f64 {
        let costs = self.observed.status.costs.iter();
        let ago = costs.filter_map(|cost| cost.answered_ago);
        ago.fold(f64::INFINITY, f64::min)
    }

    /// A call for the whole node: it hangs, or ended as the newest one did.
    fn of_node(&self, call: Rpc) -> Option<Probe> {
        let outstanding = self.observed.node_call(call);
        if let Some(hung) = outstanding.filter(|call| self.observed.hangs(call)) {
            return Some(self.probe(call, End::Hung, hung.age_seconds));
        }
        let cost = self.cost(call)?;
        let end = match &cost.error {
            // There is a connection again.
            Some(CallError::Unavailable(_)) if self.observed.unreachable().is_none() => None,
            Some(error) => Some(End::Failed(bounded_error(error.clone()))),
            None => None,
        };
        match end {
            Some(end) => Some(self.probe(call, end, 0.0)),
            None if cost.count > 0 => Some(Probe {
                bytes: cost.bytes,
                ..self.probe(call, End::Answered, cost.last)
            }),
            None => None,
        }
    }

    /// Whether other calls are answered, if `Version` hangs.
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
        // An answer in the second half of its time is one to a call that was made later.
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
        let failing = failing.map(|failing| self.failed(failing));
        version
            .into_iter()
            .chain(lists)
            .chain(hung)
            .chain(failing)
            .collect()
    }

    fn hung(&self, call: &InFlight, id: &Id) -> Probe {
        let mut probe = self.of_one(call.call, id, End::Hung, call.age_seconds);
        let mut stuck = self.observed.status.stuck.iter();
        let named = stuck.find(|stuck| stuck.call == call.call && stuck.id == call.id);
        if let Some(named) = named.filter(|_| probe.pod.is_none()) {
            probe.pod = named.pod.as_ref().map(pod_name);
            probe.container = named.container.as_deref().map(bounded);
        }
        probe
    }

    /// The status calls that fail. That a pod is slow is no failure, and one for an id that only the
    /// host knows says nothing about the runtime: it may not exist.
    fn failing(&self) -> impl Iterator<Item = &FailingCall> {
        let failing = self.observed.status.failing.iter();
        failing
            .filter(|it| !it.whole_pod && !it.withheld && !it.unlisted && it.pod.is_some())
            .filter(|it| !self.disagreeing.contains(&it.id))
    }

    fn failed(&self, failing: &FailingCall) -> Probe {
        let error = failing.cause.clone();
        let error = error.unwrap_or_else(|| CallError::Malformed(failing.error.as_str().into()));
        Probe {
            pod: failing.pod.as_ref().map(pod_name),
            container: failing.container.as_deref().map(bounded),
            ..self.of_one(
                failing.call,
                &failing.id,
                End::Failed(bounded_error(error)),
                0.0,
            )
        }
    }

    fn failures(&self) -> Vec<Failures> {
        let calls = [Rpc::PodSandboxStatus, Rpc::ContainerStatus].into_iter();
        let failures = calls.map(|call| {
            let failed = self
                .failing()
                .filter(|failing| failing.call == call)
                .count();
            let pods = self.observed.pods.iter();
            let good = pods.filter(|pod| pod.as_of.is_some() && pod.error.is_none());
            let good = good.map(|pod| match call {
                Rpc::PodSandboxStatus => pod.status.sandboxes.len(),
                _ => pod.status.containers.len(),
            });
            let made = failed + good.sum::<usize>();
            Failures { call, failed, made }
        });
        failures.filter(|failures| failures.failed > 0).collect()
    }

    /// Whether the connection was lost, and the status calls during which it was.
    fn went_away(&self) -> WentAway {
        let status = &self.observed.status;
        let lost = |call, id| {
            let why = match self.observed.unreachable() {
                Some(why) => CallError::Unavailable(why.clone()),
                None => CallError::Withheld,
            };
            self.of_one(call, id, End::Failed(bounded_error(why)), 0.0)
        };
        let suspects = || {
            let suspects = status.suspects.iter();
            suspects
                .map(|suspect| lost(suspect.call, &suspect.id))
                .collect()
        };
        let withheld = status.failing.iter().filter(|failing| failing.withheld);
        let withheld: Vec<Probe> = withheld
            .map(|failing| Probe {
                seconds: failing.since_seconds,
                ..self.failed(failing)
            })
            .collect();
        let is_settled = self.observed.is_complete();
        match withheld.is_empty() {
            _ if self.observed.unreachable().is_some() => WentAway::EachTime(suspects()),
            false => WentAway::During(
                withheld
                    .into_iter()
                    .map(|probe| Probe {
                        end: End::Failed(CallError::Withheld),
                        ..probe
                    })
                    .collect(),
            ),
            true if !is_settled && self.observed.has_lost_connection() => {
                WentAway::EachTime(suspects())
            }
            true => WentAway::Never,
        }
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
        // Calls that are made beside others are never quicker, so if they seem to be, there was an
        // outlier.
        alone: cost.alone_mean.map(|alone| match cost.alone {
            ..MIN_FOR_MEAN => alone.min(cost.mean),
            _ => alone,
        }),
    })
}

fn agents_word(status: &StatusReport) -> AgentsWord {
    let health = &status.health;
    AgentsWord {
        state: health.state,
        reason: health.reason,
        message: health.message.chars().take(MAX_SENTENCE_CHARS).collect(),
        relist_seconds: status.relist.last_duration_seconds,
        failure: None,
    }
}

/// The guard in the process of an agent, if there is one.
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
        kubelet: view.message.chars().take(MAX_SENTENCE_CHARS).collect(),
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
        facts(
            observed,
            &names(&observed.pods),
            &Disagreeing::default(),
            false,
        )
    }

    #[test]
    fn what_an_engine_measures_and_lists_becomes_facts() {
        let facts = facts_of(&healthy());
        for call in [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers] {
            let probe = facts.node(call).unwrap();
            assert_eq!((probe.outcome(), probe.seconds), (Outcome::Ok, 0.002));
        }
        assert_eq!(facts.cost(Rpc::ContainerStatus).unwrap().alone, Some(0.002));
        assert_eq!(facts.rows.as_ref().unwrap().containers, 1);
        assert_eq!(facts.went_away, WentAway::Never);
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
    fn of_a_few_calls_that_were_made_alone_one_outlier_does_not_count_for_all() {
        let mut observed = healthy();
        let cost = observed.cost(Rpc::ContainerStatus);
        (cost.alone_mean, cost.mean) = (Some(2.0), 0.4);
        let names = names(&observed.pods);
        let facts = facts(&observed, &names, &Disagreeing::default(), true);
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
    fn an_unresponsive_runtime_is_distinguished_from_one_that_pauses() {
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
    fn a_list_that_fails_is_no_answer_and_a_lost_connection_is_none_of_a_list() {
        let mut fails = healthy();
        fails.cost(Rpc::ListContainers).error = Some(CallError::Refused("Unknown: x".into()));
        let facts = facts_of(&fails);
        assert_eq!(facts.outcome(Rpc::ListContainers), Some(Outcome::Error));
        let mut gone = healthy();
        let why = CallError::connection_refused();
        gone.cost(Rpc::ListContainers).error = Some(why.clone());
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
    fn a_call_that_the_engine_withholds_is_the_one_during_which_the_connection_is_lost() {
        let mut observed = healthy();
        let failing = serde_json::json!({
            "call": "ContainerStatus", "id": "c1", "container": "app", "pod": null,
            "error": "e", "sinceSeconds": 9.0, "withheld": true,
        });
        observed.status.failing = vec![serde_json::from_value(failing).unwrap()];
        let facts = facts_of(&observed);
        assert!(facts.failures.is_empty());
        let WentAway::During(calls) = &facts.went_away else {
            panic!("{:?}", facts.went_away);
        };
        assert_eq!(calls[0].id.as_deref(), Some("c1"));
    }
}
