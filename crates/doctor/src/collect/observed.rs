//! What an engine has observed so far, and whether that is enough to diagnose the node.
//!
//! An overdue call may only be slow. It *hangs* if it is outstanding for `HANGS_AFTER` and the engine
//! reports it as stuck, because calls that were sent later have been answered.

use std::time::Duration;

use pleg::engine::SUSPECT_AFTER;
use pleg::out::call_costs::CallCost;
use pleg::out::coverage::PassKind;
use pleg::out::health::{HealthState, Reason};
use pleg::out::pods::PodReport;
use pleg::out::status_report::{InFlight, StatusReport, SuspectCall};
use pleg::runtime::{CALLS, CallError, Rpc, Unreachable};
use tokio::time::Instant;

use crate::limits::{BOTH_LISTS_HANG_AFTER, CRIO_STATUS_HANGS_AFTER, HANGS_AFTER};

const LISTS: [Rpc; 2] = [Rpc::ListPodSandbox, Rpc::ListContainers];

/// An engine's report.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What the engine reports about the runtime.
    pub status: StatusReport,
    /// The pods that the engine knows.
    pub pods: Vec<PodReport>,
}

impl Observed {
    /// The outstanding calls, without the event stream, which never ends and so is never overdue.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = &InFlight> {
        let calls = self.status.in_flight.iter();
        calls.filter(|call| CALLS.contains(&call.call))
    }

    /// The outstanding call of this kind for the whole node.
    pub(super) fn node_call(&self, call: Rpc) -> Option<&InFlight> {
        let mut calls = self.outstanding();
        calls.find(|other| other.call == call && other.id.is_none())
    }

    /// What the calls of this kind cost, if any has ended.
    pub(super) fn cost(&self, call: Rpc) -> Option<&CallCost> {
        self.status.costs.iter().find(|cost| cost.call == call)
    }

    /// Whether a call hangs.
    pub(super) fn hangs(&self, call: &InFlight) -> bool {
        let is_stuck = self.is_stuck(call);
        if call.id.is_some() {
            let limit = match self.is_crio() {
                true => CRIO_STATUS_HANGS_AFTER,
                false => HANGS_AFTER,
            };
            return is_stuck && is_older(call, limit);
        }
        if !call.call.is_list() {
            return is_older(call, HANGS_AFTER) && (is_stuck || call.call == Rpc::Version);
        }
        let mut others = LISTS.iter().filter(|list| **list != call.call);
        let other = others.find_map(|list| self.node_call(*list));
        let limit = match other.is_some_and(|other| self.is_stuck(other)) {
            true => BOTH_LISTS_HANG_AFTER,
            false => HANGS_AFTER,
        };
        is_stuck && is_older(call, limit.max(2 * self.lists_took()))
    }

    /// How long the slower one of the two newest lists took.
    fn lists_took(&self) -> Duration {
        let costs = self.status.costs.iter();
        let lists = costs.filter(|cost| cost.call.is_list());
        let slowest = lists.map(|cost| cost.last).fold(0.0, f64::max);
        Duration::try_from_secs_f64(slowest).unwrap_or_default()
    }

    fn is_crio(&self) -> bool {
        self.status.runtime.name.as_deref() == Some("cri-o")
    }

    fn is_stuck(&self, call: &InFlight) -> bool {
        let mut stuck = self.status.stuck.iter();
        stuck.any(|stuck| stuck.call == call.call && stuck.id == call.id)
    }

    /// Why there is no connection to the runtime, if there is none.
    pub(super) fn unreachable(&self) -> Option<&Unreachable> {
        match self.status.relist.last_failure.as_ref()? {
            CallError::Unavailable(why) => Some(why),
            _ => None,
        }
    }

    /// Whether the connection was lost while calls were outstanding, and these calls have not been repeated
    /// since.
    pub(super) fn has_lost_connection(&self) -> bool {
        let mut costs = self.status.costs.iter();
        let is_lost = |error: &CallError| matches!(error, CallError::Unavailable(_));
        !self.status.suspects.is_empty()
            || costs.any(|cost| cost.error.as_ref().is_some_and(is_lost))
    }

    /// Whether a call hangs or fails, or a pod is not observed.
    pub(super) fn has_trouble(&self) -> bool {
        self.status.health.state != HealthState::Healthy
    }

    /// Whether all pods were observed after `time`.
    pub(super) fn is_newer_than(&self, time: Instant) -> bool {
        let age = self.status.health.age_seconds;
        age.is_some_and(|age| age <= time.elapsed().as_secs_f64())
    }

    /// Whether the runtime answers no call at all.
    pub(super) fn is_unresponsive(&self) -> bool {
        self.status.health.reason == Reason::RuntimeSilent
    }

    /// How many pods were not observed in time, including those with a call that may be slow or hang.
    pub(super) fn not_observed_in_time(&self) -> usize {
        let calls = self.outstanding().filter(|call| call.id.is_some());
        self.unobserved() + calls.filter(|call| self.is_undecided(call)).count()
    }

    /// Whether a call is overdue and may be slow or hang.
    fn is_undecided(&self, call: &InFlight) -> bool {
        is_older(call, SUSPECT_AFTER) && !self.hangs(call)
    }

    /// How many pods were neither observed nor reported with a call that hangs or fails.
    pub(super) fn unobserved(&self) -> usize {
        let known = self.pods.iter();
        let observed = known.filter(|pod| pod.as_of.is_some() || pod.error.is_some());
        let all = self.status.pods.max(self.pods.len());
        all - observed.count()
    }

    /// Whether waiting longer would add nothing that matters: every pod was observed, or is reported with a
    /// call that hangs or fails, and no other call is overdue. If a list is not answered, a sweep must have
    /// requested all known pods, if any is known. An unresponsive runtime may answer again, so its
    /// observation is never complete.
    pub(super) fn is_complete(&self) -> bool {
        let is_without_a_list = LISTS.iter().any(|list| !self.is_answered(*list));
        let has_swept = self.status.relist.last_kind == Some(PassKind::Sweep);
        let knows_a_pod = self.status.pods.max(self.pods.len()) > 0;
        self.unreachable().is_none()
            && !self.is_unresponsive()
            && self.status.relist.progress.is_none()
            && LISTS.iter().all(|list| self.is_decided(*list))
            && (!is_without_a_list || has_swept || !knows_a_pod)
            && self.unobserved() == 0
            && self.status.suspects.iter().all(|it| self.is_withheld(it))
            && !self.outstanding().any(|call| self.is_undecided(call))
    }

    /// Whether the engine has decided that the connection is lost each time this call is made.
    fn is_withheld(&self, suspect: &SuspectCall) -> bool {
        let mut failing = self.status.failing.iter();
        failing.any(|it| it.withheld && it.call == suspect.call && it.id == suspect.id)
    }

    /// Whether the newest list of this kind was answered, and none hangs.
    fn is_answered(&self, list: Rpc) -> bool {
        self.cost(list).is_some_and(|cost| cost.error.is_none()) && !self.list_hangs(list)
    }

    /// Whether a list of this kind was answered, has failed, or hangs.
    fn is_decided(&self, list: Rpc) -> bool {
        self.cost(list).is_some() || self.list_hangs(list)
    }

    fn list_hangs(&self, list: Rpc) -> bool {
        self.node_call(list).is_some_and(|call| self.hangs(call))
    }
}

