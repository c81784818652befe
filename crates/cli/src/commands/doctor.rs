//! `pleg doctor`: what is wrong with this node, by name, and what to do now.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use agent::{AgentChoice, AgentClient, known_ids, state_directory};
use anyhow::{Context, bail};
use causes::Cause;
use clap::Args;
use cri::Endpoint;
use doctor::bundle::{self, NoPlace};
use doctor::collect::agent::{unreachable, was_answered, word};
use doctor::collect::helper::{self, Helper, Helpers};
use doctor::collect::host::{self, Host};
use doctor::collect::probes::{Asking, Contact, collect, confirm};
use doctor::diagnosis::{Diagnosis, NodeVerdict, diagnose};
use doctor::facts::probes::{End, GuardFacts, Probe, ProbeReport};
use doctor::facts::{HostFacts, NodeFacts, ProbeFacts};
use pleg::model::status::PodStatus;
use pleg::model::wall_time::system_clock;
use pleg::out::status_report::StatusReport;
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

use super::explain::cause;
use crate::args::{AgentOption, Format, Global};
use crate::{Found, endpoint, output, text};

/// How many reads that may block can be under way.
const HELPERS: usize = 3;

/// From the first look at what moves to the second.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How long the second sample and what follows it may take.
const SECOND_SAMPLE: Duration = Duration::from_secs(9);

/// How long collecting may take from the start on, with all that blocks; of 30 seconds in
/// all the rest is the bundle's.
const COLLECTING: Duration = Duration::from_secs(25);

/// What must be left of that for another look, if what an agent had waited for is answered meanwhile: a
/// fault that has ended is no ground to kill anybody.
const ANOTHER_LOOK: Duration = Duration::from_secs(12);

/// How long reading the runtime's folders may take.
const READING: Duration = Duration::from_secs(3);

/// How long the disk for a bundle may take to say whether there is a place for one.
const PLACE: Duration = Duration::from_secs(2);

/// How long it may take to write one.
const WRITING: Duration = Duration::from_secs(5);

/// Where a kubelet tells its health, unless it is configured otherwise.
const KUBELET_HEALTHZ: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10248);

const AFTER_HELP: &str = "\
Harmless: each call to the runtime has a deadline and is made once (Version again if other calls
hang or take long, the lists again if a listed object does not exist or has exited), and reads that
block are abandoned. If the runtime restarts meanwhile, it is asked anew, at most twice. On nodes with
rpm, `rpm -q` runs once. Ends within 30 seconds whatever hangs, usually within 10.

Exit codes: 0 healthy, 1 problem found, 2 could not determine. These are also the exit codes that
node-problem-detector expects of custom plugins (--npd).";

/// Arguments of `pleg doctor`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Doctor {
    /// Also write the collected facts to this file, for diagnosis on another machine;
    /// compressed if its name ends in .gz. Contains no environment variables, command lines
    /// or annotations.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub bundle: Option<PathBuf>,
    /// Diagnose a bundle, or the one in a snapshot, instead of this machine.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Print one line of fewer than 80 characters, for node-problem-detector.
    #[arg(long)]
    pub npd: bool,
    /// Check only this cause.
    #[arg(long, value_name = "ID", value_parser = cause(), hide_possible_values = true)]
    pub check: Option<Cause>,
    /// If a call hangs, make containerd dump its goroutines with SIGUSR1, which is harmless,
    /// and report which of them blocks the others.
    #[arg(long)]
    pub allow_signals: bool,
    /// Address of the kubelet's healthz endpoint.
    #[arg(long, value_name = "ADDR", default_value_t = KUBELET_HEALTHZ)]
    pub kubelet_healthz: SocketAddr,
    #[command(flatten)]
    pub agent: AgentOption,
}

/// What scripts read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    probes: Vec<ProbeReport<'a>>,
    /// How many status calls were not made.
    unasked: usize,
    /// How many rows of the lists may be wrong.
    undecided: usize,
    /// The runtime has gone while it was asked, and is back.
    is_interrupted: bool,
    /// Where the kubelet is behind one.
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<&'a GuardFacts>,
}

pub async fn run(global: &Global, options: Doctor) -> anyhow::Result<Found> {
    let until = Instant::now() + COLLECTING;
    let place = match &options.bundle {
        Some(path) => check_place(path).await?,
        None => Ok(()),
    };
    let facts = match options.from.clone() {
        Some(path) => spawn_blocking(move || read_facts(&path)).await??,
        None => {
            let asking = What {
                endpoint: endpoint::present(global.named_endpoint()?).await,
                agent: options.agent.choice(),
                kubelet_healthz: options.kubelet_healthz,
                allow_signals: options.allow_signals,
            };
            if asking.endpoint.is_none() {
                tracing::warn!("{}", endpoint::NoRuntime::anywhere());
            }
            facts(asking, until).await?
        }
    };
    let diagnosis = diagnose(&facts, |cause| {
        options.check.is_none_or(|only| only == cause)
    });
    output::read_enough(show(global, &options, &diagnosis, &facts))?;
    place?;
    if let Some(path) = options.bundle {
        let written = move || bundle::write(&path, &facts).with_context(|| unwritten(&path));
        on_disk(WRITING, written).await??;
    }
    Ok(match diagnosis.verdict {
        NodeVerdict::Ok => Found::Well,
        NodeVerdict::Problem => Found::Problem,
        NodeVerdict::Unknown => Found::Unknown,
    })
}

fn shown(path: &Path) -> String {
    text::printable(&path.display().to_string()).into_owned()
}

fn unwritten(path: &Path) -> String {
    format!("cannot write the bundle {}", shown(path))
}

