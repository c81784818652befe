//! A pod that should run: which of its containers are looked after now.
//!
//! ```text
//!   over (by policy)?  --yes--> its sidecars end, its sandbox stops
//!   a sandbox?         --no---> what is left of the old one ends, a new one is created
//!   init containers and sidecars, one after the other --> then the containers, side by side
//! ```

use std::sync::Arc;

use super::draft::Draft;
use super::ending::Termination;
use super::keep::{Place, restarts};
use super::memory::{Memory, Volumes};
use super::sandbox::Need;
use super::slot::{Known, Life};
use super::view::Sight;
use super::why::Why;
use crate::probe::Health;
use crate::spec::{ContainerSpec, PodSpec, RestartPolicy, Role};

/// Whether a pod goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoesOn,
    /// Nothing of it will be started any more.
    Over {
        failed: bool,
        why: Why,
    },
}

impl Memory {
    pub(super) fn run(&mut self, spec: &PodSpec, health: &Health, draft: &mut Draft) -> Verdict {
        match self.volumes {
            Volumes::Kept => {}
            Volumes::Removed => self.volumes = Volumes::Kept,
            // The pod was to end, and is wanted again.
            Volumes::BeingRemoved => {
                draft.sandbox_waits(Why::Terminating);
                return Verdict::GoesOn;
            }
        }
        let verdict = self.verdict(spec, draft);
        if let Verdict::Over { why, .. } = &verdict {
            self.ending_since.get_or_insert(draft.now);
            let pod = Termination::from(spec);
            self.wind_down(&pod, why, draft);
        } else {
            self.ending_since = None;
            match self.sandbox_need(spec) {
                Need::Nothing { id, attempt } => {
                    let place = Place {
                        sandbox: &id,
                        attempt,
                    };
                    self.keep_containers(spec, &place, health, draft);
                }
                Need::Wait(why) => draft.sandbox_waits(why),
                Need::Another(why) => self.replace_sandbox(spec, &why, draft),
            }
        }
        self.collect_garbage(draft);
        verdict
    }

    fn current(&self, spec: &ContainerSpec) -> Option<&Known> {
        let slot = self.slots.get(spec.name.as_str())?;
        slot.current().map(|(_, known)| known)
    }

    /// Whether the pod is over: that depends only on containers that have exited, which is final.
    fn verdict(&self, spec: &PodSpec, draft: &Draft) -> Verdict {
        let policy = spec.restart_policy;
        let reached = self.reached(spec);
        if policy == RestartPolicy::Never
            && let Some(Reached::At(init)) = &reached
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
            return Verdict::Over { failed: true, why };
        }
        let is_done = |spec: &ContainerSpec| {
            self.current(spec).is_some_and(|known| {
                known.life.is_over()
                    && known.code_pending(draft.now).is_none()
                    && !restarts(policy, spec.role, known)
            })
        };
        let succeeded = |spec: &ContainerSpec| {
            self.current(spec)
                .is_some_and(|known| known.life.succeeded())
        };
        let why = Why::PodFinished;
        let failed = !spec.side_by_side().all(succeeded);
        if spec.side_by_side().all(is_done) {
            return Verdict::Over { failed, why };
        }
        // As in a kubelet: where nothing is restarted, a sandbox that has died takes the pod with
        // it, once it had a container.
        let has_no_sandbox =
            self.sandboxes.ready().next().is_none() && self.sandboxes.newest().is_some();
        let has_containers = self.slots.values().any(|slot| !slot.known.is_empty());
        if policy == RestartPolicy::Never
            && has_no_sandbox
            && has_containers
            && self.sight != Sight::Blind
        {
            let why = Why::SandboxNotReady;
            return Verdict::Over { failed: true, why };
        }
        Verdict::GoesOn
    }

    /// How far the pod's start has come, by the last container that was reached: those before it
    /// may have been removed since.
    fn reached<'a>(&self, spec: &'a PodSpec) -> Option<Reached<'a>> {
        let has_begun = |spec: &ContainerSpec| {
            self.current(spec)
                .is_some_and(|known| !known.life.is_over())
        };
        // One that has exited may have done so in an earlier sandbox, before which the init
        // containers ran, and not in this one.
        if spec.side_by_side().any(has_begun) {
            return Some(Reached::All);
        }
        let mut before: Vec<_> = spec.before().collect();
        before.reverse();
        if before.is_empty() {
            return Some(Reached::All);
        }
        let is_known = |spec: &&ContainerSpec| self.current(spec).is_some();
        before.into_iter().find(is_known).map(Reached::At)
    }

    fn keep_containers(&self, spec: &PodSpec, place: &Place, health: &Health, draft: &mut Draft) {
        let before: Vec<_> = spec.before().collect();
        // The first that is not through yet.
        let turn = match self.reached(spec) {
            None => 0,
            Some(Reached::All) => before.len(),
            Some(Reached::At(reached)) => {
                let place = before.iter().position(|it| it.name == reached.name);
                let place = place.unwrap_or(0);
                place + usize::from(self.is_through(reached, health, draft))
            }
        };
        for (place_in_order, container) in before.iter().enumerate() {
            let is_kept = place_in_order == turn
                || (place_in_order < turn && container.role == Role::Sidecar);
            if is_kept {
                self.keep((spec, container), place, health, draft);
            } else if place_in_order > turn {
                draft.waits(&container.name.as_str().into(), Why::PodInitializing);
            }
        }
        for container in spec.side_by_side() {
            if turn == before.len() {
                self.keep((spec, container), place, health, draft);
            } else {
                draft.waits(&container.name.as_str().into(), Why::PodInitializing);
            }
        }
    }

    /// Whether the next container may be started after this one.
    fn is_through(&self, spec: &ContainerSpec, health: &Health, draft: &Draft) -> bool {
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

/// How far the start of a pod has come.
enum Reached<'a> {
    /// This container was created, and none after it.
    At(&'a ContainerSpec),
    /// The containers that run side by side.
    All,
}