fn is_older(call: &InFlight, than: Duration) -> bool {
    call.age_seconds >= than.as_secs_f64()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What is observed of a healthy node with one pod.
    pub(crate) fn healthy() -> Observed {
        let costs = CALLS.map(|call| json!({
            "call": call, "count": 4, "failed": 0, "last": 0.002, "answeredAgo": 0.1, "p50": 0.002,
            "p90": 0.002, "p99": 0.002, "max": 0.004, "mean": 0.002, "alone": 4, "aloneMean": 0.002,
        }));
        let status = json!({
            "health": {"state": "Healthy", "message": "m", "reason": "AllSeen",
                       "since": "2026-01-02T03:04:05Z", "thresholdSeconds": 180.0},
            "kubeletView": {"ready": true, "message": ""},
            "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0, "lastKind": "list",
                       "lastFailure": null, "sweeping": false},
            "stuck": [], "failing": [], "blind": [], "inFlight": [], "costs": costs,
            "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
            "kernel": {"state": "off", "watched": 0},
            "runtime": {"name": "containerd", "version": "1.7.24", "apiVersion": "v1",
                        "endpoint": "unix:///run/x.sock"},
            "pods": 1, "containers": {},
        });
        let pod = json!({
            "uid": "u", "namespace": "shop", "name": "web", "sandboxes": [],
            "containers": [{"id": "c1", "name": "app", "state": "running", "attempt": 0,
                            "image": "i"}],
            "asOf": "2026-01-02T03:04:05Z", "error": null,
        });
        Observed {
            status: serde_json::from_value(status).unwrap(),
            pods: vec![serde_json::from_value(pod).unwrap()],
        }
    }

    impl Observed {
        pub(crate) fn waits(
            mut self,
            call: Rpc,
            id: Option<&str>,
            seconds: f64,
            is_stuck: bool,
        ) -> Self {
            let call: Value = json!({"call": call, "id": id, "ageSeconds": seconds,
                                     "sinceSeconds": seconds, "pod": null, "container": null});
            if is_stuck {
                let stuck = serde_json::from_value(call.clone()).unwrap();
                self.status.stuck.push(stuck);
            }
            let call = serde_json::from_value(call).unwrap();
            self.status.in_flight.push(call);
            self
        }

        pub(crate) fn cost_mut(&mut self, call: Rpc) -> &mut CallCost {
            let mut costs = self.status.costs.iter_mut();
            costs.find(|cost| cost.call == call).unwrap()
        }
    }

    const STATUS: Rpc = Rpc::ContainerStatus;

    #[test]
    fn a_healthy_node_is_complete_at_once() {
        assert!(healthy().is_complete());
        // A relist has begun.
        let relists = healthy().waits(Rpc::ListContainers, None, 0.3, false);
        assert!(relists.is_complete());
    }

    #[test]
    fn an_observation_with_an_overdue_call_is_complete_once_the_call_hangs() {
        let waits = |seconds, is_stuck| healthy().waits(STATUS, Some("c1"), seconds, is_stuck);
        for (seconds, is_stuck) in [(1.1, false), (3.4, true), (9.0, false)] {
            let waits = waits(seconds, is_stuck);
            assert!(!waits.hangs(&waits.status.in_flight[0]), "{seconds}");
            assert!(!waits.is_complete(), "{seconds}");
        }
        let hangs = waits(3.5, true);
        assert!(hangs.hangs(&hangs.status.in_flight[0]) && hangs.is_complete());
    }

    #[test]
    fn a_status_for_which_cri_o_looks_for_an_exit_file_does_not_hang() {
        let waits = |seconds| {
            let mut crio = healthy().waits(STATUS, Some("c1"), seconds, true);
            crio.status.runtime.name = Some("cri-o".into());
            crio
        };
        let looks = waits(3.7);
        assert!(!looks.hangs(&looks.status.in_flight[0]) && !looks.is_complete());
        let hangs = waits(5.0);
        assert!(hangs.hangs(&hangs.status.in_flight[0]) && hangs.is_complete());
    }

    #[test]
    fn both_lists_hang_later_than_one_list() {
        let both = |seconds| {
            let one = healthy().waits(Rpc::ListPodSandbox, None, seconds, true);
            one.waits(Rpc::ListContainers, None, seconds, true)
        };
        for (seconds, hang) in [(8.0, false), (9.0, true)] {
            let both = both(seconds);
            let mut calls = both.status.in_flight.iter();
            assert!(calls.all(|call| both.hangs(call) == hang), "{seconds}");
        }
        let one = healthy().waits(Rpc::ListContainers, None, 3.5, true);
        assert!(one.hangs(&one.status.in_flight[0]));
        assert!(!one.is_complete(), "nothing was swept");
        let mut without_pods = one;
        without_pods.pods.clear();
        without_pods.status.pods = 0;
        assert!(without_pods.is_complete(), "and nothing can be");
    }

    #[test]
    fn an_observation_is_not_complete_without_all_pods_or_without_answers() {
        let mut more = healthy();
        more.status.pods = 2;
        assert_eq!(more.unobserved(), 1);
        assert!(!more.is_complete());
        let mut unresponsive = healthy();
        unresponsive.status.health.reason = Reason::RuntimeSilent;
        assert!(!unresponsive.is_complete());
        let mut gone = healthy();
        gone.status.relist.last_failure = Some(CallError::connection_refused());
        assert!(!gone.is_complete());
        let mut starts = healthy();
        starts.status.costs.clear();
        assert!(!starts.is_complete());
    }
}
