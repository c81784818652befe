//! `pleg status`: whether all pods are observed, which calls are stuck, and what a kubelet would report.

use agent::{AgentChoice, AgentClient, ClientError};
use cri::Endpoint;
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, NoConnection, Unreachable};

use crate::args::{Format, Global, Status};
use crate::observe_once::observe_once;
use crate::{Outcome, endpoint, log, output, text};

pub async fn run(global: &Global, options: Status) -> anyhow::Result<Outcome> {
    let named = global.given_endpoint()?;
    let choice = options.agent.choice();
    let (status, outcome) = match of_agent(&choice, named.as_ref()).await? {
        Some(status) => {
            let outcome = outcome_with_agent(&status);
            (status, outcome)
        }
        None => match of_runtime(named).await {
            Ok(status) => {
                let outcome = outcome_without_agent(&status);
                (status, outcome)
            }
            Err(error) if is_unreachable(&error) => {
                log::final_error(&output::sentence(&error), Format::Text);
                return Ok(Outcome::Problem);
            }
            Err(error) => return Err(error),
        },
    };
    output::ignore_gone_reader(show(global, &status))?;
    Ok(outcome)
}

/// The status that the agent reports. If there is none, a warning says that the status shown is not
/// the agent's.
async fn of_agent(
    choice: &AgentChoice,
    named: Option<&Endpoint>,
) -> Result<Option<StatusReport>, ClientError> {
    if *choice != AgentChoice::Default {
        let agent = AgentClient::find(choice, named).await?;
        return Ok(agent.map(|(_, status)| status));
    }
    match AgentClient::default_agent(named).await {
        Ok((_, status)) => Ok(Some(status)),
        Err(error) => {
            let ignored = match error {
                ClientError::Untrusted { .. } => "ignored: ",
                _ => "",
            };
            let why = output::sentence(&error.into());
            tracing::warn!("{ignored}{why}; the runtime is queried directly");
            Ok(None)
        }
    }
}

async fn of_runtime(named: Option<Endpoint>) -> anyhow::Result<StatusReport> {
    let endpoint = match endpoint::find(named).await {
        // Connecting to the socket that is there shows why it is unreachable.
        Err(none) => endpoint::present(None).await.ok_or(none)?,
        Ok(endpoint) => endpoint,
    };
    Ok(observe_once(&endpoint).await?.status)
}

/// Whether the runtime does not listen, or closes each connection. A missing permission, or a file or
/// service that is no runtime, is not evidence about the runtime.
fn is_unreachable(error: &anyhow::Error) -> bool {
    use NoConnection::{Lost, NoSocket, QueueFull, Refused};
    match error.downcast_ref() {
        Some(CallError::Unavailable(Unreachable { cause, .. })) => {
            matches!(cause, NoSocket | Refused | QueueFull | Lost)
        }
        _ => false,
    }
}

/// The outcome for the status of an agent. Degraded is no problem: every pod but those reported is
/// observed.
fn outcome_with_agent(status: &StatusReport) -> Outcome {
    match status.health.state {
        // A problem at once, although the state is Degraded until the threshold.
        _ if is_runtime_away(status.health.reason) => Outcome::Problem,
        HealthState::Healthy | HealthState::Degraded => Outcome::Done,
        HealthState::Unhealthy => Outcome::Problem,
        HealthState::Starting if has_failure(status) => Outcome::Problem,
        HealthState::Starting => Outcome::Unknown,
    }
}

/// The outcome of one observation without an agent: any stuck or failing call is a problem.
fn outcome_without_agent(status: &StatusReport) -> Outcome {
    match status.stuck.is_empty() && status.failing.is_empty() {
        true => outcome_with_agent(status),
        false => Outcome::Problem,
    }
}

fn is_runtime_away(reason: Reason) -> bool {
    matches!(reason, Reason::RuntimeUnreachable | Reason::RuntimeSilent)
}

fn has_failure(status: &StatusReport) -> bool {
    let failed = status.relist.last_failure.is_some();
    failed || !status.stuck.is_empty() || !status.failing.is_empty()
}

fn show(global: &Global, status: &StatusReport) -> anyhow::Result<()> {
    match global.output {
        Format::Json => output::json(status),
        Format::Text => {
            let page = text::status::page(status);
            let columns = text::terminal_columns();
            output::text(&text::fit(&page, text::status::INDENT, columns))
        }
    }
}
