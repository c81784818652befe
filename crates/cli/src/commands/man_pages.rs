//! `pleg man-pages`: a manual page for each command, in a directory.
//!
//! Packaging runs it. It is a hidden command of this binary, so that the command line need not be a
//! library for a second program.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command, CommandFactory};

use crate::Outcome;
use crate::commands::kubectl::Kubectl;

/// Arguments of `pleg man-pages`.
#[derive(Args, Debug)]
pub struct ManPages {
    /// Directory to write to; it is created if necessary.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes the pages of `pleg` and of the kubectl plugin.
pub fn run(options: &ManPages, pleg: Command) -> anyhow::Result<Outcome> {
    let directory = &options.directory;
    let write = |program| {
        fs::create_dir_all(directory)?;
        clap_mangen::generate_to(program, directory)
    };
    for program in [pleg, Kubectl::command()] {
        write(program).with_context(|| format!("cannot write to {}", directory.display()))?;
    }
    Ok(Outcome::Done)
}
