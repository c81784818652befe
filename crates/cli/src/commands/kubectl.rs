//! `kubectl pleg`: all nodes in one table, or one node. kubectl finds this program under the name
//! `kubectl-pleg`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use cluster::Failure;
use cluster::fleet::{Access, Change, Fleet, FleetEvent, NodeView};
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::out::status_report::Progress;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::args::Format;
use crate::progress::ProgressLine;
use crate::text::fleet as show;
use crate::text::fleet::Columns;
use crate::{Outcome, output, signals};

mod complete;

pub use complete::{complete, is_completer};

/// The name by which kubectl finds a plugin.
const PLUGIN: &str = "kubectl-pleg";

/// The time between two attempts to watch.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

const AFTER_HELP: &str = "\
Examples:
  kubectl pleg                        all nodes, failing nodes first
  kubectl pleg -l pool=web -o wide    some nodes, with their agents' messages
  kubectl pleg --watch                all nodes, then each change
  kubectl pleg node-1                 one node: stuck calls, events, what to do
  kubectl pleg -o json | jq -r '.[] | select(.state == \"Unhealthy\").node'

The column PLEG shows the state that the agent on the node reports: Healthy,
Degraded or Unhealthy; Stale if the agent has not confirmed it for eleven
minutes; NotReported if no agent writes a condition.

Exit codes: 0 all nodes are healthy, 1 some are not, 2 the command failed.";

/// Show the PLEG state of all nodes of a cluster, or of one node.
#[derive(Debug, Parser)]
#[command(
    name = PLUGIN,
    bin_name = "kubectl pleg",
    version,
    after_help = AFTER_HELP,
    max_term_width = 80
)]
pub struct Kubectl {
    /// Show this node: its condition, what is stuck, its events, and what to do.
    #[arg(value_name = "NODE", conflicts_with_all = ["selector", "watch"])]
    node: Option<String>,
    /// Only nodes with these labels: key1=value1,key2!=value2.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Output format [default: a table]
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    /// Show each change, until interrupted.
    #[arg(short, long)]
    watch: bool,
    /// Do not print the header of the table.
    #[arg(long)]
    no_headers: bool,
    /// Number of nodes per request.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=1000))]
    chunk_size: u32,
    #[command(flatten)]
    server: Server,
}

/// kubectl's flags for the server and the user.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster options")]
struct Server {
    /// The kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The cluster in the kubeconfig.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The user in the kubeconfig.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The address of the API server.
    #[arg(short, long, value_name = "URL")]
    server: Option<String>,
    /// A bearer token.
    #[arg(long)]
    token: Option<String>,
    /// Act as this user.
    #[arg(long = "as", value_name = "USER")]
    act_as: Option<String>,
    /// Act as a member of this group; can be repeated.
    #[arg(long = "as-group", value_name = "GROUP")]
    act_as_group: Vec<String>,
    /// The certificate authority file for the API server.
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// The server name for which the certificate is checked.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Do not check the server's certificate. Insecure.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// Time limit for the whole command, such as 5s or 2m [default: only each request is limited]
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration)]
    request_timeout: Option<Duration>,
}

/// How a fleet is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table, which is the default.
    Text,
    /// A table with more columns.
    Wide,
    /// A JSON array of nodes; with --watch, one object per line.
    Json,
}

/// A node in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePage {
    #[serde(flatten)]
    node: NodeView,
    events: Vec<FleetEvent>,
}

/// Whether kubectl has started this program as its plugin.
pub fn is_plugin(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == PLUGIN)
}

pub async fn run(options: Kubectl) -> anyhow::Result<Outcome> {
    let limit = options.server.request_timeout;
    let fleet = Fleet::open(&options.server.access(), system_clock()).await?;
    if options.watch {
        return watch(&fleet, &options).await;
    }
    let shown = async {
        match &options.node {
            Some(node) => show_node(&fleet, node, &options).await,
            None => show_fleet(&fleet, &options).await,
        }
    };
    match limit {
        Some(limit) => timeout(limit, shown)
            .await
            .context("the command exceeded --request-timeout")?,
        None => shown.await,
    }
}

async fn show_fleet(fleet: &Fleet, options: &Kubectl) -> anyhow::Result<Outcome> {
    let (nodes, _) = listed(fleet, options).await?;
    let table = || show::table(&nodes, options.columns(), now());
    output::ignore_gone_reader(output::show(options.format(), &nodes, table))?;
    Ok(Outcome::done(nodes.iter().any(NodeView::is_failing)))
}

/// Lists the selected nodes, failing nodes first. Also returns the resource version of the list.
async fn listed(fleet: &Fleet, options: &Kubectl) -> anyhow::Result<(Vec<NodeView>, String)> {
    let chunk = options.chunk_size as usize;
    let selector = options.selector.as_deref();
    let mut progress = ProgressLine::new("read", "nodes");
    let listed = fleet.nodes(selector, chunk, |seen, left| {
        let of = seen + left.unwrap_or_default();
        progress.advance(Some(Progress { seen, of }));
    });
    let mut listed = listed.await?;
    listed.nodes.sort_by_cached_key(NodeView::rank);
    Ok((listed.nodes, listed.resource_version))
}

