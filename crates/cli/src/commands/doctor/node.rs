//! How this machine is looked at: an agent's word, the doctor's own calls, and what the machine shows,
//! all at once; and once more if what the agent had waited for has ended meanwhile.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use agent::{AgentChoice, AgentClient, known_ids, state_directory};
use cri::Endpoint;
use doctor::collect::helper::{self, Helper, Helpers};
use doctor::collect::host::{self, Host};
use doctor::collect::probes::{Asking, Contact, collect, confirm};
use doctor::diagnosis::{Diagnosis, diagnose};
use doctor::facts::{HostFacts, NodeFacts, ProbeFacts};
use pleg::model::status::PodStatus;
use pleg::model::wall_time::system_clock;
use pleg::out::status_report::StatusReport;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

use super::KUBELET_HEALTHZ;
use super::meanwhile::{Asked, Meanwhile};
use crate::{Found, output};

/// How many reads that may block can be under way.
const HELPERS: usize = 3;

/// From the first look at what moves to the second.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How long the second sample and what follows it may take.
const SECOND_SAMPLE: Duration = Duration::from_secs(9);

/// How long collecting may take from the start on, with all that blocks; of 30 seconds in
/// all the rest is the bundle's.
pub(super) const COLLECTING: Duration = Duration::from_secs(25);

/// What must be left of that for another look, if what an agent had waited for is answered meanwhile: a
/// fault that has ended is no ground to kill anybody.
const ANOTHER_LOOK: Duration = Duration::from_secs(12);

/// How long reading the runtime's folders may take.
const READING: Duration = Duration::from_secs(3);

/// What is asked of this machine.
pub(super) struct What {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) agent: AgentChoice,
    pub(super) kubelet_healthz: SocketAddr,
    pub(super) allow_signals: bool,
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
    // Before anything else: later even starting a process may block.
    let helpers = helpers()?;
    let (mut facts, asked, helpers) = look_once(&what, helpers, until).await?;
    let mut meanwhile = Meanwhile::of(&facts, asked.as_ref()).await;
    let is_over = meanwhile.contradicts(&facts.probes);
    let is_time = Instant::now() + ANOTHER_LOOK < until;
    if let Some(helpers) = helpers.filter(|_| is_over && is_time) {
        tracing::info!("what the agent said may be over: looking once more");
        let what = What {
            agent: match meanwhile {
                Meanwhile::Silent => AgentChoice::Off,
                _ => what.agent.clone(),
            },
            ..what
        };
        if let Ok((again, asked, _)) = look_once(&what, helpers, until).await
            && again.host.processes.value().is_some()
        {
            meanwhile = Meanwhile::of(&again, asked.as_ref()).await;
            facts = again;
        }
    }
    meanwhile.correct(&mut facts.probes);
    Ok(facts)
}

async fn look_once(
    what: &What,
    helpers: Helpers,
    until: Instant,
) -> anyhow::Result<(NodeFacts, Option<Asked>, Option<Helpers>)> {
    let taken = system_clock()();
    let probes = async {
        let endpoint = what.endpoint.clone();
        let asked = match AgentClient::find(&what.agent, endpoint.as_ref()).await? {
            // One that goes meanwhile is done without.
            Some((client, status)) => {
                let at = Instant::now();
                client.pods().await.ok().map(|pods| Asked {
                    pods: pods.into_iter().map(|pod| pod.status).collect(),
                    client,
                    status,
                    at,
                })
            }
            None => None,
        };
        // The folder of the socket may be closed to us, and an agent knows what is in it. And of the
        // endpoint of a guard, the process and the folders are the guard's, not the runtime's.
        let its = asked
            .as_ref()
            .and_then(|asked| asked.status.runtime.endpoint.parse().ok());
        let agent = asked
            .as_ref()
            .map(|asked| (asked.status.clone(), asked.pods.clone()));
        let endpoint = its.or(endpoint);
        let (probes, contact) = match endpoint {
            Some(endpoint) => {
                let (probes, contact) = probes(endpoint.clone(), agent, what, until).await;
                (probes, Some((endpoint, contact)))
            }
            None => (ProbeFacts::default(), None),
        };
        anyhow::Ok((probes, contact, asked))
    };
    let (called, has_called) = channel();
    let probes = async {
        let probes = probes.await;
        // Nobody listens any more if the machine was given up.
        let _ = called.send(());
        probes
    };
    let (probes, machine) = tokio::join!(probes, machine(helpers, has_called, until));
    let (mut probes, contact, asked) = probes?;
    if let Some((endpoint, contact)) = contact {
        confirm(&mut probes, &endpoint, contact, until).await;
    }
    let (host, helpers) = match machine {
        Some((host, helpers)) => (host, Some(helpers)),
        None => (HostFacts::default(), None),
    };
    let facts = NodeFacts {
        taken,
        probes,
        host,
    };
    Ok((facts, asked, helpers))
}

/// The work of a helper, which is this program started once more.
pub fn help() -> anyhow::Result<Found> {
    output::written(helper::serve(std::io::stdin().lock(), std::io::stdout()))?;
    Ok(Found::Well)
}

fn helpers() -> anyhow::Result<Helpers> {
    let started = || -> std::io::Result<Vec<Helper>> {
        let program = std::env::current_exe()?;
        let helper = |_| {
            let mut command = Command::new(&program);
            command.arg("doctor-helper");
            Helper::process(command)
        };
        (0..HELPERS).map(helper).collect()
    };
    match started() {
        Ok(helpers) => Ok(Helpers::new(helpers)),
        Err(error) => {
            tracing::warn!(
                "cannot start helper processes, so a read that blocks may delay the \
                            diagnosis: {error}"
            );
            Ok(Helpers::threads(HELPERS)?)
        }
    }
}

/// What the machine shows, and the helpers for another look; nothing if that takes too long. What
/// moves is read for the second time once the calls that `has_called` tells of have ended, so that it
/// is known who is stopped then.
async fn machine(
    mut helpers: Helpers,
    has_called: Receiver<()>,
    until: Instant,
) -> Option<(HostFacts, Helpers)> {
    let latest = until - SECOND_SAMPLE;
    let reading = spawn_blocking(move || {
        let wait = || {
            let begun = Instant::now();
            std::thread::sleep(BETWEEN_LOOKS);
            let left = latest.saturating_duration_since(Instant::now());
            // An error is as good an end.
            let _ = has_called.recv_timeout(left);
            begun.elapsed()
        };
        let facts = host::collect(&Host::local(), &mut helpers, wait);
        (facts, helpers)
    });
    match timeout_at(until, reading).await {
        Ok(Ok(read)) => Some(read),
        _ => {
            tracing::warn!("the machine could not be read in time");
            None
        }
    }
}

async fn probes(
    endpoint: Endpoint,
    agent: Option<(StatusReport, Vec<PodStatus>)>,
    what: &What,
    until: Instant,
) -> (ProbeFacts, Contact) {
    let known = known_ids(&endpoint, &state_directory());
    let ids = timeout(READING, known()).await;
    let asking = Asking {
        endpoint,
        ids: ids
            .ok()
            .flatten()
            .unwrap_or_default()
            .into_iter()
            .map(|known| known.id)
            .collect(),
        agent,
        proc: "/proc".into(),
        run: "/run".into(),
        kubelet: what.kubelet_healthz,
        allow_signals: what.allow_signals,
        until,
    };
    collect(asking).await
}
