//! `pleg completion`: the completion script of a shell.

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::command_line::Arguments;
use crate::{Found, output};

const AFTER_HELP: &str = "\
  pleg completion bash > /etc/bash_completion.d/pleg
  pleg completion zsh  > /usr/local/share/zsh/site-functions/_pleg
  pleg completion fish > /etc/fish/completions/pleg.fish

Debian's package has installed them already.";

/// Arguments of `pleg completion`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Completion {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(options: &Completion) -> anyhow::Result<Found> {
    output::generated(&script(options.shell))?;
    Ok(Found::Well)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), "pleg", &mut script);
    script
}

/// The command line without the commands that help does not list: scripts would offer them.
fn visible() -> Command {
    let all = Arguments::command();
    let listed = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("pleg")
        .propagate_version(true)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(listed.cloned())
}
