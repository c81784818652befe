//! The lasting states and the findings that a status shows.

use std::time::Duration;

use causes::finding::Culprit;
use causes::{Cause, SiteCause};
use episodes::{Episode, What};
use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::WallTime;
use pleg::out::health::{FailingCall, HealthReport, HealthState, Reason, StuckCall};
use pleg::out::status_report::{Finding, StatusReport};
use pleg::runtime::Rpc;

use super::event::pod_name;
use super::open_episodes::Key;
use crate::changes::OVERDUE_SECONDS;

/// The content of a status.
pub(super) struct Shown {
    /// What lasts now.
    pub(super) lasts: Vec<(Key, Episode)>,
    /// The findings of diagnoses.
    pub(super) findings: Vec<(Cause, Episode)>,
}

/// Reads a report.
pub(super) fn of(report: &StatusReport, time: WallTime) -> Shown {
    let ago = |seconds| before(time, seconds);
    let open = |from: WallTime, what, reason: &str| Episode::new(from, None, what, reason);
    let mut lasts = calls(&report.stuck, &report.failing, time);
    let overdue = report.in_flight.iter();
    // An unresponsive runtime is no evidence about a container whose status is not answered.
    let is_unresponsive = report.health.reason == Reason::RuntimeSilent;
    let overdue = overdue.filter(|call| call.id.is_none() || !is_unresponsive);
    for call in overdue.filter(|call| call.age_seconds >= OVERDUE_SECONDS) {
        let key = Key::Hung(call.call, call.id.clone());
        // A stuck call has a more precise key.
        if lasts.iter().all(|(known, _)| *known != key) {
            let reason = format!("{} did not answer", call.call);
            let episode = open(ago(call.age_seconds), hung(call.call), &reason);
            lasts.push((key, episode.about(culprit(None, None, call.id.as_ref()))));
        }
    }
    let health = &report.health;
    lasts.extend(of_health(
        health.state,
        health.reason,
        &health.message,
        health.since,
    ));
    if !report.kubelet_view.ready {
        let message = &report.kubelet_view.message;
        lasts.push((
            Key::WouldBeNotReady,
            open(time, What::WouldBeNotReady, message),
        ));
    }
    if report.guard.guarding {
        let culprits: Vec<_> = report
            .guard
            .culprits
            .iter()
            .map(ToString::to_string)
            .collect();
        let from = report.guard.since_seconds.map_or(time, ago);
        lasts.push((
            Key::Guarding,
            open(from, What::Guarding, &culprits.join("; ")),
        ));
    }
    // During the first relist the stream is still being opened.
    if report.stream.state == "retrying" && report.relist.count > 1 {
        let reason = "the runtime's event stream is down";
        lasts.push((Key::Stream, open(time, What::HintsMissing, reason)));
    }
    if report.kernel.state == "unavailable" {
        let why = report
            .kernel
            .why
            .as_deref()
            .unwrap_or("it is not known why");
        let reason = format!("the kernel does not report exits: {why}");
        lasts.push((Key::Kernel, open(time, What::HintsMissing, &reason)));
    }
    let found = report.finding.iter().chain(&report.warnings);
    let findings = found.filter_map(finding).collect();
    Shown { lasts, findings }
}

/// The state of health that a change of health reports, earlier than the next status.
pub(super) fn health_change(health: &HealthReport) -> Vec<(Key, Episode)> {
    of_health(health.state, health.reason, &health.message, health.time)
}

/// The calls that a change of health names. They may have been answered before the next status.
pub(super) fn named(health: &HealthReport) -> Vec<(Key, Episode)> {
    calls(&health.stuck, &health.failing, health.time)
}

/// Stuck and failing calls.
fn calls(stuck: &[StuckCall], failing: &[FailingCall], time: WallTime) -> Vec<(Key, Episode)> {
    let stuck = stuck.iter().map(|call| {
        let from = before(time, call.since_seconds);
        // The duration is known at its end.
        let reason = format!("{} did not answer", call.named());
        let episode = Episode::new(from, None, hung(call.call), reason);
        let culprit = culprit(
            call.pod.as_ref(),
            call.container.as_deref(),
            call.id.as_ref(),
        );
        (
            Key::Hung(call.call, call.id.clone()),
            episode.about(culprit),
        )
    });
    let failing = failing.iter().map(|call| {
        let from = before(time, call.since_seconds);
        let episode = Episode::new(from, None, What::PodWaited, call.to_string());
        let culprit = culprit(call.pod.as_ref(), call.container.as_deref(), Some(&call.id));
        (
            Key::Failing(call.call, call.id.clone()),
            episode.about(culprit),
        )
    });
    stuck.chain(failing).collect()
}

fn before(time: WallTime, seconds: f64) -> WallTime {
    time.before(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn of_health(
    state: HealthState,
    reason: Reason,
    message: &str,
    since: WallTime,
) -> Vec<(Key, Episode)> {
    let mut lasts = Vec::new();
    if matches!(state, HealthState::Degraded | HealthState::Unhealthy) {
        let what = What::Health {
            state: state.as_str().to_owned(),
        };
        let episode = Episode::new(since, None, what, format!("{reason}: {message}"));
        lasts.push((Key::Health(state, reason), episode));
    }
    let of_runtime = match reason {
        Reason::RuntimeUnreachable => Some((Key::Unreachable, What::RuntimeUnreachable)),
        Reason::RuntimeSilent => Some((Key::Unresponsive, What::RuntimeSilent)),
        _ => None,
    };
    if let Some((key, what)) = of_runtime {
        lasts.push((key, Episode::new(since, None, what, message)));
    }
    lasts
}

fn finding(finding: &Finding) -> Option<(Cause, Episode)> {
    let cause = SiteCause::reported(&finding.cause)?;
    let what = What::Finding {
        cause,
        confidence: finding.confidence.clone(),
    };
    Some((cause, Episode::at(finding.time, what, &*finding.sentence)))
}

fn hung(call: Rpc) -> What {
    What::HungCall {
        call: call.name().to_owned(),
    }
}

fn culprit(pod: Option<&PodRef>, container: Option<&str>, id: Option<&Id>) -> Culprit {
    Culprit {
        pod: pod.map(pod_name),
        container: container.map(str::to_owned),
        id: id.map(ToString::to_string),
        ..Culprit::default()
    }
}
