//! `pleg rules`: rules and causes of a site.

use std::path::PathBuf;

use analyze::rules::{Checked, Error, Rules};
use anyhow::bail;
use clap::{Args, Subcommand};
use pleg::model::wall_time::system_clock;
use pleg::out::words::counted;
use serde_json::json;

use crate::args::Global;
use crate::{Outcome, output};

/// Arguments of `pleg rules`.
#[derive(Args, Debug)]
pub struct RulesCommand {
    #[command(subcommand)]
    command: RulesSubcommand,
}

#[derive(Debug, Subcommand)]
enum RulesSubcommand {
    /// Check the rules of a folder, and run its samples.
    Check {
        /// A folder with a folder for each cause: page.md, rules.yaml, samples/hit and samples/miss.
        #[arg(value_name = "DIR", required = true)]
        folders: Vec<PathBuf>,
    },
}

/// The folders with rules of a site.
#[derive(Args, Debug)]
pub struct RulesOption {
    /// A folder with causes and rules of your own, besides the built-in ones. May be repeated.
    #[arg(long = "rules", value_name = "DIR")]
    folders: Vec<PathBuf>,
}

impl RulesOption {
    /// Adds the rules of these folders to those of this process.
    pub fn install(&self) -> anyhow::Result<()> {
        if !self.folders.is_empty() {
            install(&self.folders)?;
        }
        Ok(())
    }
}

fn install(folders: &[PathBuf]) -> anyhow::Result<&'static Rules> {
    match Rules::with_folders(folders) {
        Ok(rules) => Ok(rules.install()?),
        Err(errors) => bail!("{}", sentences(&errors).join("\n")),
    }
}

fn sentences(errors: &[Error]) -> Vec<String> {
    errors.iter().map(Error::to_string).collect()
}

/// The text of the result if there is no error.
fn valid(rules: usize, samples: usize) -> String {
    let are = if rules == 1 { "is" } else { "are" };
    let give = if samples == 1 { "gives" } else { "give" };
    let checked = match samples {
        0 => "; samples are missing: a file in samples/hit shows that a cause is found".to_owned(),
        _ => format!(
            ", and {} {give} the expected findings",
            counted(samples, "sample")
        ),
    };
    format!("{} {are} valid{checked}\n", counted(rules, "rule"))
}

pub fn run(global: &Global, options: RulesCommand) -> anyhow::Result<Outcome> {
    let RulesSubcommand::Check { folders } = options.command;
    let checked = install(&folders)?.check(system_clock()());
    let Checked {
        rules,
        samples,
        errors,
    } = &checked;
    let errors = sentences(errors);
    let report = json!({"rules": rules, "samples": samples, "errors": errors});
    output::show(global.format(), &report, || match errors.is_empty() {
        true => valid(*rules, *samples),
        false => format!(
            "{}\n{} in {} and {}\n",
            errors.join("\n"),
            counted(errors.len(), "error"),
            counted(*rules, "rule"),
            counted(*samples, "sample")
        ),
    })?;
    Ok(Outcome::done(!errors.is_empty()))
}
