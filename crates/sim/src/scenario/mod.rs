//! Scenarios: text that defines what happens to a node, and when.
//!
//! ```text
//!   text --parse (pure)--> Scenario: steps --check--> does the node have all named pods and containers?
//!                                     \---play---> Sim, on tokio's clock: pods, faults, stream
//! ```
//!
//! Each line is a time and an action. `docs/sim.md` describes all actions.

use std::ops::Range;
use std::time::Duration;

mod action;
mod churn;
mod perform;
mod play;
mod verbs;
mod words;

pub use action::{Action, Calls, Churn, ContainerName, ExitReport, Lifted, Target};
pub use play::{Ending, Played};
pub use words::ScenarioError;

use words::Words;

/// A list of actions on a node, each with its time.
///
/// ```
/// use sim::{Ending, Scenario, Sim};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "
///     0s   run web nginx
///     5s   hang ContainerStatus of web/nginx   # until it is lifted
///     +1m  lift all
/// ";
/// let scenario = Scenario::parse("example", text)?;
/// assert_eq!(scenario.steps().len(), 3);
///
/// let sim = Sim::new();
/// let ending = scenario
///     .play(&sim, |played| {
///         println!("{:?} {}", played.at, played.action);
///         Ok::<(), std::io::Error>(())
///     })
///     .await?;
/// assert_eq!(ending, Ending::AfterLastStep);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    name: String,
    steps: Vec<Step>,
}

/// A line of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time of the action, since the beginning of the scenario.
    pub at: Duration,
    /// The action.
    pub action: Action,
    /// The number of the line, from 1.
    pub line: usize,
    /// The whole line.
    text: String,
    /// The part of the line that is the action.
    written: Range<usize>,
}

impl Step {
    /// The action as it was written.
    pub fn written(&self) -> &str {
        &self.text[self.written.clone()]
    }
}

impl Scenario {
    /// Parses a scenario. `name` identifies it in errors, for example by its file name. A step whose time is
    /// before that of the previous one is an error.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let mut steps = Vec::new();
        let mut last = Duration::ZERO;
        for (number, line) in (1..).zip(text.lines()) {
            let mut words = Words::new(line);
            let step = step(&mut words, last, number);
            let step = step.map_err(|wrong| wrong.at(name, number, line))?;
            last = step.as_ref().map_or(last, |step| step.at);
            steps.extend(step);
        }
        let name = name.to_owned();
        Ok(Self { name, steps })
    }

    /// The steps, in the order of their times.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// Parses a line; `None` if it has no action.
fn step(
    words: &mut Words<'_>,
    last: Duration,
    line: usize,
) -> Result<Option<Step>, words::Unexpected> {
    if words.is_at_end() {
        return Ok(None);
    }
    let at = words.time(last)?;
    let written = words.remaining();
    let action = verbs::action(words)?;
    words.end()?;
    Ok(Some(Step {
        at,
        action,
        line,
        text: words.line().to_owned(),
        written,
    }))
}

#[cfg(test)]
mod tests;