/// Refuses what can only be a mistake. A disk that is full, or does not answer, may be what
/// is wrong with the node: then the inner error is for after the diagnosis.
async fn check_place(path: &Path) -> anyhow::Result<anyhow::Result<()>> {
    let place = path.to_owned();
    let checked = match on_disk(PLACE, move || bundle::check_place(&place)).await {
        Ok(checked) => checked,
        Err(silent) => return Ok(Err(silent)),
    };
    let is_mistake = matches!(checked, Err(NoPlace::NoFile | NoPlace::Other(_)));
    let checked = checked.with_context(|| unwritten(path));
    match is_mistake {
        true => checked.map(Ok),
        false => Ok(checked),
    }
}

/// What a disk that hangs may keep from returning.
async fn on_disk<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    match timeout(limit, spawn_blocking(work)).await {
        Ok(done) => Ok(done?),
        Err(_) => bail!("the disk for the bundle does not respond"),
    }
}

/// What is asked of this machine.
struct What {
    endpoint: Option<Endpoint>,
    agent: AgentChoice,
    kubelet_healthz: SocketAddr,
    allow_signals: bool,
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

/// The facts in a bundle, or in a snapshot.
fn read_facts(path: &Path) -> anyhow::Result<NodeFacts> {
    if !snapshot::is_snapshot(path) {
        return bundle::read(path).with_context(|| shown(path));
    }
    let read = snapshot::open(path).with_context(|| shown(path))?;
    if let Some(error) = read.unreadable_bundle {
        let unreadable = || format!("{}: the bundle of the snapshot cannot be read", shown(path));
        return Err(error).with_context(unreadable);
    }
    let without = || format!("{}: the snapshot has no bundle", shown(path));
    read.parts.facts.with_context(without)
}

/// Looks at the node whose runtime is at `endpoint`, and whose agent serves on `agent`.
pub async fn look(endpoint: Endpoint, agent: PathBuf) -> anyhow::Result<(NodeFacts, Diagnosis)> {
    let facts = collect_facts(Some(endpoint), AgentChoice::Named(agent)).await?;
    let diagnosis = diagnose(&facts, |_| true);
    Ok((facts, diagnosis))
}

/// An agent on the node, and what it has answered.
struct Asked {
    client: AgentClient,
    status: StatusReport,
    pods: Vec<PodStatus>,
    at: Instant,
}

/// What an agent says at the end, if what it said before is used.
enum Meanwhile {
    /// It was not asked, because nothing of it is.
    NotAsked,
    /// It answers this, so long after what it said before.
    Says(Box<StatusReport>, Duration),
    /// It does not answer: what it said may be of before the fault ended.
    Silent,
}

impl Meanwhile {
    async fn of(facts: &NodeFacts, asked: Option<&Asked>) -> Self {
        let waits = facts.probes.calls.iter().any(waits);
        let is_used = |asked: &&Asked| {
            waits || facts.probes.agent.is_some() || unreachable(&asked.status).is_some()
        };
        match asked.filter(is_used) {
            None => Self::NotAsked,
            Some(asked) => match asked.client.status().await {
                Ok(now) => Self::Says(Box::new(now), asked.at.elapsed()),
                Err(_) => Self::Silent,
            },
        }
    }

    /// Whether the facts have something of it that holds no longer.
    fn contradicts(&self, facts: &ProbeFacts) -> bool {
        match self {
            Self::NotAsked => false,
            Self::Silent => true,
            Self::Says(now, ago) => {
                let mut calls = facts.calls.iter();
                let state = (now.health.state, now.health.reason);
                let before = facts.agent.as_ref().map(|word| (word.state, word.reason));
                calls.any(|probe| was_answered(probe, *ago, now))
                    || before.is_some_and(|before| before != state)
            }
        }
    }

    /// Leaves out of the facts what holds no longer.
    fn correct(&self, facts: &mut ProbeFacts) {
        match self {
            Self::NotAsked => {}
            Self::Says(now, ago) => {
                leave_out(facts, |probe| was_answered(probe, *ago, now));
                facts.unreachable_to_agent = unreachable(now);
                if facts.agent.is_some() {
                    facts.calls.retain(|probe| !probe.by_agent || waits(probe));
                    let word = word(now);
                    facts.calls.extend(word.calls);
                    facts.agent = Some(word.said);
                }
            }
            Self::Silent => {
                leave_out(facts, |probe| probe.by_agent);
                facts.agent = None;
            }
        }
    }
}

/// Leaves calls of the agent out, which the doctor has not made itself.
fn leave_out(facts: &mut ProbeFacts, is_over: impl Fn(&Probe) -> bool) {
    let over = facts.calls.iter().filter(|probe| is_over(probe));
    facts.unasked += over.filter(|probe| probe.id.is_some()).count();
    facts.calls.retain(|probe| !is_over(probe));
}

fn waits(probe: &Probe) -> bool {
    probe.by_agent && probe.end == End::Hung
}

async fn facts(what: What, until: Instant) -> anyhow::Result<NodeFacts> {
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

fn show(
    global: &Global,
    options: &Doctor,
    diagnosis: &Diagnosis,
    facts: &NodeFacts,
) -> anyhow::Result<()> {
    match global.output {
        _ if options.npd => output::text(&text::npd::line(diagnosis)),
        Format::Json => output::json(&Report {
            diagnosis,
            probes: facts.probes.all().map(ProbeReport::from).collect(),
            unasked: facts.probes.unasked,
            undecided: facts.probes.undecided,
            is_interrupted: facts.probes.is_interrupted(),
            guard: facts.probes.guard.as_ref(),
        }),
        Format::Text => output::text(&text::doctor::page(diagnosis, facts)),
    }
}
