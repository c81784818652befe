//! Playing a scenario, by tokio's clock.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::churn::Churning;
use super::perform::perform;
use super::{Action, Scenario, Step};
use crate::Sim;

/// Something that a scenario did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// When it was to be, from the beginning.
    pub at: Duration,
    /// The line that said so.
    pub line: usize,
    /// What was done, in the words of a scenario.
    pub action: String,
    /// Whether it is one of the restarts of a churn.
    pub by_churn: bool,
    /// Why it could not be done: what it speaks of is not there any more.
    pub failure: Option<String>,
}

/// How a scenario ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing more will happen; what is, stays.
    Quiet,
    /// It said `end`.
    End,
}

impl Scenario {
    /// Plays it from now on, and tells each thing that it does. An error of the listener
    /// ends it.
    pub async fn play<E>(
        &self,
        sim: &Sim,
        mut tell: impl FnMut(Played) -> Result<(), E>,
    ) -> Result<Ending, E> {
        let begun = Instant::now();
        let mut steps = self.steps.iter().peekable();
        let mut churn: Option<(usize, Churning)> = None;
        loop {
            let restart = churn.as_ref().and_then(|(_, churning)| churning.next());
            let due = |step: &Step| restart.is_none_or(|restart| begun + step.at <= restart);
            if let Some(step) = steps.next_if(|step| due(step)) {
                sleep_until(begun + step.at).await;
                let failure = perform(sim, &step.action).err();
                tell(step.played(failure))?;
                match &step.action {
                    Action::End => return Ok(Ending::End),
                    Action::Churn(begins) => {
                        let churning = |churn| (step.line, Churning::new(churn, begun + step.at));
                        churn = begins.map(churning);
                    }
                    _ => {}
                }
            } else if let (Some(at), Some((line, churning))) = (restart, &mut churn) {
                sleep_until(at).await;
                // Whoever is served in the same task has a turn too.
                yield_now().await;
                if let Some(name) = churning.restart_one(sim) {
                    tell(Played {
                        at: at - begun,
                        line: *line,
                        action: format!("restart {name}"),
                        by_churn: true,
                        failure: None,
                    })?;
                }
            } else {
                return Ok(Ending::Quiet);
            }
        }
    }
}

impl Step {
    fn played(&self, failure: Option<String>) -> Played {
        Played {
            at: self.at,
            line: self.line,
            action: self.written().to_owned(),
            by_churn: false,
            failure,
        }
    }
}
