//! How this node is observed: the runtime through an engine, an agent's or the doctor's own, and
//! beside it the machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agent::{AgentChoice, AgentClient};
use cri::Endpoint;
use doctor::collect::helper;
use doctor::collect::observation::Source;
use doctor::collect::observed::Observed;
use doctor::collect::probes::{Asking, Probing};
use doctor::diagnosis::{Diagnosis, diagnose};
use doctor::facts::{NodeFacts, ProbeFacts};
use doctor::limits::LOGS_OF;
use pleg::model::wall_time::system_clock;
use tokio::time::Instant;

use super::KUBELET_HEALTHZ;
use super::machine::Machine;
use crate::args::KernelHints;
use crate::{Found, endpoint, output};

/// How long collecting may take from the start on, with all that blocks; of 30 seconds in
/// all the rest is the bundle's.
pub(super) const COLLECTING: Duration = Duration::from_secs(25);

/// What is asked of this machine.
pub(super) struct What {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) agent: AgentChoice,
    pub(super) kubelet_healthz: SocketAddr,
    pub(super) allow_signals: bool,
    /// The logs of the last so much time.
    pub(super) logs: Option<Duration>,
}

impl What {
    fn asking(&self, endpoint: Endpoint, until: Instant) -> Asking {
        Asking {
            endpoint,
            proc: "/proc".into(),
            run: "/run".into(),
            kubelet: self.kubelet_healthz,
            allow_signals: self.allow_signals,
            until,
        }
    }
}

/// Collects what a bundle has.
pub async fn collect_facts(
    endpoint: Option<Endpoint>,
    agent: AgentChoice,
) -> anyhow::Result<NodeFacts> {
    let what = What {
        endpoint,
        agent,
        kubelet_healthz: KUBELET_HEALTHZ,
        allow_signals: false,
        logs: Some(LOGS_OF),
    };
    facts(what, Instant::now() + COLLECTING).await
}

/// Looks at the node whose runtime is at `endpoint`, and whose agent serves on `agent`.
pub async fn look(endpoint: Endpoint, agent: PathBuf) -> anyhow::Result<(NodeFacts, Diagnosis)> {
    let facts = collect_facts(Some(endpoint), AgentChoice::Named(agent)).await?;
    let diagnosis = diagnose(&facts, |_| true);
    Ok((facts, diagnosis))
}

/// Collects the facts until then at the latest.
pub(super) async fn facts(what: What, until: Instant) -> anyhow::Result<NodeFacts> {
    let mut machine = Machine::read(what.logs, until)?;
    let taken = system_clock()();
    let probes = probes(&what, &mut machine, until).await?;
    Ok(NodeFacts {
        taken,
        probes,
        host: machine.facts().await,
    })
}

/// An agent that has not called the runtime yet, or of a version that does not report what calls
/// cost, is done without, as is one that is gone before the end.
async fn probes(what: &What, machine: &mut Machine, until: Instant) -> anyhow::Result<ProbeFacts> {
    let agent = AgentClient::find(&what.agent, what.endpoint.as_ref()).await?;
    // Its endpoint is the runtime's own; that of a guard leads to the guard's process and folders.
    let its = agent
        .as_ref()
        .and_then(|(_, status)| status.runtime.endpoint.parse().ok());
    let Some(endpoint) = its.or_else(|| what.endpoint.clone()) else {
        return Ok(ProbeFacts::default());
    };
    if let Some((client, _)) = agent.filter(|(_, status)| !status.costs.is_empty()) {
        let asking = what.asking(endpoint.clone(), until);
        let probing = Probing::with_agent(asking, Agent { client });
        if let Some(probes) = observe(probing, machine).await {
            return Ok(probes);
        }
        tracing::warn!("the agent on this node is gone: the runtime is observed without it");
    }
    let environment = endpoint::environment(&endpoint, KernelHints::Off);
    let probing = Probing::with_own_engine(what.asking(endpoint, until), environment);
    Ok(observe(probing, machine).await.unwrap_or_default())
}

/// The report is taken after the machine was read, so that it is current.
async fn observe<S: Source>(mut probing: Probing<S>, machine: &mut Machine) -> Option<ProbeFacts> {
    probing.observe().await?;
    machine.finish().await;
    probing.finish().await
}

/// The reports of an agent.
struct Agent {
    client: AgentClient,
}

impl Source for Agent {
    const INTERVAL: Duration = Duration::from_millis(250);
    const IS_AGENT: bool = true;

    async fn report(&self) -> Option<Observed> {
        let status = self.client.status().await.ok()?;
        let pods = self.client.pods().await.ok()?;
        Some(Observed { status, pods })
    }
}

/// The work of a helper, which is this program started once more.
pub fn help() -> anyhow::Result<Found> {
    output::written(helper::serve(std::io::stdin().lock(), std::io::stdout()))?;
    Ok(Found::Well)
}
