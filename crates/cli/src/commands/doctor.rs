//! `pleg doctor`: what is wrong with this node, the culprit, and what to do now.

mod machine;
mod node;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use causes::Cause;
use causes::finding::Finding;
use clap::Args;
use doctor::bundle::{self, NoPlace};
use doctor::diagnosis::{Diagnosis, NodeVerdict, diagnose};
use doctor::facts::NodeFacts;
use doctor::facts::probes::{GuardFacts, ProbeReport};
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use self::node::{COLLECT_LIMIT, What, facts};
pub use self::node::{collect_facts, serve_helper};
use super::explain::{CauseArgument, CauseParser};
use super::on_disk;
use super::rules::RulesOption;
use crate::act::Signals;
use crate::args::{AgentOption, Global};
use crate::progress::Waiting;
use crate::text::printable_path;
use crate::{Outcome, endpoint, output, text};

/// How long to wait for the disk to show whether a bundle can be written.
const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// How long writing a bundle may take.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// The default address of a kubelet's health endpoint.
pub const KUBELET_HEALTHZ: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10248);

const AFTER_HELP: &str = "\
Harmless: the runtime is observed as an agent does it, or by the agent on this
node if there is one, for ten seconds at most. A call that is not answered is
not repeated, and reads that block are abandoned. `journalctl` runs once
(unless --no-logs), and on nodes with rpm `rpm -q`. The API server of the
kubelet's kubeconfig gets one request, for the lease of the node, with the
kubelet's client certificate. Ends within 30 seconds whatever hangs, usually
within 10.

Exit codes: 0 healthy, 1 problem found, 2 could not determine. These are also
the exit codes that node-problem-detector expects of custom plugins (--npd).";

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
    #[arg(long, value_name = "ID", value_parser = CauseParser, hide_possible_values = true)]
    pub check: Option<CauseArgument>,
    #[command(flatten)]
    pub signals: Signals,
    /// Address of the kubelet's healthz endpoint.
    #[arg(long, value_name = "ADDR", default_value_t = KUBELET_HEALTHZ)]
    pub kubelet_healthz: SocketAddr,
    /// Read the logs of the kubelet and the runtime of this last period.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "15m")]
    pub since: Duration,
    /// Read no logs of the kubelet and the runtime.
    #[arg(long, conflicts_with = "since")]
    pub no_logs: bool,
    #[command(flatten)]
    pub rules: RulesOption,
    #[command(flatten)]
    pub agent: AgentOption,
}

/// The JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    probes: Vec<ProbeReport<'a>>,
    /// How many pods were not observed in time.
    unasked: usize,
    /// How many rows of the lists may be wrong.
    undecided: usize,
    /// Whether the connection to the runtime was lost during the observation, and is back.
    is_interrupted: bool,
    /// The guard in front of the runtime, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<&'a GuardFacts>,
}

pub async fn run(global: &Global, options: Doctor) -> anyhow::Result<Outcome> {
    options.rules.install()?;
    let only = options
        .check
        .as_ref()
        .map(CauseArgument::cause)
        .transpose()?;
    let until = Instant::now() + COLLECT_LIMIT;
    let place = match &options.bundle {
        Some(path) => check_place(path).await?,
        None => Ok(()),
    };
    let (facts, mut earlier) = match options.from.clone() {
        Some(path) => spawn_blocking(move || read_facts(&path)).await??,
        None => {
            let what = What {
                endpoint: endpoint::present(global.given_endpoint()?).await,
                agent: options.agent.choice(),
                kubelet_healthz: options.kubelet_healthz,
                dump_goroutines: options.signals.dump_goroutines(),
                logs: (!options.no_logs).then_some(options.since),
            };
            let waiting = Waiting::begin("the diagnosis, at most 30 seconds".to_owned());
            let facts = facts(what, until).await?;
            drop(waiting);
            // Without a socket, only an agent on the node knows its runtime.
            if facts.probes.endpoint.is_empty() {
                tracing::warn!("{}", endpoint::no_socket());
            }
            (facts, Vec::new())
        }
    };
    let is_wanted = |cause| only.is_none_or(|only: Cause| only == cause);
    let mut diagnosis = diagnose(&facts, is_wanted);
    earlier.retain(|finding| is_wanted(finding.cause));
    diagnosis.add_past(earlier);
    output::ignore_gone_reader(show(global, &options, &diagnosis, &facts))?;
    place?;
    if let Some(path) = options.bundle {
        let place = path.clone();
        let written = on_disk(WRITE_LIMIT, move || bundle::write(&place, &facts)).await;
        written
            .and_then(|written| Ok(written?))
            .with_context(|| unwritten(&path))?;
    }
    Ok(match diagnosis.verdict {
        NodeVerdict::Ok => Outcome::Done,
        NodeVerdict::Problem => Outcome::Problem,
        NodeVerdict::Unknown => Outcome::Unknown,
    })
}

fn unwritten(path: &Path) -> String {
    format!("cannot write the bundle {}", printable_path(path))
}

/// Checks whether the bundle can be written. A mistake of the user is the outer error, which ends the
/// command at once. A disk that is full or hangs may be the fault of the node: this is the inner error,
/// which is reported after the diagnosis.
async fn check_place(path: &Path) -> anyhow::Result<anyhow::Result<()>> {
    let place = path.to_owned();
    match on_disk(CHECK_LIMIT, move || bundle::check_place(&place)).await {
        Ok(mistake @ Err(NoPlace::NoFile | NoPlace::Other(_))) => {
            mistake.map(Ok).with_context(|| unwritten(path))
        }
        Ok(checked) => Ok(checked.with_context(|| unwritten(path))),
        Err(hangs) => Ok(Err(hangs.context(unwritten(path)))),
    }
}

/// The facts in a bundle or snapshot, and the earlier findings in the history of a snapshot.
fn read_facts(path: &Path) -> anyhow::Result<(NodeFacts, Vec<Finding>)> {
    let place = printable_path(path);
    if !recorder::snapshot::is_snapshot(path) {
        return Ok((bundle::read(path).context(place)?, Vec::new()));
    }
    let mut read = recorder::snapshot::open(path).context(place.clone())?;
    let earlier = read.fold().findings();
    if let Some(error) = read.unreadable_bundle {
        let unreadable = format!("{place}: the bundle of the snapshot cannot be read");
        return Err(error).context(unreadable);
    }
    let facts = read.parts.facts;
    let facts = facts.with_context(|| format!("{place}: the snapshot has no bundle"))?;
    Ok((facts, earlier))
}

fn show(
    global: &Global,
    options: &Doctor,
    diagnosis: &Diagnosis,
    facts: &NodeFacts,
) -> anyhow::Result<()> {
    if options.npd {
        return output::text(&text::npd::line(diagnosis));
    }
    let report = Report {
        diagnosis,
        probes: facts.probes.all().map(ProbeReport::from).collect(),
        unasked: facts.probes.unasked + facts.probes.unobserved,
        undecided: facts.probes.undecided,
        is_interrupted: facts.probes.is_interrupted(),
        guard: facts.probes.guard.as_ref(),
    };
    output::show(global.format(), &report, || {
        text::doctor::page(diagnosis, facts)
    })
}
