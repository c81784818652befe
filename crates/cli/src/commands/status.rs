//! `pleg status`: are all pods seen, what hangs, and what would a kubelet say.

use agent::AgentClient;
use pleg::out::health::HealthState;
use pleg::out::status_report::StatusReport;

use crate::args::{Format, Global, Status};
use crate::look::look;
use crate::{Found, endpoint, output, text};

pub async fn run(global: &Global, options: Status) -> anyhow::Result<Found> {
    let named = global.named_endpoint()?;
    let choice = options.agent.choice();
    let (status, found) = match AgentClient::find(&choice, named.as_ref()).await? {
        Some((_, status)) => {
            let found = found_by_agent(&status);
            (status, found)
        }
        None => {
            let endpoint = endpoint::find(named).await?;
            let status = look(&endpoint).await?.status;
            let found = found_by_look(&status);
            (status, found)
        }
    };
    output::read_enough(show(global, &status))?;
    Ok(found)
}

/// An agent that is Degraded sees every pod but those it names, which is what it is for.
fn found_by_agent(status: &StatusReport) -> Found {
    match status.health.state {
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
