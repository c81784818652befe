//! `pleg pods`: all pods with their sandboxes and containers.

use agent::{AgentClient, pod_reports};
use anyhow::bail;
use cri::Endpoint;
use pleg::out::health::{HealthState, Reason};
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;

use crate::args::{Format, Global, Pods};
use crate::observe_once::observe_once;
use crate::{Outcome, endpoint, output, text};

pub async fn run(global: &Global, options: Pods) -> anyhow::Result<Outcome> {
    let named = global.given_endpoint()?;
    let choice = options.agent.choice();
    // An agent has observed the pods before the current fault began.
    let (mut pods, status) = match AgentClient::find(&choice, named.as_ref()).await? {
        Some((agent, status)) => (of_agent(&agent, &status).await?, status),
        None => of_runtime(&endpoint::find(named).await?).await?,
    };
    let is_healthy = status.health.state == HealthState::Healthy;
    let is_reported = !status.stuck.is_empty() || pods.iter().any(|pod| pod.error.is_some());
    match is_healthy {
        true => {}
        // The message also says which pods may be missing.
        false if !is_reported || !status.blind.is_empty() => {
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
        Format::Text => {
            let health = &status.health;
            let is_unresponsive = matches!(
                health.reason,
                Reason::RuntimeSilent | Reason::RuntimeUnreachable
            );
            let unresponsive_since = is_unresponsive.then_some(health.since);
            output::text(&text::pods::table(&pods, unresponsive_since, &status.stuck))
        }
    };
    output::ignore_gone_reader(shown)?;
    let is_complete = is_healthy && pods.iter().all(|pod| pod.error.is_none());
    Ok(if is_complete {
        Outcome::Done
    } else {
        Outcome::Problem
    })
}

async fn of_agent(agent: &AgentClient, status: &StatusReport) -> anyhow::Result<Vec<PodReport>> {
    if status.relist.count == 0 {
        let why = text::sentence(&status.health.message);
        bail!("the agent has not observed the pods yet: {why}");
    }
    Ok(agent.pods().await?)
}

async fn of_runtime(endpoint: &Endpoint) -> anyhow::Result<(Vec<PodReport>, StatusReport)> {
    let observation = observe_once(endpoint).await?;
    if observation.status.relist.count == 0 {
        let why = text::sentence(&observation.status.health.message);
        bail!("no pod can be shown: {why}");
    }
    Ok((pod_reports(&observation.pleg), observation.status))
}
