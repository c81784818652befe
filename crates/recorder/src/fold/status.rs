//! The lasting states and the findings that a status shows.

use std::time::Duration;

use causes::finding::{Culprit, PodName};
use causes::{Cause, SiteCause};
use episodes::{Episode, What};
use pleg::model::id::{Id, PodRef};
use pleg::model::wall_time::WallTime;
use pleg::out::health::{FailingCall, HealthReport, HealthState, Reason, StuckCall};
use pleg::out::status_report::{Finding, StatusReport};
use pleg::runtime::Rpc;

use crate::changes::OVERDUE_SECONDS;

/// The kind of a state, and its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A call does not return.
    Hung(Rpc, Option<Id>),
    /// An inspection fails.
    Failing(Rpc, Id),
    Health(HealthState, Reason),
    Unreachable,
    Unresponsive,
    WouldBeNotReady,
    Guarding,
    /// The runtime's event stream is down.
    Stream,
    /// The kernel does not report exits.
    Kernel,
}

impl Key {
    /// Whether the state is about a call. Only a limited number of calls is recorded.
    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::Hung(..) | Self::Failing(..))
    }

    /// Whether the state is about a call for one container or pod.
    pub(super) fn is_call_for_one(&self) -> bool {
        matches!(self, Self::Hung(_, Some(_)) | Self::Failing(..))
    }

    /// Whether a change of health reports the state.
    pub(super) fn is_health(&self) -> bool {
        matches!(
            self,
            Self::Health(..) | Self::Unreachable | Self::Unresponsive
        )
    }
}

/// The content of a status.
pub(super) struct Shown {
    /// The states that last now.
    pub(super) lasts: Vec<(Key, Episode)>,
    /// The findings of diagnoses.
    pub(super) findings: Vec<(Cause, Episode)>,
}

/// What a report shows, at the time at which it was recorded.
pub(super) fn of(report: &StatusReport, time: WallTime) -> Shown {
    let ago = |seconds| before(time, seconds);
    let health = &report.health;
    let mut lasts = calls(&report.stuck, &report.failing, time);
    // An unresponsive runtime is no evidence about a container whose status is not answered.
    let is_unresponsive = health.reason == Reason::RuntimeSilent;
    let in_flight = report.in_flight.iter();
    for call in in_flight.filter(|call| call.id.is_none() || !is_unresponsive) {
        let key = Key::Hung(call.call, call.id.clone());
        // A stuck call names its pod and container too.
        let is_known = lasts.iter().any(|(known, _)| *known == key);
        if call.age_seconds >= OVERDUE_SECONDS && !is_known {
            let reason = format!("{} did not answer", call.call);
            let episode = Episode::new(ago(call.age_seconds), None, hung(call.call), reason);
            lasts.push((key, episode.about(culprit(None, None, call.id.as_ref()))));
        }
    }
    let (state, reason) = (health.state, health.reason);
    lasts.extend(of_health(state, reason, &health.message, health.since));
    let mut add = |key, from, what, reason: &str| {
        lasts.push((key, Episode::new(from, None, what, reason)));
    };
    if !report.kubelet_view.ready {
        let message = &report.kubelet_view.message;
        add(Key::WouldBeNotReady, time, What::WouldBeNotReady, message);
    }
    if report.guard.guarding {
        let culprits = report.guard.culprits.iter().map(ToString::to_string);
        let culprits = culprits.collect::<Vec<_>>().join("; ");
        let from = report.guard.since_seconds.map_or(time, ago);
        add(Key::Guarding, from, What::Guarding, &culprits);
    }
    // During the first relist the stream is still being opened.
    if report.stream.state == "retrying" && report.relist.count > 1 {
        let reason = "the runtime's event stream is down";
        add(Key::Stream, time, What::HintsMissing, reason);
    }
    if report.kernel.state == "unavailable" {
        let why = report.kernel.why.as_deref();
        let why = why.unwrap_or("it is not known why");
        let reason = format!("the kernel does not report exits: {why}");
        add(Key::Kernel, time, What::HintsMissing, &reason);
    }
    let found = report.finding.iter().chain(&report.warnings);
    let findings = found.filter_map(finding).collect();
    Shown { lasts, findings }
}

/// The states that a change of health reports, before the next status shows them.
pub(super) fn health_change(health: &HealthReport) -> Vec<(Key, Episode)> {
    of_health(health.state, health.reason, &health.message, health.time)
}

/// The calls that a change of health names. They may be answered before the next status.
pub(super) fn named_calls(health: &HealthReport) -> Vec<(Key, Episode)> {
    calls(&health.stuck, &health.failing, health.time)
}

/// Stuck and failing calls.
fn calls(stuck: &[StuckCall], failing: &[FailingCall], time: WallTime) -> Vec<(Key, Episode)> {
    let stuck = stuck.iter().map(|call| {
        let from = before(time, call.since_seconds);
        // The duration is known only at the end of the call.
        let reason = format!("{} did not answer", call.named());
        let episode = Episode::new(from, None, hung(call.call), reason);
        let (pod, container) = (call.pod.as_ref(), call.container.as_deref());
        let culprit = culprit(pod, container, call.id.as_ref());
        let key = Key::Hung(call.call, call.id.clone());
        (key, episode.about(culprit))
    });
    let failing = failing.iter().map(|call| {
        let from = before(time, call.since_seconds);
        let episode = Episode::new(from, None, What::PodWaited, call.to_string());
        let culprit = culprit(call.pod.as_ref(), call.container.as_deref(), Some(&call.id));
        let key = Key::Failing(call.call, call.id.clone());
        (key, episode.about(culprit))
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

/// The pod, container and id that an episode is about.
pub(super) fn culprit(pod: Option<&PodRef>, container: Option<&str>, id: Option<&Id>) -> Culprit {
    Culprit {
        pod: pod.map(|pod| PodName {
            uid: Some(pod.uid.to_string()),
            namespace: Some(pod.namespace.to_string()),
            name: Some(pod.name.to_string()),
        }),
        container: container.map(str::to_owned),
        id: id.map(ToString::to_string),
        ..Culprit::default()
    }
}
