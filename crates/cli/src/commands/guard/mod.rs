//! `pleg guard`: a CRI endpoint between a kubelet and its runtime, and an agent in one process.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{
    AgentChoice, AgentClient, AgentConfig, Daemon, Listeners, host_ids, keep_trying, open_cri_door,
    state_directory,
};
use anyhow::{Context, bail};
use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use cri::Endpoint;
use guard::core::Settings;
use guard::{Handle, Proxy};
use pleg::model::wall_time::system_clock;
use pleg_text::GoDuration;
use tokio::sync::oneshot;

use crate::args::{Global, duration};
use crate::commands::agent::{configured, program, serve};
use crate::{Found, endpoint};
use install::{Install, Uninstall};
use remedy::{Node, Remedies, Remedy};

mod install;
mod remedy;
mod units;

const HELP: &str = "\
Configure the kubelet to use the guard's socket instead of the runtime's
(containerRuntimeEndpoint: unix:///run/pleg/cri.sock). The runtime's responses pass through
unchanged. While a list call is overdue, the guard answers it from its own records, provided that
every container except the stuck one was confirmed by its own status call. `pleg status` shows the
state of the guard. docs/guard.md explains what is answered, and what never is.

  pleg guard -r unix:///run/containerd/containerd.sock
  pleg guard install       run a guard under systemd; `uninstall` removes it
  pleg guard --mode shadow answer nothing, and count where the guard's lists would differ
  pleg guard mode pass     make a running guard pass all calls through
  pleg guard mode guard    make it answer again";

/// Arguments of `pleg guard`.
#[derive(Args, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub struct Guard {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    options: Options,
}

/// How a guard runs.
#[derive(Args, Debug)]
struct Options {
    /// The socket for the kubelet: unix:///path or a path. It gets the owner and the mode of the
    /// runtime's socket. Default: /run/pleg/cri.sock; in front of CRI-O
    /// /run/pleg/run/crio/crio.sock, because a kubelet identifies CRI-O by the end of the path.
    #[arg(long, value_name = "URL")]
    listen: Option<Endpoint>,
    /// What the guard does.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// How long the guard answers during one fault. After that, all calls pass through until
    /// the runtime answers its list calls in time again.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30m")]
    limit: Duration,
    /// What to do about the shim of a container that has blocked the lists for the time set
    /// by --remedy-after, if the doctor is certain of it and has evidence against the shim. At
    /// most once per hour.
    #[arg(long, value_enum, default_value_t)]
    remedy: Remedy,
    /// How long one container must have blocked the lists before the remedy is applied.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2m")]
    remedy_after: Duration,
    /// Configuration file of the agent: see `pleg agent`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Options {
    /// What follows `pleg guard` to run like this, without guesses.
    fn command_line(&self, runtime: &Endpoint, listen: &Path) -> Vec<String> {
        let name = |value: Option<PossibleValue>| {
            value
                .map(|value| value.get_name().to_owned())
                .unwrap_or_default()
        };
        let mut line = vec!["--runtime-endpoint".to_owned(), runtime.to_string()];
        let mut add = |flag: &str, value: String| line.extend([flag.to_owned(), value]);
        add("--listen", format!("unix://{}", listen.display()));
        add("--mode", name(self.mode.to_possible_value()));
        add("--limit", GoDuration(self.limit).to_string());
        if self.remedy != Remedy::None {
            add("--remedy", name(self.remedy.to_possible_value()));
            add("--remedy-after", GoDuration(self.remedy_after).to_string());
        }
        if let Some(config) = &self.config {
            add("--config", config.display().to_string());
        }
        line
    }
}

/// What else there is to do.
#[derive(Debug, Subcommand)]
enum Other {
    /// Write and start systemd units that run a guard, and print what to change in the kubelet.
    Install(Install),
    /// Stop and remove these units, and print what to change back.
    Uninstall(Uninstall),
    /// Change what a running guard does.
    Mode {
        /// What the guard does from now on.
        mode: Mode,
        /// The socket of the guard's agent [default: /run/pleg/agent.sock]
        #[arg(long, value_name = "PATH")]
        agent: Option<Endpoint>,
    },
}

/// What a guard does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Answer calls that the runtime does not answer.
    #[default]
    Guard,
    /// Pass all calls through, and compare what would have been answered with the runtime's lists.
    Shadow,
    /// Pass all calls through.
    Pass,
}

impl From<Mode> for guard::core::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Guard => Self::Guard,
            Mode::Shadow => Self::Shadow,
            Mode::Pass => Self::Pass,
        }
    }
}

pub async fn run(global: &Global, guard: Guard) -> anyhow::Result<Found> {
    let options = guard.options;
    match guard.other {
        Some(Other::Mode { mode, agent }) => return switch(mode, agent.as_ref()).await,
        Some(Other::Install(install)) => return install::install(global, install).await,
        Some(Other::Uninstall(uninstall)) => return install::uninstall(global, &uninstall),
        None => {}
    }
    let remedies = Remedies::of(&options);
    let (ready, is_ready) = oneshot::channel();
    let remedied = async {
        match (remedies, is_ready.await) {
            (Some(remedies), Ok(node)) => remedies.watch(node).await,
            _ => pending().await,
        }
    };
    let served = serve(async {
        let (daemon, listeners) = prepare(global, options).await?;
        let node = Node {
            runtime: daemon.endpoint.clone(),
            agent: listeners.socket.path().to_owned(),
            records: kept_in(daemon.endpoint.path(), "remedies"),
        };
        // Without a remedy nobody waits for it.
        let _ = ready.send(node);
        Ok((daemon, listeners))
    });
    tokio::select! {
        served = served => served,
        never = remedied => match never {},
    }
}

