//! The commands and options that do more than observe: they create, change or end something on a node, or
//! need the simulated runtime.
//!
//! A build without the feature `act` has `observing_only.rs` in place of this module.

use std::error::Error;
use std::io;

use ::sim::ScenarioError;
use agent::AgentConfig;
use clap::{Args, Subcommand};
use doctor::collect::probes::DumpGoroutines;
use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;
use crate::args::Global;

mod demo;
mod guard;
mod remedy;
mod run;
mod sim;

pub use remedy::apply as apply_remedy;

/// Examples for the help.
pub const HELP: &str = "\
  pleg guard                     keep a kubelet Ready if a container is stuck
  pleg run --manifests pods/     keep static pods running, without a kubelet
  pleg demo                      what pleg does, on a simulated node
  pleg sim --listen /tmp/s.sock  a simulated runtime for any CRI client
";

/// The advice if no runtime is found.
pub const ADVICE_WITHOUT_RUNTIME: &str = "set one with --runtime-endpoint, or try `pleg demo`";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Acting {
    /// Serve CRI to a kubelet, and keep it Ready while one container is stuck.
    Guard(guard::Guard),
    /// Keep the static pods of a directory running, without a kubelet.
    Run(run::Run),
    /// Show how one stuck container affects a kubelet, on a simulated node, in half a minute.
    Demo,
    /// Serve a simulated runtime, driven by a scenario file.
    Sim(sim::Sim),
}

impl Acting {
    /// Whether the log is the only output.
    pub fn has_only_log(&self) -> bool {
        matches!(self, Self::Guard(_))
    }
}

/// Runs one of the commands.
pub async fn run(global: &Global, command: Acting) -> anyhow::Result<Outcome> {
    match command {
        Acting::Guard(options) => guard::run(global, options).await,
        Acting::Run(options) => run::run(global, options).await,
        Acting::Demo => demo::run(global).await,
        Acting::Sim(options) => sim::run(global, options).await,
    }
}

/// Accepts every configuration of the agent: this build supports all of them.
pub fn check(_: &AgentConfig) -> anyhow::Result<()> {
    Ok(())
}

/// Whether pleg itself wrote the line breaks in an error of one of these
/// commands, so that they are kept.
pub fn has_own_line_breaks(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<ScenarioError>()
}

/// Whether `pleg doctor` may send a signal.
#[derive(Args, Debug)]
pub struct Signals {
    /// If a call hangs, make containerd dump its goroutines with SIGUSR1, which is harmless,
    /// and report which of them blocks the others.
    #[arg(long)]
    allow_signals: bool,
}

impl Signals {
    /// The function that makes containerd write its goroutines, if that is allowed.
    pub fn dump_goroutines(&self) -> Option<DumpGoroutines> {
        self.allow_signals.then_some(dump_goroutines)
    }
}

fn dump_goroutines(containerd: Pid) -> io::Result<()> {
    Ok(kill_process(containerd, Signal::USR1)?)
}
