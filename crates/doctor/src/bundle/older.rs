//! Converts a bundle of version 1 to version 2. In version 1, the reason why a call failed or a fact is
//! missing was a sentence. Only this module reads those sentences.

use pleg::out::health::{HealthState, Reason};
use pleg::runtime::{CallError, NoConnection};
use pleg_text::GoDuration;
use serde_json::{Value, json};

use crate::facts::Missing;

/// The bundle in the current version; any other value is returned unchanged.
pub(super) fn converted(mut bundle: Value) -> Value {
    if let Some(facts) = bundle.get_mut("facts") {
        missing_facts(facts);
        if let Some(probes) = facts.get_mut("probes") {
            calls(probes);
            add_reason_of_agent(probes);
        }
    }
    bundle
}

/// Converts the reason in every `{"state": "missing", "why": "a sentence"}`, at any depth.
fn missing_facts(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(missing_facts),
        Value::Object(fields) => {
            if fields.get("state").is_some_and(|state| state == "missing")
                && let Some(why) = fields.get_mut("why")
                && let Some(sentence) = why.as_str()
            {
                *why = json!(missing(sentence));
            }
            fields.values_mut().for_each(missing_facts);
        }
        _ => {}
    }
}

fn missing(sentence: &str) -> Missing {
    let after = |start: &str| {
        let rest = sentence.strip_prefix(start)?;
        rest.split(' ').next()?.parse::<GoDuration>().ok()
    };
    let overdue =
        || after("it did not return within ").or_else(|| after("it did not answer within "));
    let lowercase = sentence.to_ascii_lowercase();
    if sentence == "it was not asked for" {
        Missing::NotAsked
    } else if let Some(limit) = after("the kernel did not return within ") {
        Missing::Blocked(limit)
    } else if let Some(limit) = overdue() {
        Missing::Overdue(limit)
    } else if lowercase.contains("permission denied") {
        Missing::Forbidden(sentence.to_owned())
    } else if lowercase.contains("no such file") {
        Missing::NotThere(sentence.to_owned())
    } else {
        Missing::Other(sentence.to_owned())
    }
}

fn calls(probes: &mut Value) {
    let calls = probes.get_mut("calls").and_then(Value::as_array_mut);
    let mut failed: Vec<(Value, usize)> = Vec::new();
    for call in calls.into_iter().flatten() {
        let text = |field: &str| call.get(field).and_then(Value::as_str).unwrap_or_default();
        let (outcome, message) = (text("outcome"), text("message"));
        let end = match outcome {
            "ok" => json!({"is": "answered"}),
            "hung" => json!({"is": "hung"}),
            _ => {
                if call.get("id").is_some_and(Value::is_string) {
                    match failed.iter_mut().find(|(kind, _)| *kind == call["call"]) {
                        Some((_, count)) => *count += 1,
                        None => failed.push((call["call"].clone(), 1)),
                    }
                }
                json!({"is": "failed", "error": call_error(message, outcome == "refused")})
            }
        };
        call["end"] = end;
    }
    // The costs count only the answered calls.
    let answered = |kind: &Value| {
        let costs = probes.get("costs").and_then(Value::as_array);
        let mut costs = costs.into_iter().flatten();
        let count = costs.find(|cost| cost["call"] == *kind)?["count"].as_u64()?;
        usize::try_from(count).ok()
    };
    let failures = failed.into_iter().map(|(kind, count)| {
        let made = count + answered(&kind).unwrap_or(0);
        json!({"call": kind, "failed": count, "made": made})
    });
    let failures: Vec<Value> = failures.collect();
    if probes.is_object() {
        probes["failures"] = json!(failures);
    }
}

/// The error that a sentence describes. The sentence begins with pleg's own words, followed by the message
/// of the system or of the runtime. In version 1, `refused` meant that there was no connection.
fn call_error(sentence: &str, is_unreachable: bool) -> CallError {
    if is_unreachable {
        let front = "the runtime cannot be reached: ";
        let why = sentence.strip_prefix(front).unwrap_or(sentence);
        let lowercase = why.to_ascii_lowercase();
        let causes = [
            ("no such file", NoConnection::NoSocket),
            ("connection refused", NoConnection::Refused),
            ("permission denied", NoConnection::Forbidden),
            ("temporarily unavailable", NoConnection::QueueFull),
        ];
        let cause = causes.iter().find(|(words, _)| lowercase.contains(words));
        return CallError::unavailable(cause.map_or(NoConnection::Other, |(_, cause)| *cause), why);
    }
    let after = |front: &str| sentence.strip_prefix(front).map(Into::into);
    if let Some(rest) = after("the answer is larger than the receive limit: ") {
        CallError::TooLarge(rest)
    } else if let Some(rest) = after("the answer makes no sense: ") {
        CallError::Malformed(rest)
    } else if let Some(rest) = after("not implemented by the runtime: ") {
        CallError::Unimplemented(rest)
    } else if let Some(rest) = after("not found: ") {
        CallError::NotFound(rest)
    } else {
        let rest = after("the runtime answered ");
        CallError::Refused(rest.unwrap_or_else(|| sentence.into()))
    }
}

