//! The output of `pleg status`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use pleg::model::listed::ContainerState;
use pleg::out::health::{Blind, FailingCall, short};
use pleg::out::status_report::{GuardMode, GuardStatus, InFlight, KernelStatus, StatusReport};
use pleg::out::words::counted;
use pleg::runtime::Rpc;
use pleg_text::GoDuration;

use super::{
    BAD, BOLD, DIM, GOOD, LIMIT_REACHED, NOT_ANSWERED_YET, NOT_CONFIRMED, NOTHING_TO_ANSWER_FROM,
    UNRESPONSIVE, WARN, health_style, printable, sentence, styled,
};

/// The width of the labels, by which continuation lines are indented.
pub const INDENT: usize = 12;

/// A line for each part of the report.
pub fn page(status: &StatusReport) -> String {
    let mut page = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{} {value}", styled(BOLD, format_args!("{name:<11}")));
    };
    let health = &status.health;
    let state = styled(health_style(health.state), health.state);
    line("Health", format!("{state}: {}", sentence(&health.message)));
    if let Some(found) = &status.finding {
        let found = format!("{} ({}): {}", found.cause, found.confidence, found.sentence);
        line("Found", styled(WARN, sentence(&found)));
    }
    line("Seen", seen(status));
    let view = &status.kubelet_view;
    line("Kubelet", kubelet(view.ready, &view.message));
    line("Runtime", runtime(status));
    line("Relist", relist(status));
    line("Stream", stream(status));
    line("Kernel", kernel_hints(&status.kernel));
    if let Some(guard) = guard(&status.guard) {
        line("Guard", guard);
    }
    line("Pods", pods(status));
    for stuck in &status.stuck {
        let what = sentence(&stuck.to_string()).into_owned();
        line("Stuck", styled(BAD, what));
    }
    for failing in &status.failing {
        line("Failing", styled(BAD, sentence(&failing_call(failing))));
    }
    if !status.blind.is_empty() {
        line("Unseen", styled(BAD, unseen(&status.blind)));
    }
    if let Some(calls) = outstanding(&status.in_flight) {
        line("Outstanding", styled(DIM, calls));
    }
    page
}

/// A sentence about the kubelet's Ready condition: Ready, NotReady, or when it will be NotReady.
pub fn kubelet(is_ready: bool, message: &str) -> String {
    let message = sentence(message);
    let (ready, not_ready) = (styled(GOOD, "Ready"), styled(BAD, "NotReady"));
    if !is_ready {
        return format!("would be {not_ready}: {message}");
    }
    match (
        message.strip_prefix("NotReady "),
        message.strip_prefix("ready, "),
    ) {
        (Some(when), _) => format!("would be {not_ready} {when}"),
        (None, Some(but)) => format!("would be {ready}, {but}"),
        (None, None) => format!("would be {ready}: {message}"),
    }
}

fn seen(status: &StatusReport) -> String {
    let threshold = configured(status.health.threshold_seconds);
    match status.health.age_seconds {
        Some(age) => format!("{} ago (threshold {threshold})", duration(age)),
        None => format!("never yet (threshold {threshold})"),
    }
}

/// The state of the guard, if there is one.
fn guard(guard: &GuardStatus) -> Option<String> {
    if guard.unresponsive {
        return Some(styled(BAD, UNRESPONSIVE));
    }
    if let Some(idle) = guard.idle_seconds.filter(|_| guard.is_bypassed()) {
        let idle = duration(idle);
        let bypassed = format!("the kubelet does not use it: no list call for {idle}");
        return Some(styled(BAD, bypassed));
    }
    let mode = match (guard.mode, guard.since_seconds) {
        (GuardMode::Off, _) => return None,
        (GuardMode::Pass, _) => "pass: all calls pass through".to_owned(),
        (GuardMode::Shadow, _) => {
            return Some(format!(
                "shadow: all calls pass through; {} lists compared, {} entries would differ",
                guard.compared, guard.differences
            ));
        }
        (GuardMode::Guard, None) if guard.limit_reached => styled(BAD, LIMIT_REACHED),
        (GuardMode::Guard, None) if guard.runtime_silent => styled(BAD, NOTHING_TO_ANSWER_FROM),
        (GuardMode::Guard, None) if guard.refusing => styled(BAD, NOT_CONFIRMED),
        (GuardMode::Guard, None) if guard.waiting => styled(WARN, NOT_ANSWERED_YET),
        (GuardMode::Guard, None) => "guard: all list calls pass through".to_owned(),
        (GuardMode::Guard, Some(since)) => {
            let since = duration(since);
            let answering = format!("answers in place of the runtime, for {since}");
            styled(BAD, answering)
        }
    };
    let total = |counts: &BTreeMap<Rpc, u64>| counts.values().sum::<u64>();
    Some(format!(
        "{mode}; {} calls answered, {} changes confirmed, {} refused",
        total(&guard.answers),
        total(&guard.completed),
        total(&guard.refused)
    ))
}

