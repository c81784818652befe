//! `pleg status`: are all pods seen, what hangs, and what would a kubelet say.

use anyhow::bail;
use pleg::health::HealthState;
use pleg::status_report::StatusReport;

use crate::agent_client::AgentClient;
use crate::args::{Format, Global, Status};
use crate::look::look;
use crate::{Found, endpoint, output, text};

pub async fn run(global: &Global, options: Status) -> anyhow::Result<Found> {
    let named = global.named_endpoint()?;
    let (status, found) = match AgentClient::find(&options.agent, named.as_ref()).await? {
        Some((_, status)) => {
            let unhealthy = status.health.state == HealthState::Unhealthy;
            (status, problem_if(unhealthy))
        }
        None => {
            let endpoint = endpoint::find(named).await?;
            let status = look(&endpoint).await?.status;
            if status.relist.count == 0 && status.stuck.is_empty() {
                bail!("{}", text::sentence(&status.health.message));
            }
            let hung = !status.stuck.is_empty();
            (status, problem_if(hung))
        }
    };
    show(global, &status)?;
    Ok(found)
}

fn problem_if(problem: bool) -> Found {
    if problem { Found::Problem } else { Found::Well }
}

fn show(global: &Global, status: &StatusReport) -> anyhow::Result<()> {
    match global.output {
        Format::Json => output::json(status),
        Format::Text => output::text(&text::status::page(status)),
    }
}
