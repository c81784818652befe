//! What an agent on the node reports about the runtime: the calls that it waits for and, if the
//! doctor may not call the runtime itself, how the runtime answered.

use std::collections::BTreeSet;
use std::time::Duration;

use causes::finding::PodName;
use pleg::model::id::Id;
use pleg::model::status::PodStatus;
use pleg::out::health::{HealthState, Reason, StuckCall};
use pleg::out::status_report::{GuardMode, InFlight, StatusReport};
use pleg::runtime::{CALLS, CallError, Rpc, RuntimeVersion};

use super::bounded::{MAX_SENTENCE_CHARS, bounded, bounded_error, bounded_version};
use super::patience::{MAX_DEADLINE, list_patience};
use super::targets::pod_name;
use crate::facts::probes::{AgentsWord, End, GuardFacts, Probe};

/// By how much the age of a call may differ from what it was and the time since, in seconds.
const MADE_AGAIN: f64 = 1.0;

/// The calls that it waits for and that hang, each with its id.
pub(super) fn hung(status: &StatusReport, pods: &[PodStatus]) -> Vec<(Probe, Option<Id>)> {
    // The event stream does not end, so it is never late.
    let calls = status.in_flight.iter();
    let calls = calls.filter(|call| CALLS.contains(&call.call));
    let hung = calls.filter(|call| match call.call.is_list() {
        true => is_list_hung(status, call),
        false => is_older(call, MAX_DEADLINE),
    });
    let hung = hung.map(|call| {
        let (pod, container) = named(status, pods, call);
        let probe = Probe {
            id: call.id.as_ref().map(|id| bounded(id.as_str())),
            seconds: call.age_seconds,
            pod,
            container,
            ..said(call.call, End::Hung)
        };
        (probe, call.id.clone())
    });
    hung.collect()
}

/// Whether a list hangs. Where both take long, or are slow each time, it has more time than six seconds.
fn is_list_hung(status: &StatusReport, list: &InFlight) -> bool {
    let mut calls = status.in_flight.iter();
    let are_both_late = calls
        .any(|other| other.call.is_list() && other.call != list.call && is_late(status, other));
    let are_slow = are_lists_slow(status);
    let is_overdue = is_older(list, MAX_DEADLINE) && overdue(status, list).is_some();
    is_overdue && !are_both_late && !are_slow || is_older(list, list_patience(None, are_slow))
}

/// Whether lists take long each time, and come.
pub(super) fn are_lists_slow(status: &StatusReport) -> bool {
    status.health.reason == Reason::ListSlow
}

/// The calls that it does not make any more, because the runtime goes away each time.
pub(super) fn withheld(status: &StatusReport) -> Vec<Probe> {
    let withheld = status.failing.iter().filter(|failing| failing.withheld);
    let probes = withheld.map(|failing| Probe {
        id: Some(bounded(failing.id.as_str())),
        seconds: failing.since_seconds,
        pod: failing.pod.as_ref().map(pod_name),
        container: failing.container.as_deref().map(bounded),
        ..said(failing.call, End::Failed(CallError::Withheld))
    });
    probes.collect()
}

/// The status calls that it suspects to make the runtime go away: nobody else makes them.
pub(super) fn suspects(status: &StatusReport) -> BTreeSet<(Rpc, String)> {
    let suspects = status.suspects.iter();
    suspects
        .map(|suspect| (suspect.call, bounded(suspect.id.as_str())))
        .collect()
}

/// Whether a call that the agent waited for when it was asked, so long ago, has been answered since, as
/// it says now.
pub fn was_answered(probe: &Probe, ago: Duration, now: &StatusReport) -> bool {
    if !probe.by_agent || probe.end != End::Hung {
        return false;
    }
    let mut calls = now.in_flight.iter();
    !calls.any(|call| {
        let id = call.id.as_ref().map(|id| bounded(id.as_str()));
        // One that was made again since is younger.
        let age = probe.seconds + ago.as_secs_f64() - MADE_AGAIN;
        (call.call, id) == (probe.call, probe.id.clone()) && call.age_seconds >= age
    })
}