fn runtime(status: &StatusReport) -> String {
    let runtime = &status.runtime;
    let endpoint = &runtime.endpoint;
    match (&runtime.name, &runtime.version, &runtime.api_version) {
        (Some(name), Some(version), Some(api)) => {
            let runtime = format!("{name} {version}, CRI {api}");
            format!("{} at {endpoint}", printable(&runtime))
        }
        _ => format!("unidentified runtime at {endpoint}"),
    }
}

fn relist(status: &StatusReport) -> String {
    let relist = &status.relist;
    let period = configured(relist.period_seconds);
    let (mode, count) = (&relist.mode, relist.count);
    let how = format!("{mode}, every {period}");
    match (relist.last_duration_seconds, relist.last_kind) {
        (Some(took), Some(kind)) => {
            let (took, kind) = (duration(took), kind.as_str());
            format!("{how}; the last of {count} took {took} (by {kind})")
        }
        _ => how,
    }
}

fn stream(status: &StatusReport) -> String {
    let stream = &status.stream;
    match stream.state.as_str() {
        "live" | "retrying" => format!(
            "{}; {}, {} missed, reopened {}",
            stream.state,
            counted(stream.events as usize, "event"),
            counted(stream.missed as usize, "change"),
            counted(stream.reconnects as usize, "time")
        ),
        state => state.to_owned(),
    }
}

fn kernel_hints(kernel: &KernelStatus) -> String {
    let watched = match kernel.state.as_str() {
        "live" => format!("live; {} watched", counted(kernel.watched, "process")),
        state => state.to_owned(),
    };
    let watched = match &kernel.why {
        Some(why) => format!("{watched}; {}", sentence(why)),
        None => watched,
    };
    let births = match (&kernel.births.why, kernel.births.watched) {
        (_, true) => "watched".to_owned(),
        (Some(why), false) => format!("not watched: {}", sentence(why)),
        (None, false) => return watched,
    };
    format!("{watched}; births: {births}")
}

fn pods(status: &StatusReport) -> String {
    let states = ContainerState::ALL.iter().map(|state| state.as_str());
    let counts = states.filter_map(|state| Some((status.containers.get(state)?, state)));
    let counts = counts.filter(|(count, _)| **count > 0);
    let counts: Vec<String> = counts
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    match counts.is_empty() {
        true => format!("{}, no containers", status.pods),
        false => format!("{}, containers: {}", status.pods, counts.join(", ")),
    }
}

fn failing_call(failing: &FailingCall) -> String {
    let what = match (&failing.container, &failing.pod) {
        (Some(container), Some(pod)) => format!(" of {container} in {pod}"),
        (None, Some(pod)) => format!(" of {pod}"),
        _ => String::new(),
    };
    let (call, id, error) = (failing.call, short(&failing.id), &failing.error);
    let since = duration(failing.since_seconds);
    format!("{call}{what} ({id}) has failed for {since}: {error}")
}

fn unseen(blind: &[Blind]) -> String {
    let names = blind.iter().map(|blind| match blind {
        Blind::NewPods => "new pods",
        Blind::NewContainers => "new containers",
    });
    names.collect::<Vec<_>>().join(", ")
}

