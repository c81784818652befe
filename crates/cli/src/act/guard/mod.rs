//! `pleg guard`: runs `pleg-guard` (the guard's own program), installs it as a service, and changes the
//! mode of a running guard.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use base::host::{guard_socket, state_directory};
use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use cri::Endpoint;
use guard_api::{Client, StatusRequest};
use pleg_text::GoDuration;
use serde_json::json;

use crate::args::{Global, duration};
use crate::{Outcome, endpoint, output};
use install::{Install, Uninstall};

mod install;
mod kubelet;
mod program;
mod units;

const HELP: &str = "\
Configure the kubelet to use the guard's socket instead of the runtime's
(containerRuntimeEndpoint: unix:///run/pleg/cri.sock). The runtime's responses
pass through unchanged. While a list call is overdue, the guard answers it from
its records, if status calls have confirmed what it answers; an id whose status
hangs keeps its last state. The guard is a separate program, pleg-guard, which
this command runs. `pleg status` shows its state, if an agent runs on this
node. docs/guard.md explains what the guard answers, and what it never answers.

  pleg guard -r unix:///run/containerd/containerd.sock
  pleg guard install        run a guard under systemd; `uninstall` removes it
  pleg guard --mode shadow  answer nothing, and count differences of its lists
  pleg guard mode           print the mode of a running guard
  pleg guard mode pass      pass all calls through
  pleg guard mode guard     answer again";

/// How long to wait for a guard's answer. A guard answers from memory.
const GUARD_LIMIT: Duration = Duration::from_secs(2);

/// Arguments of `pleg guard`.
#[derive(Args, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub struct Guard {
    #[command(subcommand)]
    other: Option<GuardSubcommand>,
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
}

impl Options {
    /// The arguments of `pleg-guard`, with all defaults resolved.
    fn command_line(&self, runtime: &Endpoint, listen: &Path) -> Vec<String> {
        let mut line = vec!["--runtime-endpoint".to_owned(), runtime.to_string()];
        let mut add = |flag: &str, value: String| line.extend([flag.to_owned(), value]);
        add("--listen", format!("unix://{}", listen.display()));
        add("--mode", self.mode.name());
        add("--limit", GoDuration(self.limit).to_string());
        line
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum GuardSubcommand {
    /// Write and start systemd units that run a guard, and print what to change in the kubelet.
    Install(Install),
    /// Stop and remove these units, and print what to change back.
    Uninstall(Uninstall),
    /// Print or change what a running guard does.
    Mode {
        /// What the guard does from now on.
        mode: Option<Mode>,
        /// The guard's socket [default: /run/pleg/cri.sock, or else
        /// /run/pleg/run/crio/crio.sock]
        #[arg(long, value_name = "URL")]
        listen: Option<Endpoint>,
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

impl Mode {
    fn name(self) -> String {
        let name = |value: PossibleValue| value.get_name().to_owned();
        self.to_possible_value().map(name).unwrap_or_default()
    }
}

impl From<Mode> for guard_api::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Guard => Self::Guard,
            Mode::Shadow => Self::Shadow,
            Mode::Pass => Self::Pass,
        }
    }
}

pub async fn run(global: &Global, guard: Guard) -> anyhow::Result<Outcome> {
    match guard.other {
        Some(GuardSubcommand::Mode { mode, listen }) => switch(global, mode, listen.as_ref()).await,
        Some(GuardSubcommand::Install(install)) => install::install(global, install).await,
        Some(GuardSubcommand::Uninstall(uninstall)) => install::uninstall(global, &uninstall),
        None => become_guard(global, &guard.options).await,
    }
}

/// Runs the guard's program in place of this one.
async fn become_guard(global: &Global, options: &Options) -> anyhow::Result<Outcome> {
    let program = program::find()?;
    let runtime = runtime_of(global).await?;
    let listen = socket_of(options, &runtime);
    let mut command = Command::new(&program);
    command.args(options.command_line(&runtime, &listen));
    command.args(std::iter::repeat_n("--verbose", global.verbose.into()));
    // `exec` returns only if it fails.
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// The runtime behind the guard.
async fn runtime_of(global: &Global) -> anyhow::Result<Endpoint> {
    // Not `endpoint::find`, because a guard also serves in front of a runtime that hangs.
    endpoint::required(global.given_endpoint()?).await
}

/// The path of the guard's own socket.
fn socket_of(options: &Options, runtime: &Endpoint) -> PathBuf {
    match &options.listen {
        Some(listen) => listen.path().to_owned(),
        None => guard_socket(runtime.path()),
    }
}

async fn switch(
    global: &Global,
    mode: Option<Mode>,
    listen: Option<&Endpoint>,
) -> anyhow::Result<Outcome> {
    let places = match listen {
        Some(listen) => vec![listen.path().to_owned()],
        None => ["cri.sock", "run/crio/crio.sock"]
            .map(|name| state_directory().join(name))
            .into(),
    };
    let present = places.iter().find(|place| place.exists());
    let socket = present.or(places.first()).context("no socket is named")?;
    let guard = Client::new(socket);
    let mode = match mode {
        Some(mode) => {
            guard.set_mode(mode.into(), GUARD_LIMIT).await?;
            mode
        }
        None => {
            let status = guard.status(StatusRequest::default(), GUARD_LIMIT).await?;
            match status.mode() {
                guard_api::Mode::Guard => Mode::Guard,
                guard_api::Mode::Shadow => Mode::Shadow,
                guard_api::Mode::Pass => Mode::Pass,
                guard_api::Mode::Unspecified => {
                    bail!("the guard has a mode that this version of pleg does not know")
                }
            }
        }
    };
    let does = match mode {
        Mode::Guard => "it answers while one container blocks the runtime",
        Mode::Shadow => "it passes every call, and counts where its lists would have differed",
        Mode::Pass => "it passes every call",
    };
    let mode = mode.name();
    let text = || format!("{mode}: {does}\n");
    output::show(global.format(), &json!({"mode": mode}), text)?;
    Ok(Outcome::Done)
}