/// The runtime in front of which a guard stands.
async fn runtime_of(global: &Global, options: &Options) -> anyhow::Result<Endpoint> {
    let named = global.named_endpoint()?;
    let configured = match &options.config {
        Some(path) => AgentConfig::read(path)?.endpoint()?,
        None => None,
    };
    // A runtime that hangs is not asked who it is: a kubelet is to be answered all the same.
    let present = endpoint::present(named.or(configured)).await;
    present.context("no container runtime found; set its socket with --runtime-endpoint")
}

/// The guard's own socket.
fn socket_of(options: &Options, runtime: &Endpoint) -> PathBuf {
    match &options.listen {
        Some(listen) => listen.path().to_owned(),
        None => default_socket(runtime.path()),
    }
}

async fn prepare(global: &Global, options: Options) -> anyhow::Result<(Daemon, Listeners)> {
    let config = configured(options.config.as_deref(), Vec::new())?;
    let endpoint = runtime_of(global, &options).await?;
    // Before anything is learnt: a kubelet that starts now waits, and is not refused.
    let guard = start(&endpoint, &options).await?;
    let listeners = tokio::select! {
        listeners = agents_listeners(&config) => listeners,
        () = guard.ended() => bail!("the guard has stopped"),
    };
    let daemon = Daemon {
        endpoint,
        config,
        state_directory: state_directory(),
        guard: Some(guard),
        doctor: program(),
        static_pods: None,
    };
    Ok((daemon, listeners))
}

/// The sockets of the guard's agent, however long somebody else has them: the kubelet needs the
/// guard, and not what it says of itself.
async fn agents_listeners(config: &AgentConfig) -> Listeners {
    let error = match Listeners::bind(config).await {
        Ok(listeners) => return listeners,
        Err(error) => anyhow::Error::from(error),
    };
    tracing::warn!(
        "{error:#}. The kubelet is served; status, health and metrics are not, until this is possible"
    );
    let what = "serving CRI; waiting for the agent's sockets";
    keep_trying(what, async || Listeners::bind(config).await).await
}

async fn start(endpoint: &Endpoint, options: &Options) -> anyhow::Result<Handle> {
    let path = socket_of(options, endpoint);
    let settings = Settings {
        limit: options.limit,
        ..Settings::default()
    };
    let guard = guarding(endpoint, &path, settings, options.mode.into(), "rows").await?;
    tracing::info!(
        "guarding {endpoint} on unix://{} (mode {:?})",
        path.display(),
        options.mode
    );
    Ok(guard)
}

/// A guard of this runtime that listens on `path`, and keeps what it knows under the name `kept`.
pub async fn guarding(
    runtime: &Endpoint,
    path: &Path,
    settings: Settings,
    mode: guard::core::Mode,
    kept: &str,
) -> anyhow::Result<Handle> {
    let listener = open_cri_door(path, runtime.path()).await?;
    let proxy = Proxy {
        runtime: runtime.path().to_owned(),
        settings,
        state: Some(kept_in(runtime.path(), kept)),
        ids: host_ids(runtime),
        unix_nanos: system_clock()().as_unix_nanos(),
    };
    Ok(proxy.start(listener, mode)?.reached_by(path))
}

/// Where the guard of this runtime keeps something for its next start.
fn kept_in(runtime: &Path, what: &str) -> PathBuf {
    let name = runtime.to_string_lossy();
    let name = name.trim_start_matches('/').replace('/', "-");
    state_directory().join(format!("{name}.{what}"))
}

/// A kubelet chooses how to read CRI-O's statistics by the end of the path.
fn default_socket(runtime: &Path) -> PathBuf {
    let name = match runtime.ends_with("run/crio/crio.sock") {
        true => "run/crio/crio.sock",
        false => "cri.sock",
    };
    state_directory().join(name)
}

async fn switch(mode: Mode, agent: Option<&Endpoint>) -> anyhow::Result<Found> {
    let choice = agent.map_or_else(AgentChoice::default, |agent| {
        AgentChoice::Named(agent.path().to_owned())
    });
    let Some((client, _)) = AgentClient::find(&choice, None).await? else {
        anyhow::bail!("no guard responds on this node; set its socket with --agent");
    };
    let name = mode.to_possible_value();
    let name = name.as_ref().map_or("", |name| name.get_name());
    client.switch_guard(name).await?;
    let does = match mode {
        Mode::Guard => "it answers while one container blocks the runtime",
        Mode::Shadow => "it passes every call, and counts where its lists would have differed",
        Mode::Pass => "it passes every call",
    };
    tracing::info!("the guard is in mode {name} now: {does}");
    Ok(Found::Well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_front_of_crio_the_path_ends_as_crios_does() {
        let crio = default_socket(Path::new("/run/crio/crio.sock"));
        assert!(crio.ends_with("run/crio/crio.sock"));
        let containerd = default_socket(Path::new("/run/containerd/containerd.sock"));
        assert!(containerd.ends_with("cri.sock"));
    }
}
