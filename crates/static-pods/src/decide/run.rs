//! A pod that must run: which of its containers need a step now.
//!
//! ```text
//!   finished, by its policy?  --yes--> its sidecars end, its sandbox stops
//!   a sandbox?                --no---> the old sandbox ends, a new one is created
//!   init containers and sidecars, one after the other --> then the containers, in parallel
//! ```

use super::container::needs_restart;
use super::draft::Draft;
use super::ending::Termination;
use super::memory::{Memory, Volumes};
use super::sandbox::SandboxNeed;
use super::sandboxes::KnownSandbox;
use super::slot::{KnownContainer, Life};
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
                SandboxNeed::Ready(sandbox) => self.plan_containers(spec, sandbox, health, draft),
                SandboxNeed::Wait(why) => draft.sandbox_waits(why),
                SandboxNeed::Create(why) => self.replace_sandbox(spec, &why, draft),
            }
        }
        self.collect_garbage(draft);
        course
    }

    fn current(&self, spec: &ContainerSpec) -> Option<&KnownContainer> {
        self.slots.get(spec.name.as_str())?.current()
    }

    /// Whether the pod is over: its main containers have finished and none of them is restarted, or
    /// its restart policy is `Never` and an init container has failed or its sandbox has stopped.
    fn course(&self, spec: &PodSpec, draft: &Draft) -> Course {
        let policy = spec.restart_policy;
        let init: Vec<_> = spec.init_containers().collect();
        let last = self.start_position(spec, &init);
        if policy == RestartPolicy::Never
            && let Some(init) = last.and_then(|last| init.get(last))
            && init.role == Role::Init
            && let Some(known) = self.current(init)
            && let Life::Exited { code, .. } = known.life
            && known.code_pending(draft.now).is_none()
            && !known.life.succeeded()
        {
            let why = Why::InitContainerFailed {
                container: known.name.clone(),
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
        if spec.main_containers().all(is_done) {
            let has_succeeded = |spec: &ContainerSpec| {
                let known = self.current(spec);
                known.is_some_and(|known| known.life.succeeded())
            };
            let failed = !spec.main_containers().all(has_succeeded);
            let why = Why::PodFinished;
            return Course::Over { failed, why };
        }
        // As in the kubelet, a pod that restarts nothing is over if its sandbox has stopped after a
        // container was created.
        if policy == RestartPolicy::Never
            && self.sandboxes.ready().next().is_none()
            && self.sandboxes.newest().is_some()
            && self.containers().next().is_some()
            && self.can_observe()
        {
            let why = Why::SandboxNotReady;
            return Course::Over { failed: true, why };
        }
        Course::Continues
    }

    /// The position of the last container in `init` (the pod's init containers and sidecars) that
    /// exists; `init.len()` if `init` is empty or a main container was created and has not exited;
    /// `None` if none of `init` exists. Containers before that position may have been removed.
    fn start_position(&self, spec: &PodSpec, init: &[&ContainerSpec]) -> Option<usize> {
        let has_not_exited = |spec: &ContainerSpec| {
            let known = self.current(spec);
            known.is_some_and(|known| !known.life.is_over())
        };
        // A container that has exited may have run in an earlier sandbox, so it does not show that
        // the init containers have run in this one.
        if init.is_empty() || spec.main_containers().any(has_not_exited) {
            return Some(init.len());
        }
        init.iter().rposition(|spec| self.current(spec).is_some())
    }

    fn plan_containers(
        &self,
        spec: &PodSpec,
        sandbox: &KnownSandbox,
        health: &Health,
        draft: &mut Draft,
    ) {
        let init: Vec<_> = spec.init_containers().collect();
        // The position of the first container that must start or finish.
        let next = self.start_position(spec, &init).map_or(0, |last| {
            let last_is_done = init
                .get(last)
                .is_some_and(|spec| self.can_start_next(spec, health, draft));
            last + usize::from(last_is_done)
        });
        for (index, container) in spec.containers.iter().enumerate() {
            // The containers after the init containers start together.
            let position = index.min(init.len());
            let known = self.current(container);
            // An init container in an unknown state may still run beside the containers after it.
            let is_kept = container.role == Role::Sidecar
                || known.is_some_and(|known| known.life == Life::Unknown);
            if position == next || (position < next && is_kept) {
                self.plan_container((spec, container), sandbox, health, draft);
            } else if position > next {
                draft.container_waits(&container.name.as_str().into(), Why::PodInitializing);
            }
        }
    }

    /// Whether the container after this one can be started.
    fn can_start_next(&self, spec: &ContainerSpec, health: &Health, draft: &Draft) -> bool {
        self.current(spec).is_some_and(|known| match spec.role {
            Role::Sidecar => {
                known.life == Life::Running && health.is_started(&known.id, &spec.probes)
            }
            _ => known.life.succeeded() && known.code_pending(draft.now).is_none(),
        })
    }
}
