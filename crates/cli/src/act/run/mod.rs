//! `pleg run`: static pods without a kubelet.

use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::static_pods::completion::{Completed, Completion};
use ::static_pods::logs::{LogFolders, POD_LOGS};
use ::static_pods::pods::Pods;
use ::static_pods::volumes::DEFAULT_ROOT;
use ::static_pods::worker::{Line, Lines};
use agent::{Daemon, Listeners, state_directory};
use anyhow::{Context, anyhow, bail, ensure};
use base::host::{runtime_ids, state_file};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, ValueEnum};
use cri::Endpoint;
use guard::core::{Mode, Settings};
use guard::{Handle, Proxy, listen_on};
use pleg::model::wall_time::system_clock;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::args::{Format, Global, Listen};
use crate::commands::agent::{configured, program};
use crate::commands::doctor::KUBELET_HEALTHZ;
use crate::{Outcome, endpoint, output, signals};
use static_pods::StaticPods;

mod pod_reports;
mod static_pods;
mod text;

/// How long to wait for a connection to a kubelet.
const KUBELET_LIMIT: Duration = Duration::from_secs(1);

/// At the end, how long to wait until the last lines have been read from standard output.
const LAST_LINES_LIMIT: Duration = Duration::from_secs(5);

const HELP: &str = "\
Each file in the directory is the manifest of one pod, in YAML or JSON. A
changed manifest replaces its pod, and a removed one ends it. Ctrl-C and
SIGTERM leave the pods running; the next `pleg run` adopts them. A field that
cannot be honoured is refused by name.

  pleg run --manifests /etc/kubernetes/manifests
  pleg run --manifests pods/ -o json  one JSON object per decision
  pleg run --manifests jobs/ --once   exit code 0 if all succeed, 1 if one fails
  pleg run --down                     end all pods and remove what is left
  pleg pods                           restarts, back-off, readiness
  curl 127.0.0.1:20258/v1/node        the Ready condition

docs/run.md has a first pod step by step, and what differs from a kubelet.";

/// Arguments of `pleg run`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Run {
    /// Directory of the pods' manifests.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "down",
        conflicts_with = "down"
    )]
    manifests: Option<PathBuf>,
    /// Run until each pod whose restartPolicy is not Always has finished. Exit code 0 if all of
    /// them succeeded, 1 otherwise.
    #[arg(long, conflicts_with = "down")]
    once: bool,
    /// End all pods that `pleg run` left running, remove them, and exit.
    #[arg(long)]
    down: bool,
    /// What stops the work on pods.
    #[arg(long, value_enum, default_value_t)]
    policy: Policy,
    /// Start even if a kubelet runs on this node.
    #[arg(long)]
    beside_kubelet: bool,
    /// Owner of the pods: the value of the label pleg.dev/owner. Pods of other owners are not
    /// touched.
    #[arg(long, value_name = "NAME", default_value = "pleg-run", value_parser = owner)]
    owner: String,
    /// Name of this node [default: its host name]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    node_name: Option<String>,
    /// Directory of the pods' volumes.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_ROOT)]
    root_dir: PathBuf,
    /// Directory of the pods' logs. The directory `containers` next to it has the links to them.
    #[arg(long, value_name = "DIR", default_value = POD_LOGS)]
    pod_logs_dir: PathBuf,
    /// Address to serve on, as for `pleg agent`: a path replaces the unix socket, an address the
    /// TCP address. Can be set once for each.
    #[arg(long, value_name = "ADDR|PATH", action = ArgAction::Append)]
    listen: Vec<Listen>,
    /// Configuration file of the agent: see `pleg agent`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What stops the work on pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// A pod whose calls hang waits alone.
    #[default]
    Pod,
    /// An unhealthy PLEG stops the work on all pods, as in a kubelet.
    Node,
}

impl From<Policy> for sync_loop::Policy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Pod => Self::Pod,
            Policy::Node => Self::Node,
        }
    }
}

pub async fn run(global: &Global, options: Run) -> anyhow::Result<Outcome> {
    let interrupted = signals::daemon_ended()?;
    let mut interrupted = pin!(async {
        let _ = interrupted.await;
    });
    let (lines, decisions) = Lines::new();
    let pods = Arc::new(watch::Sender::new(Pods::default()));
    let (once, down) = (options.once, options.down);
    // A runtime that does not answer yet does not delay a stop.
    let (daemon, listeners, guard) = tokio::select! {
        ready = prepare(global, options, lines, pods.clone()) => ready?,
        () = &mut interrupted => return Ok(Outcome::Done),
    };
    // With --once or --down, an early stop is an error, because the requested result is not known.
    let stopped = || match (once, down) {
        (true, _) => Err(anyhow!("stopped before all pods had finished")),
        (_, true) => Err(anyhow!("stopped before all pods had ended")),
        _ => Ok(Outcome::Done),
    };
    let mut found = Ok(Outcome::Done);
    let ended = async {
        tokio::select! {
            () = interrupted => found = stopped(),
            all = finished(pods.subscribe()), if once => found = all,
            () = nothing_left(pods.subscribe()), if down => {}
        }
    };
    let mut printing = pin!(print(decisions, global.format()));
    let mut is_printed = false;
    let failed = async {
        printing.as_mut().await?;
        // All senders are gone: the daemon is about to end.
        is_printed = true;
        pending::<anyhow::Result<()>>().await
    };
    tokio::select! {
        ran = agent::run(daemon, listeners, ended) => ran?,
        () = guard.ended() => bail!("the guard has stopped"),
        failed = failed => failed?,
        () = output::reader_gone() => return stopped(),
    }
    // Print the last decisions, but do not let a reader that reads nothing delay the end.
    if !is_printed && let Ok(printed) = timeout(LAST_LINES_LIMIT, printing).await {
        printed?;
    }
    found
}

