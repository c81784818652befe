//! The workers: each sync of a pod looks, decides, and begins what was decided. Nothing is waited
//! for in a sync: whatever ends later wakes the pod.
//!
//! ```text
//!   Turn: manifest, status --> Pod: news taken in --> Memory::decide --> steps, begun side by side
//!                                ^                        |                         |
//!                                |                        '--> lines, report        |
//!                                \---- ended, found, looked <-- wakes the pod <-----/
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
use sync_loop::{Goal, Outcome, SyncPod, Turn};
use tokio::time::Instant;

pub use line::{Kind, Line, Lines};
pub use perform::{OnHost, Perform};
pub use rotation::keep_logs_short;

use crate::decide::{Decision, Report, Step, Termination, View, Want, Why};
use crate::pods::Writer;
use crate::probe::CheckToMake;
use crate::spec::{Network, PodSpec};
use pod::{News, Pod};

/// What a pod waits for by time alone does not come sooner: a mistake here must not cost a core.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// The workers of all pods.
pub struct Workers<P> {
    /// Does what is decided.
    perform: Arc<P>,
    /// Looks again, where a status that is newer than a step is needed.
    pleg: Pleg,
    /// What is wanted, and how far the pods are.
    pods: Writer,
    /// Where decisions are told.
    lines: Lines,
    /// Tells the time of day.
    clock: WallClock,
    at_work: Mutex<BTreeMap<PodUid, Pod>>,
}

impl<P: Perform> Workers<P> {
    /// Workers without pods.
    pub fn new(perform: Arc<P>, pleg: Pleg, pods: Writer, lines: Lines, clock: WallClock) -> Self {
        Self {
            perform,
            pleg,
            pods,
            lines,
            clock,
            at_work: Mutex::default(),
        }
    }

    /// Held for moments, and never while anything is awaited.
    fn at_work(&self) -> MutexGuard<'_, BTreeMap<PodUid, Pod>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pod(&self, turn: &Turn<Arc<PodSpec>>) -> Pod {
        let known = self.pods.borrow();
        let adopted = known.adopted.get(&turn.pod.uid);
        let adopted = adopted.map(Vec::as_slice).unwrap_or_default();
        Pod::new(turn.pod.clone(), turn.since, adopted, turn.waker.clone())
    }

    fn decide(&self, pod: &mut Pod, turn: &Turn<Arc<PodSpec>>, view: &View) -> Decision {
        let now = Instant::now();
        let health = pod.prober.health();
        match &turn.goal {
            Goal::Run(spec) => pod.memory.decide(Want::Run(spec), view, health, now),
            Goal::End => {
                let (termination, why) = self.ending(&turn.pod.uid, pod.spec.as_deref());
                let want = Want::End {
                    pod: &termination,
                    why: &why,
                };
                pod.memory.decide(want, view, health, now)
            }
        }
    }

    fn ending(&self, uid: &PodUid, spec: Option<&PodSpec>) -> (Termination, Why) {
        let pods = self.pods.borrow();
        let ending = pods.ending.get(uid);
        let why = ending.map_or(Why::ManifestRemoved, |ending| ending.why.clone());
        let told = ending.and_then(|ending| ending.termination.clone());
        let known = spec.map(Termination::from).or(told);
        (known.unwrap_or_default(), why)
    }

    fn begin(&self, pod: &Pod, decision: &Decision) {
        let ip = decision.report.ips.first().copied();
        for planned in &decision.steps {
            let (step, of) = (planned.step.clone(), pod.pod.clone());
            let (spec, reporter) = (pod.spec.clone(), pod.reporter());
            let (perform, pleg) = (self.perform.clone(), self.pleg.clone());
            tokio::spawn(async move {
                let outcome = perform.step(step.clone(), of, spec, ip).await;
                if starts_or_ends(&step) {
                    // What began to run is only watched over once it was listed.
                    pleg.request_relist();
                }
                reporter.tell(News::Ended(step, outcome, Instant::now()));
            });
        }
    }

    fn check(&self, pod: &mut Pod, report: &Report, now: Instant) {
        let Some(spec) = &pod.spec else {
            return;
        };
        let running = pod.memory.running((self.clock)());
        let checks: Vec<CheckToMake> = pod.prober.due(spec, &running, now);
        let ip = report.ips.first().copied();
        for check in checks {
            let (perform, reporter) = (self.perform.clone(), pod.reporter());
            tokio::spawn(async move {
                let finding = perform.check(&check, ip).await;
                reporter.tell(News::Found(check, finding));
            });
        }
    }

    /// Asks for the look that is waited for; gives when to ask, if that is later.
    fn look(&self, pod: &mut Pod, wanted: Option<Instant>, now: Instant) -> Option<Instant> {
        let at = pod.look_at(wanted, now)?;
        let after = wanted?;
        if at > now {
            return Some(at);
        }
        let (pleg, uid, reporter) = (self.pleg.clone(), pod.pod.uid.clone(), pod.reporter());
        let look = tokio::spawn(async move {
            pleg.request_relist();
            // Otherwise the PLEG has stopped, and so will the loop.
            if let Ok(entry) = pleg.cache().newer_than(&uid, after).await {
                reporter.tell(News::Looked(View::newer_than(&entry, &uid, after)));
            }
        });
        pod.looks(after, look.abort_handle());
        None
    }
}

