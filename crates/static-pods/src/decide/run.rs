//! A pod that must run: which of its containers need a step now.
//!
//! ```text
//!   finished, by its policy?  --yes--> its sidecars end, its sandbox stops
//!   a sandbox?                --no---> the old sandbox ends, a new one is created
//!   init containers and sidecars, one after the other --> then the containers, in parallel
//! ```

use std::sync::Arc;

use super::container::{TargetSandbox, needs_restart};
use super::draft::Draft;
use super::ending::Termination;
use super::memory::{Memory, Volumes};
use super::sandbox::Need;
use super::slot::{KnownContainer, Life};
use super::view::Visibility;
use super::why::Why;
use crate::probe::Health;
use crate::spec::{ContainerSpec, PodSpec, RestartPolicy, Role};

/// Whether a pod continues or is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    Continues,
    /// Nothing of the pod will be started any more.
    Over {
        failed: bool,
        why: Why,
    },
}

impl Memory {
    pub(super) fn run(&mut self, spec: &PodSpec, health: &Health, draft: &mut Draft) -> Course {
        match self.volumes {
            Volumes::Kept => {}
            Volumes::Removed => self.volumes = Volumes::Kept,
            // The pod was ending and is wanted again.
            Volumes::BeingRemoved => {
                draft.sandbox_waits(Why::Terminating);
                return Course::Continues;
            }
        }
        let course = self.course(spec, draft);
        if let Course::Over { why, .. } = &course {
            self.ending_since.get_or_insert(draft.now);
            let pod = Termination::from(spec);
            self.wind_down(&pod, why, draft);
        } else {
            self.ending_since = None;
            match self.sandbox_need(spec) {
                Need::Nothing { id, attempt } => {
                    let target = TargetSandbox {
                        sandbox: &id,
                        attempt,
                    };
                    self.plan_containers(spec, &target, health, draft);
                }
                Need::Wait(why) => draft.sandbox_waits(why),
                Need::Another(why) => self.replace_sandbox(spec, &why, draft),
            }
        }
        self.collect_garbage(draft);
        course
    }

    fn current(&self, spec: &ContainerSpec) -> Option<&KnownContainer> {
        let slot = self.slots.get(spec.name.as_str())?;
        slot.current().map(|(_, known)| known)
    }

    /// Whether the pod is over: its containers have exited for good, or it restarts nothing and its sandbox
    /// has stopped.
    fn course(&self, spec: &PodSpec, draft: &Draft) -> Course {
        let policy = spec.restart_policy;
        let reached = self.start_progress(spec);
        if policy == RestartPolicy::Never
            && let Some(StartProgress::At(init)) = &reached
            && init.role == Role::Init
            && let Some(known) = self.current(init)
            && let Life::Exited { code, .. } = known.life
            && known.code_pending(draft.now).is_none()
            && !known.life.succeeded()
        {
            let container: Arc<str> = init.name.as_str().into();
            let why = Why::InitContainerFailed {
                container,
                exit_code: code,
            };
            return Course::Over { failed: true, why };
        }
        let is_done = |spec: &ContainerSpec| {
            self.current(spec).is_some_and(|known| {
                known.life.is_over()
                    && known.code_pending(draft.now).is_none()
                    && !needs_restart(policy, spec.role, known)
            })
        };
        let succeeded = |spec: &ContainerSpec| {
            self.current(spec)
                .is_some_and(|known| known.life.succeeded())
        };
        let why = Why::PodFinished;
        let failed = !spec.main_containers().all(succeeded);
        if spec.main_containers().all(is_done) {
            return Course::Over { failed, why };
        }
        // As in the kubelet, a pod that restarts nothing is over if its sandbox has stopped after a
        // container was created.
        let has_no_sandbox =
            self.sandboxes.ready().next().is_none() && self.sandboxes.newest().is_some();
        let has_containers = self.slots.values().any(|slot| !slot.known.is_empty());
        if policy == RestartPolicy::Never
            && has_no_sandbox
            && has_containers
            && self.visibility != Visibility::Blind
        {
            let why = Why::SandboxNotReady;
            return Course::Over { failed: true, why };
        }
        Course::Continues
    }

    /// The progress of the pod's start, by the last container that was created. Containers before
    /// it may have been removed.
    fn start_progress<'a>(&self, spec: &'a PodSpec) -> Option<StartProgress<'a>> {
        let has_not_exited = |spec: &ContainerSpec| {
            self.current(spec)
                .is_some_and(|known| !known.life.is_over())
        };
        // A container that has exited may have run in an earlier sandbox, so it does not show that
        // the init containers have run in this one.
        if spec.main_containers().any(has_not_exited) {
            return Some(StartProgress::All);
        }
        let mut init: Vec<_> = spec.init_containers().collect();
        init.reverse();
        if init.is_empty() {
            return Some(StartProgress::All);
        }
        let is_known = |spec: &&ContainerSpec| self.current(spec).is_some();
        init.into_iter().find(is_known).map(StartProgress::At)
    }

    fn plan_containers(
        &self,
        spec: &PodSpec,
        target: &TargetSandbox,
        health: &Health,
        draft: &mut Draft,
    ) {
        let init: Vec<_> = spec.init_containers().collect();
        // The position of the first container that must start or finish.
        let next = match self.start_progress(spec) {
            None => 0,
            Some(StartProgress::All) => init.len(),
            Some(StartProgress::At(reached)) => {
                let position = init.iter().position(|it| it.name == reached.name);
                let position = position.unwrap_or(0);
                position + usize::from(self.can_start_next(reached, health, draft))
            }
        };
        for (position, container) in init.iter().enumerate() {
            let is_unknown = self
                .current(container)
                .is_some_and(|known| known.life == Life::Unknown);
            // An init container of unknown state may still run beside the containers after it.
            let is_kept = container.role == Role::Sidecar || is_unknown;
            if position == next || (position < next && is_kept) {
                self.plan_container((spec, container), target, health, draft);
            } else if position > next {
                draft.container_waits(&container.name.as_str().into(), Why::PodInitializing);
            }
        }
        for container in spec.main_containers() {
            if next == init.len() {
                self.plan_container((spec, container), target, health, draft);
            } else {
                draft.container_waits(&container.name.as_str().into(), Why::PodInitializing);
            }
        }
    }

    /// Whether the container after this one can be started.
    fn can_start_next(&self, spec: &ContainerSpec, health: &Health, draft: &Draft) -> bool {
        let slot = self.slots.get(spec.name.as_str());
        let Some((id, known)) = slot.and_then(|slot| slot.current()) else {
            return false;
        };
        match spec.role {
            Role::Sidecar => known.life == Life::Running && health.is_started(id, &spec.probes),
            _ => known.life.succeeded() && known.code_pending(draft.now).is_none(),
        }
    }
}

/// The progress of a pod's start.
enum StartProgress<'a> {
    /// The last container that was created is this init container or sidecar.
    At(&'a ContainerSpec),
    /// All init containers and sidecars have been started.
    All,
}