/// Prints each decision, until the worker ends.
async fn print(mut decisions: mpsc::Receiver<Line>, format: Format) -> anyhow::Result<()> {
    if format == Format::Text {
        output::text(&text::columns())?;
    }
    while let Some(line) = decisions.recv().await {
        let write = move || output::show(format, &line, || text::line(&line));
        output::write_in_thread(write).await?;
    }
    Ok(())
}

/// Waits until all pods that can finish have finished, and returns whether all of them succeeded.
async fn finished(mut pods: watch::Receiver<Pods>) -> anyhow::Result<Outcome> {
    let mut completion = Completion::default();
    loop {
        let finished = completion.update(&pods.borrow_and_update())?;
        match finished {
            Some(Completed::Succeeded) => return Ok(Outcome::Done),
            Some(Completed::Failed) => return Ok(Outcome::Problem),
            None => pods.changed().await?,
        }
    }
}

async fn nothing_left(mut pods: watch::Receiver<Pods>) {
    if pods.wait_for(Pods::is_empty).await.is_err() {
        pending().await
    }
}

async fn prepare(
    global: &Global,
    options: Run,
    lines: Lines,
    pods: Arc<watch::Sender<Pods>>,
) -> anyhow::Result<(Daemon, Listeners, Handle)> {
    if let Some(directory) = &options.manifests {
        let read = directory.read_dir();
        read.with_context(|| format!("cannot read the manifests in {}", directory.display()))?;
    }
    if !options.beside_kubelet && is_taken(KUBELET_HEALTHZ).await {
        bail!(
            "a kubelet runs on this node (it answers on {KUBELET_HEALTHZ}); \
             --beside-kubelet starts anyway"
        );
    }
    let config = configured(options.config.as_deref(), options.listen)?;
    let named = global.given_endpoint()?.or(config.endpoint()?);
    let endpoint = endpoint::required(named).await?;
    // A wrong path is an error at once. A runtime that hangs now or restarts later is not an error.
    endpoint::connect(&endpoint).await?;
    let listeners = Listeners::bind(&config).await?;
    let socket = state_directory().join(format!("{}.sock", options.owner));
    // The guard stands between the pods' worker and the runtime, as between a kubelet and its runtime.
    let kept = format!("{}.rows", options.owner);
    let proxy = Proxy {
        runtime: endpoint.path().to_owned(),
        socket: socket.clone(),
        settings: Settings::default(),
        state: Some(state_file(endpoint.path(), &kept)),
        ids: runtime_ids(endpoint.path()),
        unix_nanos: system_clock()().as_unix_nanos(),
    };
    let guard = proxy.start(listen_on(&socket, endpoint.path()).await?, Mode::Guard)?;
    let static_pods = StaticPods {
        manifests: options.manifests,
        node_name: options.node_name.unwrap_or_else(host_name),
        root: absolute(&options.root_dir)?,
        logs: log_folders(&options.pod_logs_dir)?,
        policy: options.policy.into(),
        guard: Endpoint::new(&socket),
        owner: options.owner,
        lines,
        pods,
        ready: watch::Sender::new(None),
    };
    let daemon = Daemon {
        endpoint,
        config,
        state_directory: state_directory(),
        guard: Some(socket),
        doctor: program(),
        static_pods: Some(Arc::new(static_pods)),
    };
    Ok((daemon, listeners, guard))
}

/// The absolute form of a path: the runtime does not share our working directory.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is not a directory", path.display()))
}

/// The directory of the links is next to that of the logs, as `/var/log/containers` is next to
/// `/var/log/pods`.
fn log_folders(pods: &Path) -> anyhow::Result<LogFolders> {
    let pods = absolute(pods)?;
    let links = pods.with_file_name("containers");
    ensure!(
        pods != links && pods.file_name().is_some(),
        "{} cannot be the directory of the pods' logs",
        pods.display()
    );
    Ok(LogFolders { pods, links })
}

/// Whether a process accepts connections at this address.
async fn is_taken(address: SocketAddr) -> bool {
    let connected = timeout(KUBELET_LIMIT, TcpStream::connect(address)).await;
    matches!(connected, Ok(Ok(_)))
}

/// The name that a kubelet would give to this node by default: its host name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim().to_lowercase() {
        name if name.is_empty() => "localhost".to_owned(),
        name => name,
    }
}

/// Checks the name of an owner. It is the value of a label, and the name of a socket in the directory
/// that also contains the sockets of the agent and the guard.
fn owner(text: &str) -> Result<String, String> {
    if ["agent", "cri"].contains(&text) {
        return Err("the agent's or the guard's socket has this name; use another".to_owned());
    }
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let starts_well = text.starts_with(|it: char| it.is_ascii_alphanumeric());
    match starts_well && text.chars().all(is_plain) && text.len() <= 63 {
        true => Ok(text.to_owned()),
        false => Err("use up to 63 letters, digits, '-', '_' and '.'".to_owned()),
    }
}
