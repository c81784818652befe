//! What a pod needs next: a pure function of what is wanted, what was seen, and what was done.
//!
//! ```text
//!   Want: run this PodSpec | end this pod --------+
//!   View: the PLEG's entry, and what it proves ---+--> Memory::decide --> Decision
//!   Health: what the probes found ----------------+      |     ^            steps, each with a Why
//!                                                        v     |            wake_at, look_after
//!                                            noted as begun    |            report: phase, states
//!                                                              |
//!                             Memory::ended <-- Outcome -- the steps are performed, side by side
//! ```
//!
//! The rules are those of a kubelet's `computePodActions`. What is different is how a doubled
//! container is prevented. A kubelet believes each listing; here a [`Memory`] keeps a ledger of
//! all containers and sandboxes of the pod, and
//!
//! - nobody but us creates anything of the pod, so after one complete look and with the outcome of
//!   each creation of ours known, the ledger *is* all that there is, whatever hangs;
//! - a container that has exited never runs again, however old the view is that shows it; a
//!   sandbox has stopped only once the runtime has answered that it has;
//! - so an [`Attempt`], without which there is no creation, is made only where the ledger has no
//!   container of that name that has not exited, and no creation whose outcome is not known;
//! - attempts count on from the highest that was seen, and runtimes reserve names by attempt: a
//!   creation that an earlier run left behind in the runtime and that we cannot know of bears the
//!   same name as ours, and only one of them can be.
//!
//! A run that was killed leaves nothing but what the runtime has; its successor decides from that
//! as any run does.

mod attempts;
mod draft;
mod ending;
mod keep;
mod memory;
mod phase;
mod progress;
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

pub use ending::{LastContainer, Termination};
pub use memory::Memory;
pub use phase::Phase;
pub use report::{ContainerReport, ContainerView, Exit, Report};
pub use step::{Attempt, Outcome, Planned, Step};
pub use view::{Sight, View};
pub use why::Why;

use crate::probe::Health;
use crate::spec::PodSpec;
use draft::Draft;

/// What is wanted of a pod.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// It runs as this manifest says.
    Run(&'a PodSpec),
    /// It ends, and nothing of it is left.
    End {
        /// What it takes, also where the manifest is gone.
        pod: &'a Termination,
        /// Why it ends.
        why: &'a Why,
    },
}

/// What a pod needs next.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What is to be done now, side by side. It is noted as begun already.
    pub steps: Vec<Planned>,
    /// When to decide again if nothing happens until then. Besides: after each new view, each
    /// change of [`Health`], and each step that has ended.
    pub wake_at: Option<Instant>,
    /// Something waits for a look that is complete and was begun after this: to be asked for by
    /// `Pleg::request_relist` and waited for by `Cache::newer_than`, which alone can tell that a pod
    /// is not in the runtime ([`View::not_found`]).
    pub look_after: Option<Instant>,
    /// The pod's state, to be shown.
    pub report: Report,
    /// Nothing is left of a pod that was to end: the memory may be forgotten.
    pub is_gone: bool,
}

impl Memory {
    /// Takes in what was seen and decides what to do now. The steps are noted as begun.
    pub fn decide(&mut self, want: Want, view: &View, health: &Health, now: Instant) -> Decision {
        self.see(view, now);
        let mut draft = Draft::new(now);
        let verdict = match want {
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
        let is_waiting = !is_gone && (draft.wants_look || self.sight == Sight::Blind);
        let report = self.report(want, verdict, view, health, &draft);
        if let Want::Run(_) = want {
            self.wanted_phase = Some(report.phase);
        }
        Decision {
            report,
            look_after: self.look_after().filter(|_| is_waiting),
            steps: draft.steps,
            wake_at: draft.wake_at,
            is_gone,
        }
    }
}

#[cfg(test)]
mod tests;
