//! Adds to the reports of pods what is known about static pods.

use std::collections::BTreeMap;

use ::static_pods::decide::{Report, Why};
use ::static_pods::pods::Pods;
use pleg::model::id::PodUid;
use pleg::model::status::PodStatus;
use pleg::out::pods::{PodReport, StaticContainerReport, StaticPodReport, Waiting};
use tokio::time::Instant;

/// Returns the reports with what is known about static pods, including those that the runtime does not
/// have (yet, or any more).
pub(super) fn with_static_pods(mut reports: Vec<PodReport>, pods: &Pods) -> Vec<PodReport> {
    let now = Instant::now();
    let mut missing: BTreeMap<PodUid, _> = pods.reports.clone();
    for report in &mut reports {
        let its = missing.remove(&report.status.uid);
        report.static_pod = its.map(|its| shown(&its, now));
    }
    for (uid, its) in missing {
        let wanted = pods.wanted.get(&uid).map(|spec| &spec.pod);
        let Some(pod) = wanted.or(pods.ending.get(&uid).map(|ending| &ending.pod)) else {
            continue;
        };
        reports.push(PodReport {
            status: PodStatus {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                ..PodStatus::unknown(uid)
            },
            as_of: None,
            error: None,
            static_pod: Some(shown(&its, now)),
        });
    }
    reports
}

fn shown(report: &Report, now: Instant) -> StaticPodReport {
    let waiting = |why: &Option<Why>| why.as_ref().map(|why| waiting(why, now));
    let containers = report.containers.iter().map(|it| StaticContainerReport {
        name: it.name.to_string(),
        ready: it.is_ready,
        restarts: it.restarts,
        waiting: waiting(&it.waits),
    });
    StaticPodReport {
        phase: report.phase.as_str().to_owned(),
        ready: report.is_ready,
        waiting: waiting(&report.waits),
        containers: containers.collect(),
    }
}

fn waiting(why: &Why, now: Instant) -> Waiting {
    let left = why
        .until()
        .map(|until| until.saturating_duration_since(now));
    Waiting {
        reason: why.name().to_owned(),
        message: why.to_string(),
        seconds: left.map(|left| left.as_secs_f64()),
    }
}
