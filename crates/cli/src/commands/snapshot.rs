//! `pleg snapshot`: history, status and bundle of this node, in one file for a ticket.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{AgentChoice, AgentClient, history_directory, pod_reports};
use anyhow::{Context, bail, ensure};
use clap::Args;
use cri::Endpoint;
use doctor::bundle;
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::out::words::counted;
use pleg_text::GoDuration;
use recorder::Recorded;
use recorder::snapshot::{self, Head, Parts};
use recorder::store::{Range, Reader, read};
use serde::Serialize;
use tokio::time::timeout;

use super::doctor::collect_facts;
use super::{check_permission, on_disk};
use crate::args::{AgentOption, Format, Global, duration};
use crate::observe_once::observe_once;
use crate::progress::Waiting;
use crate::text::printable_path;
use crate::{Outcome, endpoint, output, text};

/// The file name that stands for standard output.
const STDOUT: &str = "-";

/// How long observing the runtime may take, if there is no agent.
const OBSERVE_LIMIT: Duration = Duration::from_secs(25);

/// How long reading the history and writing the file may take.
const DISK_LIMIT: Duration = Duration::from_secs(120);

const AFTER_HELP: &str = "\
The file is compressed and readable by its owner only. It contains the history
that the agent recorded, the output of `pleg status` and `pleg pods`, and the
bundle of `pleg doctor`; no environment variables, command lines or
annotations. What could not be collected is listed in it.

  pleg snapshot                   the last day, in a new file in this directory
  pleg snapshot --since 1h node.gz
  pleg snapshot - > node.gz       to standard output, as for kubectl exec
  pleg doctor --from node.gz      diagnose it on another machine
  pleg analyze node.gz";

/// Arguments of `pleg snapshot`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Snapshot {
    /// The file to write; an existing file is replaced; - for standard output [default:
    /// pleg-TIME.snapshot.gz]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How much of the history to include.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "24h")]
    since: Duration,
    /// Directory of the history [default: /var/lib/pleg/history]
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
    #[command(flatten)]
    agent: AgentOption,
}

/// The JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    file: &'a Path,
    entries: u64,
    missing: &'a [String],
}

pub async fn run(global: &Global, options: Snapshot) -> anyhow::Result<Outcome> {
    let taken = system_clock()();
    let since = taken.before(options.since);
    let file = options.file.clone().unwrap_or_else(|| name(taken));
    let is_piped = file == Path::new(STDOUT);
    if is_piped {
        ensure!(
            !io::stdout().is_terminal(),
            "a snapshot is compressed: redirect standard output, or name a file"
        );
        ensure!(
            global.format() == Format::Text,
            "-o json describes the file that was written: name a file"
        );
    } else {
        let place = file.clone();
        on_disk(DISK_LIMIT, move || bundle::check_place(&place))
            .await?
            .with_context(|| unwritten(&file))?;
    }
    let mut missing = Vec::new();
    let (parts, is_own) = parts(global, &options, &mut missing).await?;
    let folder = options.history.unwrap_or_else(history_directory);
    let range = Range::since(since);
    let status = parts.status.as_ref();
    let endpoint = status.map(|status| status.runtime.endpoint.clone());
    let read_history = move || {
        check_runtime(&folder, taken, endpoint.as_deref())?;
        History::read(&folder, range, options.since)
    };
    let history = on_disk(DISK_LIMIT, read_history).await?;
    let history = history.map_err(|why| missing.push(why)).ok();
    if parts.status.is_none() && history.is_none() {
        bail!("there is nothing to write: {}", missing.join("; "));
    }
    let mut head = Head::new(taken, since, missing.clone());
    head.own_examination = is_own;
    let path = file.clone();
    let written = on_disk(DISK_LIMIT, move || {
        let entries = history.into_iter().flat_map(History::entries);
        match is_piped {
            true => snapshot::write_to(io::stdout().lock(), &head, &parts, entries),
            false => snapshot::write(&path, &head, &parts, entries),
        }
    });
    let entries = written.await?.with_context(|| unwritten(&file))?;
    if is_piped {
        for missing in &missing {
            tracing::warn!("missing: {}", text::sentence(missing));
        }
        return Ok(Outcome::Done);
    }
    let report = Report {
        file: &file,
        entries,
        missing: &missing,
    };
    output::show(global.format(), &report, || page(&report))?;
    Ok(Outcome::Done)
}