/// Why the agent cannot reach the runtime, if it cannot.
pub fn unreachable(status: &StatusReport) -> Option<String> {
    let health = &status.health;
    let message = health.message.chars().take(MAX_SENTENCE_CHARS);
    (health.reason == Reason::RuntimeUnreachable).then(|| message.collect())
}

/// The guard in its process, if there is one.
pub(super) fn guard(status: &StatusReport) -> Option<GuardFacts> {
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

/// Uses the agent's data in place of own calls for the whole node.
pub struct Word {
    /// What is known of the calls.
    pub calls: Vec<Probe>,
    /// The runtime's.
    pub version: Option<RuntimeVersion>,
    /// What it reports about itself.
    pub said: AgentsWord,
}

/// The outcomes that follow from the agent's state: while sweeps complete, the runtime answers,
/// and both lists are always requested together.
pub fn word(status: &StatusReport) -> Word {
    let waits = |call: &Rpc| {
        let calls = status.in_flight.iter();
        let mut late = calls.filter(|other| is_late(status, other));
        late.find(|other| other.call == *call && other.id.is_none())
    };
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
    let waiting = lists.iter().filter_map(waits).count();
    let sweeps = matches!(
        status.health.state,
        HealthState::Healthy | HealthState::Degraded
    );
    let is_silent = status.health.reason == Reason::RuntimeSilent;
    // A state lasts for a while after the last answer: if both lists wait, it proves nothing.
    let is_answered = (sweeps && waiting < 2 || waiting == 1) && !is_silent;
    let failure = status.relist.last_failure.as_ref();
    let unreachable = failure.filter(|why| matches!(why, CallError::Unavailable(_)));
    let calls = [&[Rpc::Version], &lists[..]].concat();
    let calls = calls.into_iter().filter_map(|call| {
        match waits(&call) {
            Some(late) if is_older(late, MAX_DEADLINE) => {
                return Some(Probe {
                    seconds: late.age_seconds,
                    ..said(call, End::Hung)
                });
            }
            // Of one that is silent, the oldest call tells. Else it is too early.
            Some(_) if !is_silent || call != Rpc::Version => return None,
            _ => {}
        }
        match (unreachable, failure) {
            (Some(why), _) => Some(said(call, End::Failed(bounded_error(why.clone())))),
            // The agent does not report which of the lists failed.
            (None, Some(_)) if call != Rpc::Version => None,
            (None, _) if is_answered => Some(said(call, End::Answered)),
            (None, _) if is_silent && call == Rpc::Version => {
                let seconds = oldest(status);
                (seconds >= MAX_DEADLINE.as_secs_f64()).then(|| Probe {
                    seconds,
                    ..said(call, End::Hung)
                })
            }
            (None, _) => None,
        }
    });
    let runtime = &status.runtime;
    let version = (runtime.name.as_deref()).zip(runtime.version.as_deref());
    Word {
        calls: calls.collect(),
        version: version.map(|(name, version)| {
            bounded_version(RuntimeVersion {
                name: name.into(),
                version: version.into(),
                api_version: runtime.api_version.as_deref().unwrap_or_default().into(),
            })
        }),
        said: said_of_itself(status),
    }
}

fn said_of_itself(status: &StatusReport) -> AgentsWord {
    let health = &status.health;
    let failure = status.relist.last_failure.as_ref();
    let failure = failure.filter(|why| !matches!(why, CallError::Unavailable(_)));
    AgentsWord {
        state: health.state,
        reason: health.reason,
        message: health.message.chars().take(MAX_SENTENCE_CHARS).collect(),
        relist_seconds: status.relist.last_duration_seconds,
        failure: failure.map(|why| bounded_error(why.clone())),
    }
}

/// The age of the oldest call that it waits for.
fn oldest(status: &StatusReport) -> f64 {
    let ages = status.in_flight.iter().map(|call| call.age_seconds);
    ages.fold(0.0, f64::max)
}

fn said(call: Rpc, end: End) -> Probe {
    Probe {
        call,
        id: None,
        end,
        seconds: 0.0,
        by_agent: true,
        bytes: None,
        pod: None,
        container: None,
    }
}

/// The agent knows how long this runtime usually takes; a call that exceeds the doctor's own
/// deadline is late in any case.
fn is_late(status: &StatusReport, call: &InFlight) -> bool {
    overdue(status, call).is_some() || is_older(call, MAX_DEADLINE)
}

fn is_older(call: &InFlight, than: Duration) -> bool {
    call.age_seconds >= than.as_secs_f64()
}

/// What the agent reports about a call that is overdue.
fn overdue<'a>(status: &'a StatusReport, call: &InFlight) -> Option<&'a StuckCall> {
    let mut stuck = status.stuck.iter();
    stuck.find(|stuck| stuck.call == call.call && stuck.id == call.id)
}

