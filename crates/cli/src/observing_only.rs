//! What a build without the feature `act` has in place of the module `act`: it refuses the commands and
//! the configuration that it cannot carry out.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsString;
use std::future::pending;
use std::path::PathBuf;

use agent::{AgentConfig, Daemon, Remedy};
use anyhow::{bail, ensure};
use clap::{Args, Subcommand};
use doctor::collect::probes::DumpGoroutines;

use crate::Outcome;
use crate::args::Global;

/// What this build is, for the help.
pub const HELP: &str = "
This build only observes: it has no command, option or remedy that creates,
changes or ends anything on the node.
";

/// What to do if there is no runtime.
pub const ADVICE_WITHOUT_RUNTIME: &str = "set one with --runtime-endpoint";

/// The commands that only the full build has.
#[derive(Debug, Subcommand)]
pub enum Acting {
    #[command(hide = true)]
    Guard(Ignored),
    #[command(hide = true)]
    Run(Ignored),
    #[command(hide = true)]
    Demo(Ignored),
    #[command(hide = true)]
    Sim(Ignored),
}

/// This build only observes, and refuses this command.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

impl Acting {
    /// Whether the log is the only output.
    pub fn has_only_log(&self) -> bool {
        false
    }
}

/// Refuses the command.
pub async fn run(_: &Global, command: Acting) -> anyhow::Result<Outcome> {
    let name = match command {
        Acting::Guard(_) => "guard",
        Acting::Run(_) => "run",
        Acting::Demo(_) => "demo",
        Acting::Sim(_) => "sim",
    };
    bail!(
        "this build only observes and has no `pleg {name}`: use the pleg of the archive or of the \
         Debian package"
    );
}

/// Refuses a configuration of the agent that this build cannot carry out.
pub fn check(config: &AgentConfig) -> anyhow::Result<()> {
    ensure!(
        config.remedy == Remedy::None,
        "`remedy` is set, but this build only observes and sends no signal to a shim: remove \
         `remedy`, or run the agent of the archive or of the Debian package on the node"
    );
    Ok(())
}

/// Applies no remedy: [`check`] has refused a configuration with one.
pub async fn apply_remedy(_: &Daemon, _: PathBuf) -> Infallible {
    pending().await
}

/// Whether pleg itself wrote the line breaks in an error of one of the commands.
pub fn has_own_line_breaks(_: &(dyn Error + 'static)) -> bool {
    false
}

/// Whether `pleg doctor` may send a signal: it may not.
#[derive(Args, Debug)]
pub struct Signals {}

impl Signals {
    /// This build makes no process write its goroutines.
    pub fn dump_goroutines(&self) -> Option<DumpGoroutines> {
        None
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        global: Global,
        #[command(subcommand)]
        command: Acting,
    }

    /// Enforces O8.
    #[tokio::test]
    async fn an_observer_refuses_each_command_of_the_full_build_in_a_sentence() {
        for (line, name) in [
            ("pleg run --manifests pods/ --once", "run"),
            ("pleg run --help", "run"),
            ("pleg guard", "guard"),
            ("pleg guard install --dry-run", "guard"),
            ("pleg sim --listen /tmp/x.sock", "sim"),
            ("pleg -o json demo", "demo"),
        ] {
            let Arguments { global, command } = Arguments::parse_from(line.split(' '));
            let error = run(&global, command).await.unwrap_err().to_string();
            let sentence = format!("this build only observes and has no `pleg {name}`: ");
            assert!(error.starts_with(&sentence), "{line}: {error}");
        }
    }

    /// Enforces O8.
    #[test]
    fn an_observer_refuses_a_configuration_with_a_remedy() {
        check(&AgentConfig::default()).unwrap();
        for remedy in [Remedy::Shim, Remedy::ShimKill] {
            let config = AgentConfig {
                remedy,
                ..AgentConfig::default()
            };
            let error = check(&config).unwrap_err().to_string();
            assert!(error.contains("this build only observes"), "{error}");
        }
    }
}
