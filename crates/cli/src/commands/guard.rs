//! `pleg guard`: a CRI endpoint between a kubelet and its runtime, and an agent in one process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{AgentClient, AgentConfig, Daemon, Listeners, host_ids, state_directory};
use clap::{Args, Subcommand, ValueEnum};
use cri::Endpoint;
use guard::core::Settings;
use guard::{Handle, Proxy, door};
use pleg::model::wall_time::system_clock;

use crate::args::{AgentOption, Global, duration};
use crate::commands::agent::serve;
use crate::{Found, endpoint};

const HELP: &str = "\
The kubelet is told to use the guard's socket in place of the runtime's
(containerRuntimeEndpoint: unix:///run/pleg/cri.sock). What the runtime answers passes
unchanged. While a list is overdue, it is answered from what is known, if every container was
confirmed by its own status; `pleg status` shows what the guard does. docs/guard.md explains
what is answered, and what never is.

  pleg guard -r unix:///run/containerd/containerd.sock
  pleg guard --mode shadow passes everything, and counts where its lists would differ
  pleg guard mode pass     a running guard passes everything from now on
  pleg guard mode guard    and answers again";

/// Arguments of `pleg guard`.
#[derive(Args, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub struct Guard {
    #[command(subcommand)]
    running: Option<Running>,
    /// The socket for the kubelet: unix:///path or a path. It gets the owner and the mode of the
    /// runtime's socket. Default: /run/pleg/cri.sock; in front of CRI-O
    /// /run/pleg/run/crio/crio.sock, because a kubelet tells CRI-O by the end of the path.
    #[arg(long, value_name = "URL")]
    listen: Option<Endpoint>,
    /// What to do.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// For how long one fault is guarded without a break. After that everything passes, until the
    /// runtime answers its lists in time again.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30m")]
    limit: Duration,
    /// Configuration file of the agent: see `pleg agent`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What to do with a guard that runs.
#[derive(Debug, Subcommand)]
enum Running {
    /// Change what a running guard does.
    Mode {
        /// What to do from now on.
        mode: Mode,
        #[command(flatten)]
        agent: AgentOption,
    },
}

/// What a guard does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Answer what the runtime does not.
    #[default]
    Guard,
    /// Pass everything, and compare what would have been answered with the runtime's lists.
    Shadow,
    /// Pass everything.
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

pub async fn run(global: &Global, options: Guard) -> anyhow::Result<Found> {
    if let Some(Running::Mode { mode, agent }) = options.running {
        return switch(mode, &agent).await;
    }
    serve(prepare(global, options)).await
}

async fn prepare(global: &Global, options: Guard) -> anyhow::Result<(Daemon, Listeners)> {
    let config = match &options.config {
        Some(path) => AgentConfig::read(path)?,
        None => AgentConfig::default(),
    };
    config.check()?;
    // A runtime that hangs is not asked who it is: a kubelet is to be answered all the same.
    let named = global.named_endpoint()?;
    let Some(endpoint) = endpoint::present(named.or(config.endpoint()?)).await else {
        anyhow::bail!("no container runtime found; name its socket with --runtime-endpoint");
    };
    // Before anything is learnt: a kubelet that starts now waits, and is not refused.
    let guard = start(&endpoint, &options)?;
    let listeners = Listeners::bind(&config).await?;
    let daemon = Daemon {
        endpoint,
        config,
        state_directory: state_directory(),
        guard: Some(guard),
    };
    Ok((daemon, listeners))
}

fn start(endpoint: &Endpoint, options: &Guard) -> anyhow::Result<Handle> {
    let path = match &options.listen {
        Some(listen) => listen.path().to_owned(),
        None => default_socket(endpoint.path()),
    };
    let listener = door::open(&path, endpoint.path())?;
    let proxy = Proxy {
        runtime: endpoint.path().to_owned(),
        settings: Settings {
            limit: options.limit,
            ..Settings::default()
        },
        state: Some(kept_in(endpoint.path())),
        ids: host_ids(endpoint),
        unix_nanos: system_clock()().as_unix_nanos(),
    };
    let guard = proxy.start(listener, options.mode.into())?;
    tracing::info!(
        "guarding {endpoint} on unix://{} (mode {:?})",
        path.display(),
        options.mode
    );
    Ok(guard)
}

/// Where the guard of this runtime keeps what it knows.
fn kept_in(runtime: &Path) -> PathBuf {
    let name = runtime.to_string_lossy();
    let name = name.trim_start_matches('/').replace('/', "-");
    state_directory().join(format!("{name}.rows"))
}

/// A kubelet chooses how to read CRI-O's statistics by the end of the path.
fn default_socket(runtime: &Path) -> PathBuf {
    let name = match runtime.ends_with("run/crio/crio.sock") {
        true => "run/crio/crio.sock",
        false => "cri.sock",
    };
    state_directory().join(name)
}

async fn switch(mode: Mode, agent: &AgentOption) -> anyhow::Result<Found> {
    let Some((client, _)) = AgentClient::find(&agent.choice(), None).await? else {
        anyhow::bail!("no guard answers on this node; name its socket with --agent");
    };
    let name = mode.to_possible_value();
    let name = name.as_ref().map_or("", |name| name.get_name());
    client.switch_guard(name).await?;
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
