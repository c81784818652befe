//! The workers. Each sync of a pod makes a decision and starts its steps. A sync waits for nothing:
//! when a step or check ends or a view arrives, the pod is woken.
//!
//! ```text
//!   SyncRequest --> Pod: apply events --> Memory::decide --> steps, started in parallel
//!                     ^                        |                    |
//!                     |                        \--> lines, report   |
//!                     \--- PodEvent, wakes the pod <----------------/
//! ```

mod line;
mod perform;
mod pod;
mod rotation;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pleg::Pleg;
use pleg::model::id::PodUid;
use pleg::model::listed::SandboxState;
use pleg::model::wall_time::WallClock;
use sync_loop::{Goal, Outcome, SyncPod, SyncRequest};
use tokio::time::Instant;

pub use line::{Kind, Line, Lines};
pub use perform::OnHost;
use perform::Perform;
pub use rotation::rotate_logs;

use crate::decide::{Decision, Report, Step, Termination, View, Want, Why};
use crate::pods::PodsSender;
use crate::spec::{Network, PodSpec};
use pod::{Pod, PodEvent, ViewRequest};

/// The shortest time between two syncs of a pod if it has no event, so that a bug cannot occupy a
/// core.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// The workers of all pods.
pub struct Workers<P> {
    /// Performs steps and checks.
    perform: Arc<P>,
    /// Provides views that are newer than a step.
    pleg: Pleg,
    /// The wanted pods, and the reports.
    pods: PodsSender,
    /// Receives a line for each step and change.
    lines: Lines,
    /// The wall clock.
    clock: WallClock,
    active: Mutex<BTreeMap<PodUid, Pod>>,
}

impl<P: Perform> Workers<P> {
    /// Workers without pods.
    pub fn new(
        perform: Arc<P>,
        pleg: Pleg,
        pods: PodsSender,
        lines: Lines,
        clock: WallClock,
    ) -> Self {
        Self {
            perform,
            pleg,
            pods,
            lines,
            clock,
            active: Mutex::default(),
        }
    }

    /// Locks the pods. The guard must not be held across an await.
    fn active(&self) -> MutexGuard<'_, BTreeMap<PodUid, Pod>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, pod: &mut Pod, request: &SyncRequest<Arc<PodSpec>>, view: &View) -> Decision {
        let (termination, why);
        let want = match &request.goal {
            Goal::Run(spec) => Want::Run(spec),
            Goal::End => {
                (termination, why) = self.ending(&request.pod.uid, pod.spec.as_deref());
                let (pod, why) = (&termination, &why);
                Want::End { pod, why }
            }
        };
        let health = pod.prober.health();
        pod.memory.decide(want, view, health, Instant::now())
    }

    fn ending(&self, uid: &PodUid, spec: Option<&PodSpec>) -> (Termination, Why) {
        let pods = self.pods.borrow();
        let ending = pods.ending.get(uid);
        let why = ending.map_or(Why::ManifestRemoved, |ending| ending.why.clone());
        let saved = ending.and_then(|ending| ending.termination.clone());
        let termination = spec.map(Termination::from).or(saved);
        (termination.unwrap_or_default(), why)
    }

    fn begin(&self, pod: &Pod, decision: &Decision) {
        let ip = decision.report.ips.first().copied();
        for planned in &decision.steps {
            let (step, of) = (planned.step.clone(), pod.pod.clone());
            let (spec, sender) = (pod.spec.clone(), pod.sender.clone());
            let (perform, pleg) = (self.perform.clone(), self.pleg.clone());
            tokio::spawn(async move {
                let outcome = perform.step(step.clone(), of, spec, ip).await;
                // The PLEG watches a process only after it has listed the process's container.
                if let Step::StartContainer { .. } | Step::RemoveSandbox { .. } = step {
                    pleg.request_relist();
                }
                sender.send(PodEvent::Ended(step, outcome, Instant::now()));
            });
        }
    }

    fn check(&self, pod: &mut Pod, report: &Report, now: Instant) {
        let Some(spec) = &pod.spec else {
            return;
        };
        let running = pod.memory.running((self.clock)());
        let ip = report.ips.first().copied();
        for check in pod.prober.due(spec, &running, now) {
            let (perform, sender) = (self.perform.clone(), pod.sender.clone());
            tokio::spawn(async move {
                let result = perform.check(&check, ip).await;
                sender.send(PodEvent::Checked(check, result));
            });
        }
    }

    /// Requests a complete view as of a time after `wanted`. If it is too early for that, returns
    /// when to request it. If `wanted` is `None`, cancels a pending request.
    fn request_view(
        &self,
        pod: &mut Pod,
        wanted: Option<Instant>,
        now: Instant,
    ) -> Option<Instant> {
        let at = pod.next_view_request(wanted, now)?;
        let after = wanted?;
        if at > now {
            return Some(at);
        }
        let (pleg, uid, sender) = (self.pleg.clone(), pod.pod.uid.clone(), pod.sender.clone());
        let task = tokio::spawn(async move {
            pleg.request_relist();
            // An error means that the PLEG has stopped, and then the sync loop stops too.
            if let Ok(entry) = pleg.cache().newer_than(&uid, after).await {
                sender.send(PodEvent::View(View::newer_than(&entry, &uid, after)));
            }
        });
        pod.view_request = ViewRequest::Pending(after, task.abort_handle());
        None
    }
}

