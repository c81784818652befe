//! The command line as a whole, and the help that it gives.

use clap::{Parser, Subcommand};

use crate::args::{Agent, Global, Pods, Sim, Status, Watch};
use crate::commands::analyze::Analyze;
use crate::commands::completion::Completion;
use crate::commands::doctor::Doctor;
use crate::commands::explain::Explain;
use crate::commands::guard::Guard;
use crate::commands::man_pages::ManPages;

const AFTER_HELP: &str = "\
Examples:
  pleg watch                     what happens to pods on this node, as it happens
  pleg watch -n shop -o json     one namespace, one JSON object a line
  pleg status                    are all pods seen, and what does not answer
  pleg demo                      what this is for, on a simulated node
  pleg doctor                    why this node is NotReady: who, and what to do now
  pleg explain                   the causes that are known, each with its page
  pleg analyze kubelet.log       what was saved of a node, explained
  pleg agent                     the daemon: events and status for other commands, metrics
  pleg guard                     keep a kubelet Ready while one container is stuck
  pleg sim --listen /tmp/s.sock  a runtime that obeys, for whatever speaks CRI

Exit codes: 0 well, 1 a problem was found, 2 it could not be done.";

/// See what happens to the pods of a node, even while its container runtime hangs.
#[derive(Debug, Parser)]
#[command(name = "pleg", version, after_help = AFTER_HELP, propagate_version = true)]
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
    /// Show whether all pods are seen, what hangs, and what a kubelet here would say.
    Status(Status),
    /// Run the daemon: metrics, health and events over HTTP.
    Agent(Agent),
    /// Stand between a kubelet and its runtime, and answer what one stuck container holds up.
    Guard(Guard),
    /// Look at this node, harmlessly, and say what is wrong with it and what to do.
    Doctor(Doctor),
    /// Show the page of a cause, or list all causes.
    Explain(Explain),
    /// Reads for `doctor` what may block in the kernel.
    #[command(hide = true)]
    DoctorHelper,
    /// Explain logs, goroutine dumps and whatever else was saved of a node.
    Analyze(Analyze),
    /// See in half a minute, on a simulated node, what one stuck container does to a kubelet.
    Demo,
    /// Serve a simulated runtime, to which happens what a scenario says.
    Sim(Sim),
    /// Print the completion script of a shell.
    Completion(Completion),
    /// Write the manual pages of all commands to a directory.
    #[command(hide = true)]
    ManPages(ManPages),
}
