//! The outstanding calls, oldest first.

use std::sync::Arc;
use std::time::Duration;

use pleg::Config;
use pleg::model::id::{Id, PodRef};
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;

use super::pods::Pods;

/// How long a kubelet waits for a call before it gives up: the default of its `runtimeRequestTimeout`.
pub const KUBELET_TIMEOUT: Duration = pleg::out::kubelet_view::REQUEST_TIMEOUT;

/// An outstanding call.
#[derive(Clone, Debug, PartialEq)]
pub struct Outstanding {
    /// CRI's method name.
    pub call: Rpc,
    /// The id of the container or sandbox; `None` for a list or `Version`.
    pub id: Option<Id>,
    /// The container's name.
    pub container: Option<Arc<str>>,
    /// The pod, if it is known.
    pub pod: Option<PodRef>,
    /// The age of the call when the status was taken.
    pub age: Duration,
    /// Whether the call is reported as stuck.
    pub is_stuck: bool,
}

impl Outstanding {
    /// The time after which a call of this kind is overdue, by the default limits.
    pub fn overdue(&self) -> Duration {
        let config = Config::default();
        match self.id {
            Some(_) => config.status_overdue,
            None => config.list_overdue,
        }
    }
}

/// The outstanding calls of a report, oldest first, each with its pod if it is known.
pub fn outstanding(report: &StatusReport, pods: &Pods) -> Vec<Outstanding> {
    let seconds = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let stuck = report.stuck.iter().map(|stuck| Outstanding {
        call: stuck.call,
        id: stuck.id.clone(),
        container: stuck.container.clone(),
        pod: stuck.pod.clone(),
        age: seconds(stuck.since_seconds),
        is_stuck: true,
    });
    let mut calls: Vec<Outstanding> = stuck.collect();
    for call in &report.in_flight {
        let is_same = |it: &Outstanding| it.call == call.call && it.id == call.id;
        if calls.iter().any(is_same) {
            continue;
        }
        let owner = call.id.as_ref().and_then(|id| pods.owner(id));
        calls.push(Outstanding {
            call: call.call,
            id: call.id.clone(),
            container: owner.and_then(|(_, container)| container.map(Into::into)),
            pod: owner.map(|(pod, _)| pod.report.status.pod()),
            age: seconds(call.age_seconds),
            is_stuck: false,
        });
    }
    calls.sort_by_key(|call| (std::cmp::Reverse(call.age), call.call));
    calls
}