impl<P: Perform> SyncPod for Workers<P> {
    type Spec = Arc<PodSpec>;

    async fn sync(&self, request: SyncRequest<Arc<PodSpec>>) -> Outcome {
        let uid = &request.pod.uid;
        let mut active = self.active();
        let pod = active.entry(uid.clone());
        let pod = pod.or_insert_with(|| {
            let known = self.pods.borrow();
            let adopted = known.adopted.get(uid).map(Vec::as_slice);
            Pod::new(&request, adopted.unwrap_or_default())
        });
        pod.apply_events(&self.clock, &self.lines);
        match &request.goal {
            Goal::Run(spec) if needs_network(spec, &request) => {
                let report = pod.wait_for_network();
                pod.report_changes((self.clock)(), &[], &report, false, &self.lines);
                self.pods.send_modify(|pods| {
                    pods.reports.insert(uid.clone(), report);
                });
                return Outcome::NetworkNotReady;
            }
            Goal::Run(spec) => pod.spec = Some(spec.clone()),
            Goal::End => pod.prober.end(),
        }
        let view = pod.newest(View::newer_than(&request.entry, uid, request.since));
        let decision = self.decide(pod, &request, &view);
        let Decision { steps, report, .. } = &decision;
        let is_ending = matches!(request.goal, Goal::End);
        let time = (self.clock)();
        pod.report_changes(time, steps, report, is_ending, &self.lines);
        self.begin(pod, &decision);
        let now = Instant::now();
        self.check(pod, &decision.report, now);
        let view_request_at = self.request_view(pod, decision.needs_view_after, now);
        if decision.is_gone {
            let why = "nothing is left of it".to_owned();
            self.lines
                .send(pod.line(time, Kind::Pod, None, "Gone", why));
            active.remove(uid);
            self.pods.send_modify(|pods| pods.forget(uid));
            return Outcome::Ended;
        }
        let probes_at = pod.spec.as_ref().and_then(|spec| pod.prober.wake_at(spec));
        let times = [decision.wake_at, view_request_at, probes_at];
        let next = times.into_iter().flatten().min();
        let pause = next.map(|next| next.saturating_duration_since(now));
        self.pods.send_modify(|pods| {
            pods.reports.insert(uid.clone(), decision.report);
        });
        Outcome::Done {
            // The memory records which view a decision needs after a change.
            changed: false,
            again_in: pause.map(|pause| pause.max(MIN_PAUSE)),
        }
    }
}

/// Whether a pod must wait for the runtime's network. A pod with a sandbox already has its network.
fn needs_network(spec: &PodSpec, request: &SyncRequest<Arc<PodSpec>>) -> bool {
    let mut sandboxes = request.entry.status.sandboxes.iter();
    let has_one = sandboxes.any(|sandbox| sandbox.state == SandboxState::Ready);
    !request.network_ready && !has_one && spec.network != Network::Host
}

#[cfg(test)]
mod tests;
