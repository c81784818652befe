//! `pleg pods`: all pods with their sandboxes and containers.

use agent::{AgentClient, pod_reports};
use anyhow::bail;
use cri::Endpoint;
use pleg::out::health::HealthState;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;

use crate::args::{Global, Pods};
use crate::observe_once::observe_once;
use crate::{Outcome, endpoint, output, text};

pub async fn run(global: &Global, options: Pods) -> anyhow::Result<Outcome> {
    let named = global.given_endpoint()?;
    let choice = options.agent.choice();
    // An agent also knows the pods as they were before the current fault.
    let (mut pods, status) = match AgentClient::find(&choice, named.as_ref()).await? {
        Some((agent, status)) => (of_agent(&agent, &status).await?, status),
        None => of_runtime(&endpoint::find(named).await?).await?,
    };
    let is_healthy = status.health.state == HealthState::Healthy;
    let is_reported = !status.stuck.is_empty() || pods.iter().any(|pod| pod.error.is_some());
    // The message also says which pods may be missing.
    if !is_healthy && (!is_reported || !status.blind.is_empty()) {
        tracing::warn!("{}: {}", status.health.state, status.health.message);
    } else if !is_healthy {
        for stuck in &status.stuck {
            tracing::warn!("{stuck}");
        }
    }
    let filter = &options.filter;
    pods.retain(|pod| filter.shows(&pod.status.namespace, &pod.status.name));
    pods.sort_by_cached_key(|pod| (pod.status.namespace.clone(), pod.status.name.clone()));
    for pod in &pods {
        if let Some(error) = &pod.error {
            let pod = pod.status.pod();
            tracing::warn!("showing the last known status of {pod}: {error}");
        }
    }
    let health = &status.health;
    let away_since = health.reason.answers_no_call().then_some(health.since);
    let table = || text::pods::table(&pods, away_since, &status.stuck);
    output::ignore_gone_reader(output::show(global.format(), &pods, table))?;
    let has_error = pods.iter().any(|pod| pod.error.is_some());
    Ok(Outcome::done(!is_healthy || has_error))
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
