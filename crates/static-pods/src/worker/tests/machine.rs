//! A runtime and a host that outlive a run. Calls take time, fail and lose their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use pleg::model::id::{Id, PodRef, PodUid};
use pleg::model::listed::{ContainerState, SandboxState};
use sim::{Container, Pod, Sandbox, Sim, World};
use tokio::time::sleep;

use super::spec_of;
use crate::adopted::Adopted;
use crate::decide::{Outcome, Step};
use crate::probe::{CheckResult, DueCheck};
use crate::runtime::OwnedContainer;
use crate::source::Leftovers;
use crate::spec::PodSpec;
use crate::worker::Perform;

/// The runtime and the host, which outlive a run.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) sim: Sim,
    /// The pods with a note on this host.
    pub(super) noted: Arc<Mutex<BTreeMap<PodUid, Adopted>>>,
    random: Arc<Mutex<Rng>>,
    /// Whether calls fail or lose their answers.
    pub(super) has_faults: Arc<Mutex<bool>>,
}

impl Machine {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            sim: Sim::new(),
            noted: Arc::default(),
            random: Arc::new(Mutex::new(Rng::with_seed(seed))),
            has_faults: Arc::new(Mutex::new(true)),
        }
    }

    pub(super) fn random<T>(&self, pick: impl FnOnce(&mut Rng) -> T) -> T {
        pick(&mut self.random.lock().unwrap())
    }

    /// True once in `count` calls, while faults are injected.
    fn by_chance(&self, count: u32) -> bool {
        *self.has_faults.lock().unwrap() && self.random(|random| random.u32(..count) == 0)
    }

    pub(super) fn leftovers(&self) -> Leftovers {
        let mut pods = self.noted.lock().unwrap().clone();
        let world = self.sim.world();
        for (_, sandbox) in world.sandboxes() {
            let spec = spec_of(&sandbox.id);
            pods.insert(spec.pod.uid.clone(), Adopted::from(&*spec));
        }
        let containers = world.containers().map(|(pod, container)| OwnedContainer {
            id: container.id.clone(),
            sandbox_id: container.sandbox_id.clone(),
            pod: pod.pod.clone(),
        });
        Leftovers {
            pods,
            containers: containers.collect(),
        }
    }

    /// Applies the effect of a call.
    fn effect(&self, step: &Step, pod: &PodRef) -> Outcome {
        let now = self.sim.now();
        let mut world = self.sim.world();
        let world: &mut World = &mut world;
        match step {
            Step::CreateSandbox { attempt } => {
                let attempt = attempt.number();
                let known = world.pods.entry(pod.uid.to_string());
                let known = known.or_insert_with(|| Pod {
                    pod: pod.clone(),
                    sandboxes: Vec::new(),
                    containers: Vec::new(),
                });
                if known.sandboxes.iter().any(|it| it.attempt == attempt) {
                    return Outcome::AnswerLost("no answer".into());
                }
                let id = Id::from(format!("{}.{attempt}", pod.uid));
                known.sandboxes.push(Sandbox {
                    id: id.clone(),
                    state: SandboxState::Ready,
                    attempt,
                    created_at: now,
                    ips: Vec::new(),
                    given: None,
                });
                Outcome::Created(id)
            }
            Step::EnsureImage { image, .. } => Outcome::Pulled(image.as_str().into()),
            Step::CreateContainer {
                container,
                attempt,
                sandbox,
                ..
            } => {
                let attempt = attempt.number();
                let Some(known) = world.pod_of_sandbox(sandbox.as_str()) else {
                    return Outcome::Failed("no such sandbox".into());
                };
                // As in containerd, names are unique in the pod.
                let mut others = known.containers.iter();
                if others.any(|it| it.name == **container && it.attempt == attempt) {
                    return Outcome::AnswerLost("no answer".into());
                }
                let id = Id::from(format!("{}/{container}.{attempt}", pod.uid));
                known.containers.push(Container {
                    id: id.clone(),
                    sandbox_id: sandbox.clone(),
                    name: container.to_string(),
                    attempt,
                    state: ContainerState::Created,
                    created_at: now,
                    started_at: None,
                    ended: None,
                    listed_as: None,
                    exit_code_delay: Duration::ZERO,
                    given: None,
                });
                Outcome::Created(id)
            }
            Step::StartContainer { id, .. } => match world.container_by_id_mut(id.as_str()) {
                Some(container) if container.state == ContainerState::Created => {
                    container.start(now);
                    Outcome::Done
                }
                Some(_) => Outcome::Failed("it was started before".into()),
                None => Outcome::Gone,
            },
            Step::KillContainer { id, .. } => {
                if let Some(container) = world.container_by_id_mut(id.as_str())
                    && container.state == ContainerState::Running
                {
                    container.exit(137, now);
                }
                Outcome::Done
            }
            Step::RemoveContainer { id, .. } => {
                world.remove_container(id.as_str());
                Outcome::Done
            }
            Step::StopSandbox { id } => {
                world.stop_sandbox(id.as_str(), now);
                Outcome::Done
            }
            Step::RemoveSandbox { id } => {
                world.remove_sandbox(id.as_str());
                Outcome::Done
            }
            Step::RemoveVolumes => {
                self.noted.lock().unwrap().remove(&pod.uid);
                Outcome::Done
            }
        }
    }
}

