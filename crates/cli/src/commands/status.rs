//! `pleg status`: whether all pods are observed, which calls are stuck, and what a kubelet would report.

use agent::{AgentChoice, AgentClient, ClientError};
use cri::Endpoint;
use pleg::out::health::HealthState;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, NoConnection, Unreachable};

use crate::args::{Format, Global, Status};
use crate::observe_once::observe_once;
use crate::{Outcome, endpoint, log, output, text};

pub async fn run(global: &Global, options: Status) -> anyhow::Result<Outcome> {
    let named = global.given_endpoint()?;
    let choice = options.agent.choice();
    if let Some(status) = of_agent(&choice, named.as_ref()).await? {
        output::ignore_gone_reader(show(global, &status))?;
        return Ok(outcome_with_agent(&status));
    }
    match of_runtime(named).await {
        Ok(status) => {
            output::ignore_gone_reader(show(global, &status))?;
            Ok(outcome_without_agent(&status))
        }
        Err(error) if is_unreachable(&error) => {
            log::final_error(&output::sentence(&error), Format::Text);
            Ok(Outcome::Problem)
        }
        Err(error) => Err(error),
    }
}

/// The status that the agent reports. If no agent was named and the default one cannot be used, logs a
/// warning that the runtime is queried directly.
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
        // Connecting to a socket that exists shows why the runtime is unreachable.
        Err(none) => endpoint::present(None).await.ok_or(none)?,
        Ok(endpoint) => endpoint,
    };
    Ok(observe_once(&endpoint).await?.status)
}

/// Whether the error means that the runtime does not listen, does not accept connections, or closes
/// them at once. A missing permission, or a file or service that is not a runtime, is not evidence
/// about the runtime.
fn is_unreachable(error: &anyhow::Error) -> bool {
    use NoConnection::{Lost, NoSocket, QueueFull, Refused};
    match error.downcast_ref() {
        Some(CallError::Unavailable(Unreachable { cause, .. })) => {
            matches!(cause, NoSocket | Refused | QueueFull | Lost)
        }
        _ => false,
    }
}

/// The outcome for the status of an agent. Degraded is not a problem: every pod except the reported
/// ones is observed.
fn outcome_with_agent(status: &StatusReport) -> Outcome {
    match status.health.state {
        // A problem at once, although the state is Degraded until the threshold.
        _ if status.health.reason.answers_no_call() => Outcome::Problem,
        HealthState::Healthy | HealthState::Degraded => Outcome::Done,
        HealthState::Unhealthy => Outcome::Problem,
        HealthState::Starting => {
            let has_failed = status.relist.last_failure.is_some();
            match has_failed || has_failing_call(status) {
                true => Outcome::Problem,
                false => Outcome::Unknown,
            }
        }
    }
}

/// The outcome of one observation without an agent: any stuck or failing call is a problem.
fn outcome_without_agent(status: &StatusReport) -> Outcome {
    match has_failing_call(status) {
        true => Outcome::Problem,
        false => outcome_with_agent(status),
    }
}

fn has_failing_call(status: &StatusReport) -> bool {
    !status.stuck.is_empty() || !status.failing.is_empty()
}

fn show(global: &Global, status: &StatusReport) -> anyhow::Result<()> {
    output::show(global.format(), status, || {
        let page = text::status::page(status);
        text::fit(&page, text::status::INDENT, text::terminal_columns())
    })
}
