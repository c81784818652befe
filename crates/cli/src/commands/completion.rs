//! `pleg completion`: the completion script of a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{Found, output};

const AFTER_HELP: &str = "pleg completion bash > /etc/bash_completion.d/pleg
  pleg completion \
                          zsh  > /usr/local/share/zsh/site-functions/_pleg
  pleg completion fish \
                          > /etc/fish/completions/pleg.fish

The Debian package already contains \
                          these scripts.";

/// Arguments of `pleg completion`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Completion {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Completes `all` of the command line.
pub fn run(options: &Completion, all: &Command) -> anyhow::Result<Found> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut visible(all), "pleg", &mut script);
    output::generated(&script)?;
    Ok(Found::Well)
}

/// The command line without the commands that help does not list: scripts would offer them.
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
