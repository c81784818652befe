//! `pleg pods`: all pods with their sandboxes and containers.

use agent::{AgentClient, pod_reports};
use anyhow::bail;
use cri::Endpoint;
use pleg::out::health::HealthState;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;

use crate::args::{Format, Global, Pods};
use crate::look::look;
use crate::{Found, endpoint, output, text};

pub async fn run(global: &Global, options: Pods) -> anyhow::Result<Found> {
    let named = global.named_endpoint()?;
    let choice = options.agent.choice();
    // An agent has seen the pods before whatever hangs now began to.
    let (mut pods, status) = match AgentClient::find(&choice, named.as_ref()).await? {
        Some((agent, status)) => (of_agent(&agent, &status).await?, status),
        None => look_at_pods(&endpoint::find(named).await?).await?,
    };
    let is_healthy = status.health.state == HealthState::Healthy;
    let is_said = !status.stuck.is_empty() || pods.iter().any(|pod| pod.error.is_some());
    match is_healthy {
        true => {}
        // It also says what may be missing.
        false if !is_said || !status.blind.is_empty() => {
            tracing::warn!("{}: {}", status.health.state, status.health.message);
        }
        false => {
            for stuck in &status.stuck {
                tracing::warn!("{stuck}");
            }
        }
    }
    pods.retain(|pod| {
        options
            .filter
            .shows(&pod.status.namespace, &pod.status.name)
    });
    pods.sort_by(|PodReport { status: a, .. }, PodReport { status: b, .. }| {
        (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
    });
    for pod in &pods {
        if let Some(error) = &pod.error {
            tracing::warn!(
                "showing the last known status of {}: {error}",
                pod.status.pod()
            );
        }
    }
    let shown = match global.output {
        Format::Json => output::json(&pods),
        Format::Text => output::text(&text::pods::table(&pods)),
    };
    output::read_enough(shown)?;
    let is_well = is_healthy && pods.iter().all(|pod| pod.error.is_none());
    Ok(if is_well { Found::Well } else { Found::Problem })
}

async fn of_agent(agent: &AgentClient, status: &StatusReport) -> anyhow::Result<Vec<PodReport>> {
    if status.relist.count == 0 {
        let why = text::sentence(&status.health.message);
        bail!("the agent has not seen the pods yet: {why}");
    }
    Ok(agent.pods().await?)
}

async fn look_at_pods(endpoint: &Endpoint) -> anyhow::Result<(Vec<PodReport>, StatusReport)> {
    let look = look(endpoint).await?;
    if look.status.relist.count == 0 {
        let why = text::sentence(&look.status.health.message);
        bail!("no pod can be shown: {why}");
    }
    Ok((pod_reports(&look.pleg), look.status))
}
