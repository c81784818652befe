//! Plays a scenario on tokio's clock.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::churn::Churning;
use super::perform::perform;
use super::{Action, Scenario, Step};
use crate::Sim;

/// An action that was performed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The time for which the action was planned, since the beginning of the scenario.
    pub at: Duration,
    /// The number of the action's line in the scenario.
    pub line: usize,
    /// The action, as it is written in a scenario.
    pub action: String,
    /// Whether the action is one of the restarts of a churn.
    pub by_churn: bool,
    /// Why the action failed, for example because the object to which it refers no longer exists.
    pub failure: Option<String>,
}

/// How a scenario ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After the last step. The node stays as it is.
    AfterLastStep,
    /// With the action `end`.
    End,
}

impl Scenario {
    /// Plays the scenario from now on, and reports each performed action. An error of `report` ends
    /// it.
    pub async fn play<E>(
        &self,
        sim: &Sim,
        mut report: impl FnMut(Played) -> Result<(), E>,
    ) -> Result<Ending, E> {
        let start = Instant::now();
        let mut steps = self.steps.iter().peekable();
        let mut churn: Option<(usize, Churning)> = None;
        loop {
            let restart = churn.as_ref().and_then(|(_, churning)| churning.next());
            let is_next = |step: &Step| restart.is_none_or(|restart| start + step.at <= restart);
            if let Some(step) = steps.next_if(|step| is_next(step)) {
                sleep_until(start + step.at).await;
                let failure = perform(sim, &step.action).err();
                report(step.played(failure))?;
                match &step.action {
                    Action::End => return Ok(Ending::End),
                    Action::Churn(begins) => {
                        let churning = |churn| (step.line, Churning::new(churn, start + step.at));
                        churn = begins.map(churning);
                    }
                    _ => {}
                }
            } else if let (Some(at), Some((line, churning))) = (restart, &mut churn) {
                sleep_until(at).await;
                // Lets other work in the same task continue, even if a restart is always due.
                yield_now().await;
                if let Some(name) = churning.restart_one(sim) {
                    report(Played {
                        at: at - start,
                        line: *line,
                        action: format!("restart {name}"),
                        by_churn: true,
                        failure: None,
                    })?;
                }
            } else {
                return Ok(Ending::AfterLastStep);
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
