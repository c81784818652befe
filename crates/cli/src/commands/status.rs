//! `pleg status`: are all pods seen, what hangs, and what would a kubelet say.

use agent::{AgentChoice, AgentClient, ClientError};
use cri::Endpoint;
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, NoConnection, Unreachable};

use crate::args::{Format, Global, Status};
use crate::look::look;
use crate::{Found, endpoint, log, output, text};

pub async fn run(global: &Global, options: Status) -> anyhow::Result<Found> {
    let named = global.named_endpoint()?;
    let choice = options.agent.choice();
    let (status, found) = match of_agent(&choice, named.as_ref()).await? {
        Some(status) => {
            let found = found_by_agent(&status);
            (status, found)
        }
        None => match of_runtime(named).await {
            Ok(status) => {
                let found = found_by_look(&status);
                (status, found)
            }
            Err(error) if is_unreachable(&error) => {
                log::last_words(&output::sentence(&error), Format::Text);
                return Ok(Found::Problem);
            }
            Err(error) => return Err(error),
        },
    };
    output::read_enough(show(global, &status))?;
    Ok(found)
}

/// The status of the agent. Without an answer, a reader of the status is to know that it is not
/// the agent's.
async fn of_agent(
    choice: &AgentChoice,
    named: Option<&Endpoint>,
) -> Result<Option<StatusReport>, ClientError> {
    if *choice != AgentChoice::Default {
        let found = AgentClient::find(choice, named).await?;
        return Ok(found.map(|(_, status)| status));
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
    Ok(look(&endpoint).await?.status)
}

/// Whether the runtime does not listen, or ends each connection. A missing right, and a file or a
/// service that is no runtime, say nothing about the runtime.
fn is_unreachable(error: &anyhow::Error) -> bool {
    use NoConnection::{Lost, NoSocket, QueueFull, Refused};
    match error.downcast_ref() {
        Some(CallError::Unavailable(Unreachable { cause, .. })) => {
            matches!(cause, NoSocket | Refused | QueueFull | Lost)
        }
        _ => false,
    }
}

/// An agent that is Degraded sees every pod but those it names, which is what it is for.
fn found_by_agent(status: &StatusReport) -> Found {
    match status.health.state {
        // It lasts for less than the threshold, and is a problem at once.
        _ if is_away(status.health.reason) => Found::Problem,
        HealthState::Healthy | HealthState::Degraded => Found::Well,
        HealthState::Unhealthy => Found::Problem,
        HealthState::Starting if is_in_trouble(status) => Found::Problem,
        HealthState::Starting => Found::Unknown,
    }
}

/// A look sees whether a call hangs or fails, and knows nothing of before.
fn found_by_look(status: &StatusReport) -> Found {
    match status.stuck.is_empty() && status.failing.is_empty() {
        true => found_by_agent(status),
        false => Found::Problem,
    }
}

fn is_away(reason: Reason) -> bool {
    matches!(reason, Reason::RuntimeUnreachable | Reason::RuntimeSilent)
}

fn is_in_trouble(status: &StatusReport) -> bool {
    let failed = status.relist.last_failure.is_some();
    failed || !status.stuck.is_empty() || !status.failing.is_empty()
}

fn show(global: &Global, status: &StatusReport) -> anyhow::Result<()> {
    match global.output {
        Format::Json => output::json(status),
        Format::Text => output::text(&text::status::page(status)),
    }
}