fn page(report: &Report) -> String {
    let file = printable_path(report.file);
    let entries = counted(report.entries as usize, "entry");
    let mut page = format!("Wrote {file}: {entries} of history\n");
    for missing in report.missing {
        page.push_str(&format!("Missing: {}\n", text::sentence(missing)));
    }
    page
}

fn name(taken: WallTime) -> PathBuf {
    let time = taken.timestamp().strftime("%Y%m%dT%H%M%SZ");
    format!("pleg-{time}.snapshot.gz").into()
}

fn unwritten(path: &Path) -> String {
    format!("cannot write the snapshot {}", printable_path(path))
}

/// Collects status, pods and facts. Also returns whether they were observed directly because no agent
/// was found. Adds a sentence to `missing` for each part that cannot be collected.
async fn parts(
    global: &Global,
    options: &Snapshot,
    missing: &mut Vec<String>,
) -> anyhow::Result<(Parts, bool)> {
    let named = global.given_endpoint()?;
    let choice = options.agent.choice();
    let mut parts = Parts::default();
    let mut is_own = false;
    let answering = match AgentClient::find(&choice, named.as_ref()).await {
        Ok(Some((agent, status))) => {
            parts.status = Some(status);
            match agent.pods().await {
                Ok(pods) => parts.pods = Some(pods),
                Err(error) => missing.push(format!("pods: {}", because(error.into()))),
            }
            choice
        }
        without => {
            let why = match without {
                Err(error) => because(error.into()),
                Ok(_) => "none responds on this node".to_owned(),
            };
            missing.push(format!("agent: {why}"));
            if let Err(error) = observe(named.clone(), &mut parts).await {
                missing.push(format!("status and pods: {}", because(error)));
            }
            // With --agent off, it is not known whether there is an agent.
            is_own = choice != AgentChoice::Off;
            // An agent that does not respond would delay the bundle.
            AgentChoice::Off
        }
    };
    let _waiting = Waiting::begin("the bundle, at most 30 seconds".to_owned());
    match collect_facts(endpoint::present(named).await, answering).await {
        Ok(facts) => parts.facts = Some(facts),
        Err(error) => missing.push(format!("bundle: {}", because(error))),
    }
    Ok((parts, is_own))
}

async fn observe(named: Option<Endpoint>, parts: &mut Parts) -> anyhow::Result<()> {
    let observed = async { observe_once(&endpoint::find(named).await?).await };
    let Ok(observation) = timeout(OBSERVE_LIMIT, observed).await else {
        bail!("the runtime does not respond");
    };
    let observation = observation?;
    parts.pods = Some(pod_reports(&observation.pleg));
    parts.status = Some(observation.status);
    Ok(())
}

/// The error on one line.
fn because(error: anyhow::Error) -> String {
    let sentence = output::sentence(&error);
    let lines: Vec<_> = sentence.lines().map(str::trim).collect();
    lines.join(" ")
}

/// The maximum age of the last status in a current recording: an agent records its status every minute.
const MAX_STATUS_AGE: Duration = Duration::from_secs(180);

/// Refuses the history of another runtime.
fn check_runtime(folder: &Path, now: WallTime, endpoint: Option<&str>) -> Result<(), String> {
    let recent = read(folder, Range::since(now.before(MAX_STATUS_AGE))).into_iter();
    let endpoints = recent.flatten().filter_map(|entry| match entry.what {
        Recorded::Status(status) => Some(status.report.runtime.endpoint),
        _ => None,
    });
    match endpoints.last().zip(endpoint) {
        Some((recorded, endpoint)) if &*recorded != endpoint => Err(format!(
            "history: {} is that of another runtime, {}: --history names the directory",
            printable_path(folder),
            text::printable(&recorded)
        )),
        _ => Ok(()),
    }
}

/// A history with at least one entry.
struct History {
    first: recorder::Entry,
    others: Reader,
}

impl History {
    fn read(folder: &Path, range: Range, since: Duration) -> Result<Self, String> {
        check_permission(folder).map_err(|error| format!("history: {}", because(error)))?;
        let place = printable_path(folder);
        let mut others = read(folder, range)
            .map_err(|error| format!("history: {place}: {}", because(error.into())))?;
        let first = others.next().ok_or_else(|| {
            let since = GoDuration(since);
            format!("history: {place} has no entries of the last {since}")
        })?;
        Ok(Self { first, others })
    }

    fn entries(self) -> impl Iterator<Item = recorder::Entry> {
        std::iter::once(self.first).chain(self.others)
    }
}