/// The container or pod of a call: as reported for an overdue call, or else from the agent's pods.
fn named(
    status: &StatusReport,
    pods: &[PodStatus],
    call: &InFlight,
) -> (Option<PodName>, Option<String>) {
    if let Some(stuck) = overdue(status, call) {
        let container = stuck.container.as_deref().map(bounded);
        return (stuck.pod.as_ref().map(pod_name), container);
    }
    let Some(id) = &call.id else {
        return (None, None);
    };
    let known = pods.iter().find_map(|pod| {
        let container = pod.container(id).map(|container| bounded(&container.name));
        let is_sandbox = pod.sandboxes.iter().any(|sandbox| sandbox.id == *id);
        (is_sandbox || container.is_some()).then(|| (Some(pod_name(&pod.pod())), container))
    });
    known.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::probes::Outcome;

    fn status(health: &str, failure: Option<CallError>, waits: &[&str]) -> StatusReport {
        let in_flight: Vec<_> = waits
            .iter()
            .map(|call| serde_json::json!({"call": call, "id": null, "ageSeconds": 9.0}))
            .collect();
        let report = serde_json::json!({
            "health": {"state": health, "message": "m", "reason": "AllSeen",
                       "since": "2026-01-02T03:04:05Z", "thresholdSeconds": 180.0},
            "kubeletView": {"ready": true, "message": ""},
            "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0,
                       "lastFailure": failure, "sweeping": false},
            "stuck": [],
            "failing": [],
            "blind": [],
            "inFlight": in_flight,
            "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
            "kernel": {"state": "off", "watched": 0},
            "runtime": {"name": "containerd", "version": "1.7.24", "apiVersion": "v1",
                        "endpoint": "unix:///run/x.sock"},
            "pods": 3,
            "containers": {},
        });
        serde_json::from_value(report).unwrap()
    }

    fn outcomes(status: &StatusReport) -> Vec<(&'static str, Outcome)> {
        let hung = hung(status, &[]).into_iter().map(|(probe, _)| probe);
        let mut all: Vec<Probe> = hung.chain(word(status).calls).collect();
        all.sort_by_key(|probe| probe.call);
        assert!(all.iter().all(|probe| probe.by_agent));
        let all = all.into_iter();
        all.map(|probe| (probe.call.name(), probe.outcome()))
            .collect()
    }

    #[test]
    fn an_agent_that_is_well_was_answered() {
        let word = word(&status("Healthy", None, &[]));
        assert!(
            word.calls
                .iter()
                .all(|probe| probe.outcome() == Outcome::Ok)
        );
        assert_eq!(word.calls.len(), 3);
        assert_eq!(&*word.version.unwrap().name, "containerd");
    }

    #[test]
    fn a_list_that_it_waits_for_hangs_and_the_other_was_answered() {
        for health in ["Degraded", "Unhealthy"] {
            let status = status(health, None, &["ListContainers"]);
            let expected = [
                ("Version", Outcome::Ok),
                ("ListPodSandbox", Outcome::Ok),
                ("ListContainers", Outcome::Hung),
            ];
            assert_eq!(outcomes(&status), expected, "{health}");
        }
    }

    #[test]
    fn where_both_lists_wait_nothing_shows_that_the_runtime_answers() {
        let both = ["ListPodSandbox", "ListContainers"];
        let expected = both.map(|call| (call, Outcome::Hung));
        for health in ["Degraded", "Unhealthy"] {
            assert_eq!(outcomes(&status(health, None, &both)), expected, "{health}");
        }
        let mut silent = status("Degraded", None, &both);
        silent.health.reason = Reason::RuntimeSilent;
        assert_eq!(outcomes(&silent)[0], ("Version", Outcome::Hung));
        assert_eq!(outcomes(&silent)[1..], expected);
        // It has begun to ask for the version.
        let all = ["Version", "ListPodSandbox", "ListContainers"];
        let mut silent = status("Degraded", None, &all);
        silent.health.reason = Reason::RuntimeSilent;
        silent.in_flight[0].age_seconds = 1.0;
        assert_eq!(outcomes(&silent)[0], ("Version", Outcome::Hung));
        for call in &mut silent.in_flight {
            call.age_seconds = 5.9;
        }
        assert_eq!(outcomes(&silent), [], "it may be a pause");
    }

    #[test]
    fn what_failed_is_no_answer() {
        let gone = CallError::connection_refused();
        let gone = outcomes(&status("Unhealthy", Some(gone), &[]));
        assert!(gone.iter().all(|(_, outcome)| *outcome == Outcome::Refused));
        let refused = status(
            "Degraded",
            Some(CallError::Refused("Unknown: x".into())),
            &[],
        );
        assert_eq!(outcomes(&refused), [("Version", Outcome::Ok)]);
        assert!(matches!(
            word(&refused).said.failure,
            Some(CallError::Refused(_))
        ));
        assert_eq!(outcomes(&status("Starting", None, &[])), []);
    }

    #[test]
    fn what_may_be_slow_does_not_hang_although_the_agent_calls_it_overdue() {
        let mut status = status("Healthy", None, &["PodSandboxStatus", "ListContainers"]);
        for (call, age) in status.in_flight.iter_mut().zip([4.9, 5.9]) {
            call.age_seconds = age;
        }
        status.in_flight[0].id = Some("s1".into());
        assert!(hung(&status, &[]).is_empty());
        assert!(outcomes(&status).contains(&("ListContainers", Outcome::Ok)));
        let stuck = serde_json::json!([{"call": "PodSandboxStatus", "id": "s1",
                                        "sinceSeconds": 4.9, "pod": null, "container": null}]);
        status.stuck = serde_json::from_value(stuck).unwrap();
        assert!(hung(&status, &[]).is_empty(), "the agent may learn more");
        status.in_flight[0].age_seconds = 6.0;
        assert_eq!(hung(&status, &[]).len(), 1);
    }

    #[test]
    fn who_is_asked_about_is_named_by_the_pods_that_it_knows() {
        let mut status = status("Degraded", None, &["ContainerStatus"]);
        status.in_flight[0].id = Some("c1".into());
        let pods = serde_json::json!([{
            "uid": "u", "namespace": "shop", "name": "web",
            "sandboxes": [],
            "containers": [{"id": "c1", "name": "app", "state": "running", "attempt": 0,
                            "image": "i"}],
        }]);
        let pods: Vec<PodStatus> = serde_json::from_value(pods).unwrap();
        let (probe, id) = hung(&status, &pods).remove(0);
        assert_eq!(id, Some("c1".into()));
        assert_eq!(probe.container.as_deref(), Some("app"));
        let pod = probe.pod.unwrap();
        assert_eq!(
            (pod.namespace.as_deref(), pod.name.as_deref()),
            (Some("shop"), Some("web"))
        );
    }
}