impl Perform for Machine {
    async fn step(
        &self,
        step: Step,
        pod: PodRef,
        spec: Option<Arc<PodSpec>>,
        _ip: Option<IpAddr>,
    ) -> Outcome {
        if let (Step::CreateSandbox { .. }, Some(spec)) = (&step, &spec) {
            let mut noted = self.noted.lock().unwrap();
            noted.insert(pod.uid.clone(), Adopted::from(&**spec));
        }
        let pause = |max| self.random(|random| Duration::from_millis(random.u64(..max)));
        // Some calls take effect as late as two runs later.
        let begins = pause(if self.by_chance(10) { 60_000 } else { 400 });
        let answers = pause(400);
        if self.by_chance(30) {
            sleep(begins).await;
            return Outcome::Failed("injected failure".into());
        }
        let is_lost = self.by_chance(30);
        // The runtime continues a call whose caller was killed.
        let machine = self.clone();
        let call = tokio::spawn(async move {
            sleep(begins).await;
            let outcome = machine.effect(&step, &pod);
            machine.check();
            sleep(answers).await;
            outcome
        });
        match is_lost {
            true => Outcome::AnswerLost("no answer".into()),
            false => call.await.unwrap(),
        }
    }

    async fn check(&self, _: &DueCheck, _: Option<IpAddr>) -> CheckResult {
        unreachable!("no container has a probe")
    }
}

impl Machine {
    /// Checks that nothing exists twice.
    pub(super) fn check(&self) {
        let world = self.sim.world();
        for pod in world.pods.values() {
            let ready = pod.sandboxes.iter();
            let ready = ready.filter(|it| it.state == SandboxState::Ready);
            assert!(ready.count() <= 1, "two sandboxes: {pod:#?}");
            let mut names = BTreeSet::new();
            for container in &pod.containers {
                let is_running = container.state == ContainerState::Running;
                assert!(
                    !is_running || names.insert(&container.name),
                    "two containers: {pod:#?}"
                );
            }
        }
    }

    /// The names of the running containers of each pod.
    pub(super) fn running(&self) -> BTreeMap<String, Vec<String>> {
        let world = self.sim.world();
        let mut running = BTreeMap::new();
        for pod in world.pods.values() {
            let all = pod.containers.iter();
            let all = all.filter(|it| it.state == ContainerState::Running);
            let names = all.map(|it| it.name.clone()).collect();
            running.insert(pod.pod.uid.to_string(), names);
        }
        running
    }

    /// Lets a random container exit, if it is running.
    pub(super) fn exit_container(&self) {
        let now = self.sim.now();
        let mut world = self.sim.world();
        let ids: Vec<_> = world.containers().map(|(_, it)| it.id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let id = self.random(|random| ids[random.usize(..ids.len())].clone());
        if let Some(container) = world.container_by_id_mut(id.as_str())
            && container.state == ContainerState::Running
        {
            container.exit(1, now);
        }
    }
}