/// All outstanding calls, including those that are stuck.
fn outstanding(calls: &[InFlight]) -> Option<String> {
    let oldest = calls
        .iter()
        .max_by(|a, b| a.age_seconds.total_cmp(&b.age_seconds))?;
    let (call, age) = (oldest.call, duration(oldest.age_seconds));
    Some(match calls.len() {
        1 => format!("1 call: {call} for {age}"),
        count => format!("{count} calls, the oldest {call} for {age}"),
    })
}

/// A duration in full, as it was configured.
fn configured(seconds: f64) -> GoDuration {
    GoDuration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// A duration in Go's form, cut to whole seconds, milliseconds or microseconds.
pub(super) fn duration(seconds: f64) -> GoDuration {
    let GoDuration(exact) = configured(seconds);
    GoDuration(match exact.as_millis() {
        0 => Duration::from_micros(exact.subsec_micros().into()),
        1..1000 => Duration::from_millis(exact.subsec_millis().into()),
        _ => Duration::from_secs(exact.as_secs()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kubelet_is_ready_or_not_ready_and_never_both() {
        let shown = |is_ready, message: &str| {
            let shown = kubelet(is_ready, message);
            anstream::adapter::strip_str(&shown).to_string()
        };
        for (is_ready, message, expected) in [
            (
                true,
                "the guard answers its lists",
                "would be Ready: the guard answers its lists",
            ),
            (
                true,
                "ready, but one pod is slow",
                "would be Ready, but one pod is slow",
            ),
            (
                true,
                "NotReady in 2m51s if nothing changes: lists hang",
                "would be NotReady in 2m51s if nothing changes: lists hang",
            ),
            (
                false,
                "PLEG is not healthy",
                "would be NotReady: PLEG is not healthy",
            ),
        ] {
            assert_eq!(shown(is_ready, message), expected);
        }
    }

    #[test]
    fn the_kernel_line_says_whether_births_are_watched_and_why_not() {
        let shown = |births: serde_json::Value| {
            let status = json!({"state": "live", "watched": 6, "births": births});
            kernel_hints(&serde_json::from_value(status).unwrap())
        };
        assert_eq!(
            shown(json!({"watched": true})),
            "live; 6 processes watched; births: watched"
        );
        let missing = json!({"watched": false, "why": "/run/x\u{1b} does not exist"});
        assert_eq!(
            shown(missing),
            "live; 6 processes watched; births: not watched: /run/x\\u{1b} does not exist"
        );
        // An older agent does not report whether births are watched.
        assert_eq!(
            shown(json!({"watched": false})),
            "live; 6 processes watched"
        );
    }

    #[test]
    fn failing_calls_unseen_parts_and_outstanding_calls_have_lines() {
        let failing = json!([{
            "call": "ContainerStatus", "id": "0123456789abcdef", "container": "app",
            "pod": {"uid": "u", "namespace": "shop", "name": "web\n"},
            "error": "no\u{1b}", "sinceSeconds": 61.5,
        }]);
        let report = json!({
            "health": {"state": "Degraded", "message": "m", "reason": "InspectionsFail",
                       "since": "2026-01-02T03:04:05Z", "thresholdSeconds": 180.0},
            "kubeletView": {"ready": true, "message": "fine"},
            "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0, "sweeping": true},
            "stuck": [], "failing": failing, "blind": ["newPods", "newContainers"],
            "inFlight": [{"call": "ListContainers", "ageSeconds": 0.25},
                         {"call": "ContainerStatus", "id": "a", "ageSeconds": 4.125}],
            "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
            "kernel": {"state": "off", "watched": 0},
            "runtime": {"endpoint": "unix:///run/x.sock"},
            "pods": 3, "containers": {},
        });
        let page = page(&serde_json::from_value(report).unwrap());
        let page = anstream::adapter::strip_str(&page).to_string();
        for line in [
            "Failing     ContainerStatus of app in shop/web\\n (0123456789abc) has failed for \
             1m1s: no\\u{1b}",
            "Unseen      new pods, new containers",
            "Outstanding 2 calls, the oldest ContainerStatus for 4s",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{page}");
        }
    }
}