impl<P: Perform> SyncPod for Workers<P> {
    type Spec = Arc<PodSpec>;

    async fn sync(&self, turn: Turn<Arc<PodSpec>>) -> Outcome {
        let uid = &turn.pod.uid;
        let mut at_work = self.at_work();
        let pod = at_work.entry(uid.clone());
        let pod = pod.or_insert_with(|| self.pod(&turn));
        pod.take_news(&self.clock, &self.lines);
        match &turn.goal {
            Goal::Run(spec) if waits_for_network(spec, &turn) => {
                let decision = pod.wait_for_network();
                pod.tell((self.clock)(), &decision, false, &self.lines);
                self.pods.send_modify(|pods| {
                    pods.reports.insert(uid.clone(), decision.report);
                });
                return Outcome::NetworkNotReady;
            }
            Goal::Run(spec) => pod.spec = Some(spec.clone()),
            Goal::End => pod.prober.end(),
        }
        let view = pod.newest(View::newer_than(&turn.entry, uid, turn.since));
        let decision = self.decide(pod, &turn, &view);
        let is_ending = matches!(turn.goal, Goal::End);
        pod.tell((self.clock)(), &decision, is_ending, &self.lines);
        self.begin(pod, &decision);
        let now = Instant::now();
        self.check(pod, &decision.report, now);
        let looks_at = self.look(pod, decision.look_after, now);
        if decision.is_gone {
            at_work.remove(uid);
            self.pods.send_modify(|pods| pods.gone(uid));
            return Outcome::Ended;
        }
        let probes_at = pod.spec.as_ref().and_then(|spec| pod.prober.wake_at(spec));
        let times = [decision.wake_at, looks_at, probes_at];
        let next = times.into_iter().flatten().min();
        let pause = next.map(|next| next.saturating_duration_since(now));
        self.pods.send_modify(|pods| {
            pods.reports.insert(uid.clone(), decision.report);
        });
        Outcome::Done {
            // What must be seen of a change is known to the pod's memory.
            changed: false,
            again_in: pause.map(|pause| pause.max(LEAST_PAUSE)),
        }
    }
}

/// Whether a pod would be started on a network that is not ready. One that has its sandbox has its
/// network, too.
fn waits_for_network(spec: &PodSpec, turn: &Turn<Arc<PodSpec>>) -> bool {
    let mut sandboxes = turn.entry.status.sandboxes.iter();
    let has_one = sandboxes.any(|sandbox| sandbox.state == SandboxState::Ready);
    !turn.network_ready && !has_one && spec.network != Network::Host
}

fn starts_or_ends(step: &Step) -> bool {
    matches!(
        step,
        Step::StartContainer { .. } | Step::RemoveSandbox { .. }
    )
}

#[cfg(test)]
mod tests;
