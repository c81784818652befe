//! Decides what a pod needs next. Pure: what is wanted, what was observed and the time are
//! arguments.
//!
//! ```text
//!   Want: run this PodSpec | end this pod ---+
//!   View: the PLEG's entry ------------------+--> Memory::decide --> Decision
//!   Health: the results of the probes -------+         ^               steps, each with a Why
//!                                                      |               wake_at, needs_view_after
//!                                                      |               report: phase, states
//!                                                      |
//!                      Memory::note_outcome <-- Outcome -- the steps are performed in parallel
//! ```
//!
//! The rules are those of the kubelet's `computePodActions`, except for how a second copy of a
//! container is prevented. A kubelet trusts each list. Here a `Memory` records all containers and
//! sandboxes of the pod:
//!
//! - Only we create containers and sandboxes of the pod. So after one complete view, and if the
//!   outcome of each creation is known, the memory contains everything that exists, even if calls
//!   hang.
//! - A container that has exited never runs again, so even an old view that shows the exit is
//!   enough. A sandbox counts as stopped only when the runtime has answered that it has stopped it.
//! - A creation needs an `Attempt`. There is one only if all containers of that name have exited,
//!   and the outcome of each creation is known.
//! - Attempts continue from the highest that was observed, and runtimes reserve names by attempt.
//!   If the runtime still performs a creation of an earlier run that was not observed, that one has
//!   the same name as the next creation, and the runtime accepts only one of the two.
//!
//! If a run is killed, the next one decides from what the runtime shows.

mod attempts;
mod container;
mod draft;
mod ending;
mod memory;
mod outcomes;
mod phase;
mod report;
mod retry;
mod run;
mod sandbox;
mod sandboxes;
mod slot;
mod step;
mod view;
mod why;

use tokio::time::Instant;

pub use ending::{ContainerTermination, Termination};
pub(crate) use memory::{MIN_GRACE_PERIOD, Memory};
pub use phase::Phase;
pub use report::{ContainerReport, ContainerView, Exit, Report};
pub use retry::{Failure, Pause};
pub(crate) use step::{Attempt, Outcome, Planned, Step};
pub(crate) use view::View;
pub use why::Why;

use crate::probe::Health;
use crate::spec::PodSpec;
use draft::Draft;

/// The goal for a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want<'a> {
    /// The pod must run by this specification.
    Run(&'a PodSpec),
    /// The pod must end, and everything that belongs to it must be removed.
    End { pod: &'a Termination, why: &'a Why },
}

/// What a pod needs next.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// The steps to perform now, in parallel. The memory has noted them as started.
    pub(crate) steps: Vec<Planned>,
    /// When to decide again. In addition, decide again after each new view, each change of
    /// [`Health`], and each step that has ended.
    pub(crate) wake_at: Option<Instant>,
    /// If this is set, the decision waits for a complete view as of a later time. Request it with
    /// `Pleg::request_relist`, and wait for it with `Cache::newer_than`, which also reports that a
    /// pod is not in the runtime ([`View::not_found`]).
    pub(crate) needs_view_after: Option<Instant>,
    pub(crate) report: Report,
    /// Whether the pod has ended and everything that belongs to it is removed. Then the memory can
    /// be dropped.
    pub(crate) is_gone: bool,
}

impl Memory {
    /// Applies a view, and decides what to do now. The steps are noted as started.
    pub(crate) fn decide(
        &mut self,
        want: Want,
        view: &View,
        health: &Health,
        now: Instant,
    ) -> Decision {
        self.observe(view, now);
        let mut draft = Draft::new(now);
        let course = match want {
            Want::Run(spec) => Some(self.run(spec, health, &mut draft)),
            Want::End { pod, why } => {
                self.end(pod, why, &mut draft);
                None
            }
        };
        for planned in &draft.steps {
            self.begin(planned, now);
        }
        let is_gone = matches!(want, Want::End { .. }) && self.is_gone();
        let is_waiting = !is_gone && (draft.needs_view || !self.can_observe());
        let report = self.report(want, course, view, health, &draft);
        if let Want::Run(_) = want {
            self.wanted_phase = Some(report.phase);
        }
        Decision {
            report,
            needs_view_after: self.needs_view_after().filter(|_| is_waiting),
            steps: draft.steps,
            wake_at: draft.wake_at,
            is_gone,
        }
    }
}

#[cfg(test)]
mod tests;
