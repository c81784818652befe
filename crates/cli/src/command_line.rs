//! The command line and its help.

use clap::{Parser, Subcommand};

use crate::act::{self, Acting};
use crate::args::{Agent, Global, Pods, Status, Watch};
use crate::commands::analyze::Analyze;
use crate::commands::completion::Completion;
use crate::commands::doctor::Doctor;
use crate::commands::explain::Explain;
use crate::commands::man_pages::ManPages;
use crate::commands::rules::RulesCommand;
use crate::commands::snapshot::Snapshot;
use crate::commands::timeline::Timeline;
use crate::commands::top::Top;

const EXAMPLES: &str = "\
Examples:
  pleg watch                     lifecycle events of this node, live
  pleg watch -n shop -o json     one namespace, one JSON object per line
  pleg status                    whether pods are observed, what is stuck
  pleg top                       the node at a glance, live
  pleg doctor                    why this node is NotReady, and what to do now
  pleg explain                   list the known causes
  pleg snapshot                  one file for a ticket: history, status, bundle
  pleg analyze kubelet.log       explain a saved log
  pleg rules check rules/        check rules and causes of your own
  pleg timeline --from *.log     a picture of an incident, from saved logs
  pleg agent                     the daemon: events, status, metrics
";

const EXIT_CODES: &str = "Exit codes: 0 healthy, 1 problem found, 2 could not determine.";

fn after_help() -> String {
    format!("{EXAMPLES}{}\n{EXIT_CODES}", act::HELP)
}

/// Watch the pods of a node, even while its container runtime hangs.
#[derive(Debug, Parser)]
#[command(
    name = "pleg",
    version,
    after_help = after_help(),
    propagate_version = true,
    max_term_width = 80
)]
pub struct Arguments {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show lifecycle events as they happen, until interrupted.
    Watch(Watch),
    /// Show all pods with their sandboxes and containers.
    Pods(Pods),
    /// Show whether pods are observed, which calls are stuck, and what a kubelet would report.
    Status(Status),
    /// Show the node on a live screen: pods, outstanding calls, events, findings.
    Top(Top),
    /// Run the daemon: metrics, health and events over HTTP.
    Agent(Agent),
    /// Diagnose this node without changing it: what is wrong, and what to do.
    Doctor(Doctor),
    /// Describe a cause, or list all known causes.
    Explain(Explain),
    /// Read files for `doctor` that may block in the kernel.
    #[command(hide = true)]
    DoctorHelper,
    /// Write history, status, pods and a bundle of this node to one file.
    Snapshot(Snapshot),
    /// Explain logs, goroutine dumps and other files saved from a node.
    Analyze(Analyze),
    /// Check causes and rules of your own.
    Rules(RulesCommand),
    /// Draw an incident as one page: stuck calls, the node, causes and events.
    Timeline(Timeline),
    #[command(flatten)]
    Acting(Acting),
    /// Generate a shell completion script.
    Completion(Completion),
    /// Write the manual pages of all commands to a directory.
    #[command(hide = true)]
    ManPages(ManPages),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::kubectl::Kubectl;

    /// clap wraps a wider line, which would separate an example from its description.
    #[test]
    fn no_line_after_the_options_is_wider_than_80_columns() {
        let mut commands = vec![Arguments::command(), Kubectl::command()];
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                let name = command.get_name();
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
