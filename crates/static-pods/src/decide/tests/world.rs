//! A simulated runtime, views of it, and a run that keeps one pod running on it.
//!
//! ```text
//!   World::decide --steps--> calls --effect--> sandboxes, containers --observe--> view
//!        ^                     |                                                    |
//!        |- note_outcome <-----/ the answer, unless it is lost                      |
//!        \--------------------------------------------------------------------------/
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::status::{ContainerStatus, PodStatus, SandboxStatus};
use tokio::time::Instant;

use super::super::view::Extent;
use super::super::{Decision, Memory, Outcome, Step, Termination, View, Want, Why};
use super::calls::Call;
use crate::probe::Health;
use crate::spec::{PodSpec, PullPolicy};
pub(super) use crate::testing::pod_of as pod;

pub(super) const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Sandbox {
    pub(super) id: Id,
    pub(super) attempt: u32,
    pub(super) is_ready: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) id: Id,
    pub(super) name: Arc<str>,
    pub(super) attempt: u32,
    pub(super) sandbox: Id,
    pub(super) state: ContainerState,
    pub(super) code: Option<i32>,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) spec: PodSpec,
    pub(super) ending: Option<Why>,
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) containers: Vec<Container>,
    pub(super) has_volumes: bool,
    pub(super) calls: Vec<Call>,
    pub(super) ids: u32,
    /// The container whose status call is stuck.
    pub(super) stuck: Option<Id>,
    /// Why that container is unobserved.
    pub(super) why_stuck: Why,
    /// Whether lists are overdue, so that new containers are not observed.
    pub(super) lists_hang: bool,
    /// Whether all names are reserved by creations that never end.
    pub(super) is_reserved: bool,
    /// The policies of the image checks.
    pub(super) image_policies: Vec<PullPolicy>,
    pub(super) view: View,
    /// Older views of this run.
    pub(super) older: Vec<View>,
    pub(super) memory: Memory,
    /// The containers whose liveness probe has failed.
    pub(super) failed: BTreeSet<Id>,
    /// The containers whose startup probe has not succeeded.
    pub(super) slow: BTreeSet<Arc<str>>,
    pub(super) last: Option<Decision>,
    /// The steps, with the seconds since the start.
    pub(super) log: Vec<(u64, String)>,
    start: Instant,
}

