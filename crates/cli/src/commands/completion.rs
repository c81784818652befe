//! `pleg completion`: the completion script of a shell.

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::commands::kubectl::Kubectl;
use crate::{Outcome, output};

const AFTER_HELP: &str = "Examples:
  pleg completion bash > /etc/bash_completion.d/pleg
  pleg completion zsh  > /usr/local/share/zsh/site-functions/_pleg
  pleg completion fish > /etc/fish/completions/pleg.fish

For `kubectl pleg`, kubectl runs kubectl_complete-pleg, which is this program
under another name:
  ln -s pleg /usr/local/bin/kubectl-pleg
  ln -s pleg /usr/local/bin/kubectl_complete-pleg

The Debian package already contains all of them.";

/// Arguments of `pleg completion`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Completion {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
    /// The command to complete.
    #[arg(value_enum, default_value_t = Program::Pleg)]
    program: Program,
}

/// A name of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    /// The command.
    Pleg,
    /// The kubectl plugin, called by its own name.
    KubectlPleg,
}

/// Prints the completion script of `pleg`, whose command line is `all`, or of the kubectl plugin.
pub fn run(options: &Completion, all: &Command) -> anyhow::Result<Outcome> {
    let (mut command, name) = match options.program {
        Program::Pleg => (visible(all), "pleg"),
        Program::KubectlPleg => (Kubectl::command(), "kubectl-pleg"),
    };
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    output::generated(&script)?;
    Ok(Outcome::Done)
}

/// The command line without hidden commands, which a completion script would otherwise offer.
fn visible(all: &Command) -> Command {
    let listed = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("pleg")
        .propagate_version(true)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(listed.cloned())
}
