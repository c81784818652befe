//! Collects the facts of this node. It observes the runtime through an engine, either an agent's or the
//! doctor's own, and reads the machine at the same time.

use std::net::SocketAddr;
use std::time::Duration;

use agent::{AgentChoice, AgentClient};
use cri::Endpoint;
use doctor::collect::helper;
use doctor::collect::observation::Source;
use doctor::collect::observed::Observed;
use doctor::collect::probes::{DumpGoroutines, Probing, Target};
use doctor::facts::{NodeFacts, ProbeFacts};
use doctor::limits::LOGS_OF;
use pleg::model::wall_time::system_clock;
use tokio::time::Instant;

use super::KUBELET_HEALTHZ;
use super::machine::Machine;
use crate::args::KernelHints;
use crate::{Outcome, endpoint, output};

/// How long collecting may take. The diagnosis may take 30 seconds in total; the rest
/// is for writing the bundle.
pub(super) const COLLECT_LIMIT: Duration = Duration::from_secs(25);

/// What to collect.
pub(super) struct What {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) agent: AgentChoice,
    pub(super) kubelet_healthz: SocketAddr,
    /// Makes containerd write its goroutines if a call hangs.
    pub(super) dump_goroutines: Option<DumpGoroutines>,
    /// How far back the logs are read; `None` reads no logs.
    pub(super) logs: Option<Duration>,
}

impl What {
    fn target(&self, endpoint: Endpoint, until: Instant) -> Target {
        Target {
            endpoint,
            proc: "/proc".into(),
            run: "/run".into(),
            kubelet: self.kubelet_healthz,
            dump_goroutines: self.dump_goroutines,
            until,
        }
    }
}

/// Collects the facts for a bundle or a remedy, with the default options of `pleg doctor`.
pub async fn collect_facts(
    endpoint: Option<Endpoint>,
    agent: AgentChoice,
) -> anyhow::Result<NodeFacts> {
    let what = What {
        endpoint,
        agent,
        kubelet_healthz: KUBELET_HEALTHZ,
        dump_goroutines: None,
        logs: Some(LOGS_OF),
    };
    facts(what, Instant::now() + COLLECT_LIMIT).await
}

/// Collects the facts, until `until` at the latest.
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

/// Observes the runtime. An agent is not used if it has not called the runtime yet, if its version does
/// not report the cost of calls, or if it stops before the end.
async fn probes(what: &What, machine: &mut Machine, until: Instant) -> anyhow::Result<ProbeFacts> {
    let agent = AgentClient::find(&what.agent, what.endpoint.as_ref()).await?;
    // The endpoint that an agent reports is the runtime's own. A guard's endpoint would lead to the
    // guard's process.
    let agents = agent
        .as_ref()
        .and_then(|(_, status)| status.runtime.endpoint.parse().ok());
    let Some(endpoint) = agents.or_else(|| what.endpoint.clone()) else {
        return Ok(ProbeFacts::default());
    };
    if let Some((client, _)) = agent.filter(|(_, status)| !status.costs.is_empty()) {
        let target = what.target(endpoint.clone(), until);
        let probing = Probing::with_agent(target, Agent { client });
        if let Some(probes) = observe(probing, machine).await {
            return Ok(probes);
        }
        tracing::warn!("the agent on this node has stopped: the runtime is observed without it");
    }
    let environment = endpoint::environment(&endpoint, KernelHints::Off);
    let probing = Probing::with_own_engine(what.target(endpoint, until), environment);
    Ok(observe(probing, machine).await.unwrap_or_default())
}

/// Observes the runtime, and requests the last report after the machine was read, so
/// that this report is current.
async fn observe<S: Source>(mut probing: Probing<S>, machine: &mut Machine) -> Option<ProbeFacts> {
    probing.observe().await?;
    let host = machine.finish().await;
    probing.finish(host).await
}

/// The reports of an agent.
struct Agent {
    client: AgentClient,
}

impl Source for Agent {
    const INTERVAL: Duration = Duration::from_millis(250);
    const IS_AGENT: bool = true;

    async fn refresh(&self) -> bool {
        self.client.relist().await.is_ok()
    }

    async fn report(&self) -> Option<Observed> {
        let status = self.client.status().await.ok()?;
        let pods = self.client.pods().await.ok()?;
        Some(Observed { status, pods })
    }
}

/// Serves as a helper process of the doctor.
pub fn serve_helper() -> anyhow::Result<Outcome> {
    output::written(helper::serve(std::io::stdin().lock(), std::io::stdout()))?;
    Ok(Outcome::Done)
}