/// Adds the reason of the agent's health, which version 1 did not contain. It follows from the failure that
/// the agent reported and from the calls that were outstanding.
fn add_reason_of_agent(probes: &mut Value) {
    let hangs = |is_list: bool| {
        let mut calls = probes["calls"].as_array().into_iter().flatten();
        calls.any(|call| {
            let by_agent = call["byAgent"] == true && call["end"]["is"] == "hung";
            by_agent && call["id"].is_null() == is_list
        })
    };
    let (list_hangs, status_hangs) = (hangs(true), hangs(false));
    let Some(agent) = probes.get_mut("agent").filter(|agent| agent.is_object()) else {
        return;
    };
    let health = agent["health"].as_str().unwrap_or_default();
    let state = HealthState::ALL
        .into_iter()
        .find(|state| state.as_str() == health)
        .unwrap_or(HealthState::Starting);
    let failure = agent["failure"]
        .as_str()
        .map(|sentence| call_error(sentence, false));
    let reason = match (state, &failure) {
        (HealthState::Healthy, _) => Reason::AllSeen,
        (HealthState::Starting, _) => Reason::Starting,
        (_, Some(CallError::TooLarge(_))) => Reason::ListTooLarge,
        (_, Some(_)) => Reason::ListFails,
        (_, None) if list_hangs => Reason::ListStuck,
        (_, None) if status_hangs => Reason::ContainerStuck,
        (HealthState::Degraded, None) => Reason::InspectionsFail,
        (HealthState::Unhealthy, None) => Reason::RuntimeUnreachable,
    };
    agent["state"] = json!(state);
    agent["reason"] = json!(reason);
    agent["failure"] = json!(failure);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::facts::NodeFacts;
    use crate::facts::probes::{End, Failures, Outcome};

    fn read(facts: Value) -> NodeFacts {
        let bundle = json!({"kind": "pleg-bundle", "version": 1, "facts": facts});
        super::super::read_from(bundle.to_string().as_bytes()).expect("facts")
    }

    fn call(method: &str, id: Option<&str>, outcome: &str, message: Option<&str>) -> Value {
        json!({"call": method, "id": id, "outcome": outcome, "seconds": 0.5, "message": message})
    }

    #[test]
    fn the_errors_of_calls_are_read_from_their_sentences() {
        let large = "the answer is larger than the receive limit: 17 vs. 16";
        let unreachable = "the runtime cannot be reached: connection refused";
        let facts = read(json!({
            "taken": "2026-01-02T03:04:05Z",
            "host": {},
            "probes": {
                "calls": [
                    call("Version", None, "refused", Some(unreachable)),
                    call("ListContainers", None, "error", Some(large)),
                    call("ContainerStatus", Some("c1"), "hung", None),
                    call("ContainerStatus", Some("c2"), "error", Some("the runtime answered no")),
                    call("ContainerStatus", Some("c3"), "ok", None),
                ],
                "costs": [{"call": "ContainerStatus", "count": 4, "max": 0.5}],
            },
        }));
        let ends: Vec<_> = facts.probes.calls.iter().map(|probe| &probe.end).collect();
        let expected = [
            &End::Failed(CallError::connection_refused()),
            &End::Failed(CallError::TooLarge("17 vs. 16".into())),
            &End::Hung,
            &End::Failed(CallError::Refused("no".into())),
            &End::Answered,
        ];
        assert_eq!(ends, expected);
        assert_eq!(
            facts.probes.outcome(pleg::runtime::Rpc::Version),
            Some(Outcome::Refused)
        );
        let failures = Failures {
            call: pleg::runtime::Rpc::ContainerStatus,
            failed: 1,
            made: 5,
        };
        assert_eq!(facts.probes.failures, [failures]);
    }

    #[test]
    fn the_health_of_an_agent_gets_a_reason() {
        let reason = |agent: Value, calls: Value| {
            let facts = read(json!({
                "taken": "2026-01-02T03:04:05Z",
                "host": {},
                "probes": {"calls": calls, "agent": agent},
            }));
            let agent = facts.probes.agent.expect("an agent");
            (agent.state, agent.reason, agent.failure.is_some())
        };
        let well = json!({"health": "Healthy", "message": "every pod is seen"});
        let expected = (HealthState::Healthy, Reason::AllSeen, false);
        assert_eq!(reason(well, json!([])), expected);
        let degraded = json!({"health": "Degraded", "message": "m"});
        let mut list = call("ListContainers", None, "hung", None);
        list["byAgent"] = json!(true);
        let expected = (HealthState::Degraded, Reason::ListStuck, false);
        assert_eq!(reason(degraded, json!([list])), expected);
        let failing = json!({"health": "Degraded", "message": "m", "failure": "no"});
        let expected = (HealthState::Degraded, Reason::ListFails, true);
        assert_eq!(reason(failing, json!([])), expected);
    }

    #[test]
    fn why_a_fact_is_missing_is_read_at_any_depth() {
        let missing_fact = |why: &str| json!({"state": "missing", "why": why, "source": "/x"});
        let facts = read(json!({
            "taken": "2026-01-02T03:04:05Z",
            "probes": {},
            "host": {
                "memory": missing_fact("Permission denied (os error 13)"),
                "cpu": missing_fact("it did not return within 5s"),
                "filesystems": [missing_fact("the kernel did not return within 1s")],
                "cgroups": {"pids": missing_fact("there is no hierarchy")},
            },
        }));
        let host = facts.host;
        assert!(matches!(host.memory.why(), Some(Missing::Forbidden(_))));
        let second = Duration::from_secs(1);
        assert_eq!(host.cpu.why(), Some(&Missing::overdue(second * 5)));
        assert_eq!(host.filesystems[0].why(), Some(&Missing::blocked(second)));
        assert!(matches!(host.cgroups.pids.why(), Some(Missing::Other(_))));
    }
}