async fn show_node(fleet: &Fleet, name: &str, options: &Kubectl) -> anyhow::Result<Outcome> {
    let node = match fleet.node(name).await {
        Err(Failure::NotFound(_)) => bail!("node {name:?} not found"),
        node => node?,
    };
    let events = match fleet.events(&node).await {
        Ok(events) => events,
        // The node is shown without its events.
        Err(failure) => {
            tracing::warn!("cannot show the node's events: {failure}");
            Vec::new()
        }
    };
    let page = NodePage { node, events };
    let text = || show::page(&page.node, &page.events, now());
    output::ignore_gone_reader(output::show(options.format(), &page, text))?;
    Ok(Outcome::done(page.node.is_failing()))
}

/// Shows all nodes, then each one that changes, until interrupted.
async fn watch(fleet: &Fleet, options: &Kubectl) -> anyhow::Result<Outcome> {
    let mut interrupted = pin!(signals::interrupted()?);
    let mut shown = Shown::new(options);
    let (nodes, mut version) = listed(fleet, options).await?;
    shown.all(nodes)?;
    loop {
        let ended = tokio::select! {
            ended = follow(fleet, options, &mut version, &mut shown) => ended?,
            _ = &mut interrupted => return Ok(Outcome::Done),
            () = output::reader_gone() => return Ok(Outcome::Done),
        };
        if let Err(failure) = &ended
            && *failure != Failure::Expired
        {
            tracing::warn!("cannot watch the nodes: {failure}");
        }
        tokio::select! {
            () = sleep(RETRY_INTERVAL) => {}
            _ = &mut interrupted => return Ok(Outcome::Done),
        }
        // What has changed in the meantime is the difference between the new list and what was shown.
        if ended.is_err()
            && let Ok((nodes, now)) = listed(fleet, options).await
        {
            shown.all(nodes)?;
            version = now;
        }
    }
}

/// Shows the changes after `version` until the server ends the watch, or the watch fails. The inner
/// error is that of the watch, the outer one that of writing to standard output.
async fn follow(
    fleet: &Fleet,
    options: &Kubectl,
    version: &mut String,
    shown: &mut Shown,
) -> anyhow::Result<Result<(), Failure>> {
    let mut watch = match fleet.watch(options.selector.as_deref(), version).await {
        Ok(watch) => watch,
        Err(failure) => return Ok(Err(failure)),
    };
    loop {
        match watch.next().await {
            Ok(Some(change)) => shown.change(change)?,
            Ok(None) => {
                watch.resource_version().clone_into(version);
                return Ok(Ok(()));
            }
            Err(failure) => return Ok(Err(failure)),
        }
    }
}

/// What a watch has shown.
struct Shown {
    format: Format,
    columns: Columns,
    nodes: BTreeMap<String, NodeView>,
}

/// A node that was deleted, in JSON.
#[derive(Serialize)]
struct Gone {
    node: String,
    gone: bool,
}

impl Shown {
    fn new(options: &Kubectl) -> Self {
        Self {
            format: options.format(),
            columns: options.columns(),
            nodes: BTreeMap::new(),
        }
    }

    /// Compares the list of all nodes with what was shown: reports the nodes that are gone, and shows
    /// those that are new or differ.
    fn all(&mut self, nodes: Vec<NodeView>) -> anyhow::Result<()> {
        let present: BTreeSet<&String> = nodes.iter().map(|view| &view.node).collect();
        let known = self.nodes.keys();
        let gone: Vec<String> = known
            .filter(|node| !present.contains(node))
            .cloned()
            .collect();
        for node in gone {
            self.change(Change::Deleted(node))?;
        }
        let new = nodes
            .into_iter()
            .filter(|view| self.is_new_or_changed(view))
            .collect();
        self.show(new)
    }

    fn change(&mut self, change: Change) -> anyhow::Result<()> {
        match change {
            Change::Exists(view) if self.is_new_or_changed(&view) => self.show(vec![*view]),
            Change::Exists(_) => Ok(()),
            Change::Deleted(node) if self.nodes.remove(&node).is_none() => Ok(()),
            Change::Deleted(node) => {
                let gone = Gone { node, gone: true };
                output::show(self.format, &gone, || show::gone(&gone.node))
            }
        }
    }

    /// Whether the node differs from what was shown, apart from its heartbeat and its message, which
    /// contains ages.
    fn is_new_or_changed(&self, view: &NodeView) -> bool {
        let Some(shown) = self.nodes.get(&view.node) else {
            return true;
        };
        let mut now = view.clone();
        now.heartbeat = shown.heartbeat;
        now.message.clone_from(&shown.message);
        now != *shown
    }

    fn show(&mut self, views: Vec<NodeView>) -> anyhow::Result<()> {
        match self.format {
            Format::Json => views.iter().try_for_each(output::json)?,
            Format::Text => {
                output::text(&show::table(&views, self.columns, now()))?;
                self.columns.header = false;
            }
        }
        let named = views.into_iter().map(|view| (view.node.clone(), view));
        self.nodes.extend(named);
        Ok(())
    }
}

impl Kubectl {
    fn format(&self) -> Format {
        match self.output {
            Some(Output::Json) => Format::Json,
            _ => Format::Text,
        }
    }

    fn columns(&self) -> Columns {
        Columns {
            header: !self.no_headers,
            wide: self.output == Some(Output::Wide),
        }
    }
}

impl Server {
    fn access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            server: self.server.clone(),
            token: self.token.clone(),
            impersonate: self.act_as.clone(),
            impersonate_groups: self.act_as_group.clone(),
            certificate_authority: self.certificate_authority.clone(),
            tls_server_name: self.tls_server_name.clone(),
            insecure: self.insecure_skip_tls_verify,
        }
    }
}

fn now() -> WallTime {
    system_clock()()
}