impl World {
    pub(super) fn new(spec: PodSpec) -> Self {
        let now = Instant::now();
        let status = PodStatus::unknown(spec.pod.uid.clone());
        Self {
            now,
            start: now,
            ending: None,
            sandboxes: Vec::new(),
            containers: Vec::new(),
            has_volumes: true,
            calls: Vec::new(),
            ids: 0,
            stuck: None,
            why_stuck: Why::StatusStuck,
            lists_hang: false,
            is_reserved: false,
            image_policies: Vec::new(),
            view: View {
                status: Arc::new(status),
                as_of: None,
                extent: Extent::Unclear,
                unobserved: BTreeMap::new(),
            },
            older: Vec::new(),
            memory: Memory::new(now),
            failed: BTreeSet::new(),
            slow: BTreeSet::new(),
            last: None,
            log: Vec::new(),
            spec,
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Kills the run and starts another, with an empty memory.
    pub(super) fn restart(&mut self) {
        for call in &mut self.calls {
            call.has_caller = false;
        }
        self.memory = Memory::new(self.now);
        self.older.clear();
        let status = PodStatus::unknown(self.spec.pod.uid.clone());
        self.view = View {
            status: Arc::new(status),
            as_of: None,
            extent: Extent::Unclear,
            unobserved: BTreeMap::new(),
        };
    }

    /// Updates the view as a PLEG would under the current faults.
    pub(super) fn observe(&mut self) {
        self.pass(Duration::from_millis(1));
        self.older.push(self.view.clone());
        let stuck = self.stuck.clone();
        let stuck = stuck.filter(|id| self.containers.iter().any(|it| it.id == *id));
        let was_seen = self.view.extent != Extent::Unclear;
        let known = self.view.status.clone();
        let mut status = self.status();
        let is_known = |id: &Id| known.container(id).is_some();
        self.view = match stuck {
            Some(_) if !was_seen => return,
            Some(stuck) => {
                // The last good status is kept, with the exits of the other containers.
                let mut last = PodStatus::clone(&known);
                for shown in &mut last.containers {
                    if let Some(now) = status.container(&shown.id)
                        && now.state == ContainerState::Exited
                        && shown.id != stuck
                    {
                        *shown = now.clone();
                    }
                }
                View {
                    status: Arc::new(last),
                    as_of: self.view.as_of,
                    extent: Extent::KnownIds,
                    unobserved: BTreeMap::from([(stuck, self.why_stuck.clone())]),
                }
            }
            // A PLEG that starts while lists are overdue knows sandboxes but no containers.
            None if self.lists_hang => {
                status.containers.retain(|it| is_known(&it.id));
                View {
                    status: Arc::new(status),
                    as_of: Some(self.now),
                    extent: Extent::KnownIds,
                    unobserved: BTreeMap::new(),
                }
            }
            None => View {
                status: Arc::new(status),
                as_of: Some(self.now),
                extent: Extent::Complete,
                unobserved: BTreeMap::new(),
            },
        };
        self.pass(Duration::from_millis(1));
    }

    fn status(&self) -> PodStatus {
        let mut status = PodStatus::unknown(self.spec.pod.uid.clone());
        status.sandboxes.extend(self.sandboxes.iter().map(|it| {
            let state = if it.is_ready {
                SandboxState::Ready
            } else {
                SandboxState::NotReady
            };
            SandboxStatus {
                id: it.id.clone(),
                state,
                attempt: it.attempt,
                created_at: None,
                ips: Vec::new(),
                pod: None,
                containers: Vec::new(),
            }
        }));
        status
            .containers
            .extend(self.containers.iter().map(|it| ContainerStatus {
                id: it.id.clone(),
                name: it.name.clone(),
                state: it.state,
                attempt: it.attempt,
                exit_code: it.code,
                reason: None,
                created_at: None,
                started_at: None,
                finished_at: None,
                image: "image".into(),
                pod: None,
            }));
        status
    }

    /// Decides, and sends the calls.
    pub(super) fn decide(&mut self) {
        let slow = |it: &&Container| self.slow.contains(&it.name);
        let started = self.containers.iter().filter(|it| !slow(it));
        let health = Health::of_test(started.map(|it| &it.id), &self.failed);
        let pod = Termination::from(&self.spec);
        let want = match &self.ending {
            None => Want::Run(&self.spec),
            Some(why) => Want::End { pod: &pod, why },
        };
        let decision = self.memory.decide(want, &self.view, &health, self.now);
        let seconds = (self.now - self.start).as_secs();
        for planned in &decision.steps {
            self.check_step(&planned.step);
            if let Step::EnsureImage { policy, .. } = planned.step {
                self.image_policies.push(policy);
            }
            let container = planned.step.container();
            let container = container.map_or(String::new(), |name| format!(" {name}"));
            let line = format!(
                "{}{container}: {}",
                planned.step.action(),
                planned.why.name()
            );
            self.log.push((seconds, line));
            let call = self.arrive(planned.step.clone());
            self.calls.push(call);
        }
        self.last = Some(decision);
    }

    fn check_step(&self, step: &Step) {
        let id = match step {
            Step::StartContainer { id, .. }
            | Step::KillContainer { id, .. }
            | Step::RemoveContainer { id, .. } => id,
            Step::RemoveVolumes => {
                assert!(self.live().is_empty(), "volumes in use are removed");
                return;
            }
            _ => return,
        };
        let is_stuck = self.view.unobserved.contains_key(id);
        assert!(!is_stuck, "{step:?} of a stuck container");
    }

    pub(super) fn decision(&self) -> &Decision {
        self.last.as_ref().expect("a decision was made")
    }

    /// The containers that have a process.
    pub(super) fn live(&self) -> Vec<&Container> {
        let live = [ContainerState::Running, ContainerState::Unknown];
        let all = self.containers.iter();
        all.filter(|it| live.contains(&it.state)).collect()
    }

    pub(super) fn live_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.live().iter().map(|it| &*it.name).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn runs(&self, name: &str) -> bool {
        let runs = |it: &Container| *it.name == *name && it.state == ContainerState::Running;
        self.containers.iter().any(runs)
    }

    pub(super) fn exit(&mut self, name: &str, code: i32) {
        let mut all = self.containers.iter_mut();
        let found = all.find(|it| &*it.name == name && it.state == ContainerState::Running);
        let found = found.expect("a container of this name runs");
        found.state = ContainerState::Exited;
        found.code = Some(code);
    }

    pub(super) fn running(&self, name: &str) -> &Container {
        let mut all = self.containers.iter();
        let found = all.find(|it| &*it.name == name && it.state == ContainerState::Running);
        found.expect("a container of this name runs")
    }

    pub(super) fn sandbox_dies(&mut self) {
        for sandbox in &mut self.sandboxes {
            sandbox.is_ready = false;
        }
        for container in &mut self.containers {
            if container.state == ContainerState::Running {
                container.state = ContainerState::Exited;
                container.code = Some(137);
            }
        }
    }

    /// Performs and answers all outstanding calls.
    pub(super) fn perform(&mut self) {
        while let Some(call) = self.calls.pop() {
            let (step, outcome) = self.finish(call);
            if let Some(outcome) = outcome {
                self.memory.note_outcome(&step, outcome, self.now);
            }
        }
        self.check();
    }

    /// Lets this much time pass: observes, decides, and performs the calls. Skips the time in which
    /// there is nothing to do.
    pub(super) fn settle(&mut self, limit: Duration) {
        let end = self.now + limit;
        while self.now < end {
            self.observe();
            self.decide();
            if self.calls.is_empty() {
                let decision = self.decision();
                let next = decision.wake_at.map_or(end, |at| at.max(self.now));
                let needs_view = decision.needs_view_after.is_some();
                if needs_view {
                    self.pass(SECOND);
                } else if next >= end {
                    self.now = end;
                    return;
                } else {
                    self.now = next;
                }
            }
            self.perform();
        }
    }

    /// Checks that each name has at most one live container, and that at most one sandbox is ready.
    pub(super) fn check(&self) {
        let ready = self.sandboxes.iter().filter(|it| it.is_ready).count();
        assert!(ready <= 1, "two sandboxes: {:?}", self.sandboxes);
        let mut names = self.live_names();
        names.dedup();
        assert!(names.len() == self.live().len(), "two of {:?}", self.live());
    }

    pub(super) fn actions(&self) -> Vec<&str> {
        self.log.iter().map(|(_, line)| line.as_str()).collect()
    }

    /// When each step whose line starts with `line` was decided, in seconds since the start.
    pub(super) fn times(&self, line: &str) -> Vec<u64> {
        let lines = self.log.iter().filter(|(_, it)| it.starts_with(line));
        lines.map(|(seconds, _)| *seconds).collect()
    }

    pub(super) fn answer(&mut self, index: usize, outcome: Outcome) {
        let call = &mut self.calls[index];
        if std::mem::replace(&mut call.has_caller, false) {
            self.memory.note_outcome(&call.step, outcome, self.now);
        }
    }
}
