//! The command line as a whole, and the help that it gives.

use clap::{Parser, Subcommand};

use crate::args::{Agent, GlobalArguments, Pods, Sim, Status, Watch};
use crate::commands::analyze::Analyze;
use crate::commands::completion::Completion;
use crate::commands::doctor::Doctor;
use crate::commands::explain::Explain;
use crate::commands::guard::Guard;
use crate::commands::man_pages::ManPages;
use crate::commands::rules::RulesCommand;
use crate::commands::run::Run;
use crate::commands::snapshot::Snapshot;
use crate::commands::timeline::Timeline;
use crate::commands::top::Top;

const AFTER_HELP: &str = "\
Examples:
  pleg watch                     lifecycle events of this node, live
  pleg watch -n shop -o json     one namespace, one JSON object per line
  pleg status                    whether all pods are up to date, and what hangs
  pleg top                       the node at a glance, live
  pleg demo                      what pleg does, on a simulated node
  pleg doctor                    why this node is NotReady, and what to do now
  pleg explain                   list the known causes
  pleg snapshot                  one file for a ticket: history, status and a bundle
  pleg analyze kubelet.log       explain a saved log
  pleg rules check rules/        check rules and causes of your own
  pleg timeline --from *.log     a picture of an incident, from saved logs
  pleg agent                     the daemon: events and status for other commands, metrics
  pleg guard                     keep a kubelet Ready while one container is stuck
  pleg run --manifests pods/     keep static pods running, without a kubelet
  pleg sim --listen /tmp/s.sock  a simulated runtime for any CRI client

Exit codes: 0 healthy, 1 problem found, 2 could not determine.";

/// Watch the pods of a node, even while its container runtime hangs.
#[derive(Debug, Parser)]
#[command(name = "pleg", version, after_help = AFTER_HELP, propagate_version = true)]
pub struct Arguments {
    /// What every command takes.
    #[command(flatten)]
    pub global: GlobalArguments,
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
    /// Show whether pod status is up to date, which calls hang, and what a kubelet would report.
    Status(Status),
    /// Show the node on a live screen: pods, outstanding calls, events, findings.
    Top(Top),
    /// Run the daemon: metrics, health and events over HTTP.
    Agent(Agent),
    /// Serve CRI to a kubelet, and keep it Ready while one container is stuck.
    Guard(Guard),
    /// Keep the static pods of a directory running, without a kubelet.
    Run(Run),
    /// Diagnose this node without changing it: what is wrong, and what to do.
    Doctor(Doctor),
    /// Describe a cause, or list all known causes.
    Explain(Explain),
    /// Reads for `doctor` what may block in the kernel.
    #[command(hide = true)]
    DoctorHelper,
    /// Write what is known of this node to one file: history, status, pods and a bundle.
    Snapshot(Snapshot),
    /// Explain logs, goroutine dumps and other files saved from a node.
    Analyze(Analyze),
    /// Check causes and rules of your own.
    Rules(RulesCommand),
    /// Draw what happened on a node as one page: what hung, who waited, what the kubelet did.
    Timeline(Timeline),
    /// Show how one stuck container affects a kubelet, on a simulated node, in half a minute.
    Demo,
    /// Serve a simulated runtime, driven by a scenario file.
    Sim(Sim),
    /// Generate a shell completion script.
    Completion(Completion),
    /// Write the manual pages of all commands to a directory.
    #[command(hide = true)]
    ManPages(ManPages),
}
