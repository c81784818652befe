//! `pleg pods`: all pods with their sandboxes and containers.

use anyhow::bail;
use pleg::status::PodStatus;
use pleg::status_report::StatusReport;

use crate::agent_client::AgentClient;
use crate::args::{Format, Global, Pods};
use crate::look::look;
use crate::{Found, endpoint, output, text};

pub async fn run(global: &Global, options: Pods) -> anyhow::Result<Found> {
    let named = global.named_endpoint()?;
    // An agent has seen the pods before whatever hangs now began to.
    let (mut pods, status) = match AgentClient::find(&options.agent, named.as_ref()).await? {
        Some((agent, status)) => (agent.pods().await?, status),
        None => look_at_pods(&endpoint::find(named).await?).await?,
    };
    for stuck in &status.stuck {
        tracing::warn!("{stuck}");
    }
    pods.retain(|pod| options.filter.shows(&pod.namespace, &pod.name));
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    match global.output {
        Format::Json => output::json(&pods)?,
        Format::Text => output::text(&text::pods::table(&pods))?,
    }
    Ok(if status.stuck.is_empty() {
        Found::Well
    } else {
        Found::Problem
    })
}

async fn look_at_pods(endpoint: &cri::Endpoint) -> anyhow::Result<(Vec<PodStatus>, StatusReport)> {
    let look = look(endpoint).await?;
    if look.status.relist.count == 0 {
        let why = text::sentence(&look.status.health.message);
        bail!("the pods cannot be listed: {why}");
    }
    let entries = look.pleg.cache().all().into_iter();
    let pods = entries.map(|entry| PodStatus::clone(&entry.status));
    Ok((pods.collect(), look.status))
}
