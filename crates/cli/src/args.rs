//! The arguments, and the help that they give.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cri::{Endpoint, EndpointError};
use pleg::go_duration::GoDuration;

use crate::commands::analyze::Analyze;

const AFTER_HELP: &str = "\
Examples:
  pleg watch                     what happens to pods on this node, as it happens
  pleg watch -n shop -o json     one namespace, one JSON object a line
  pleg status                    are all pods seen, and what does not answer
  pleg demo                      what this is for, on a simulated node
  pleg analyze kubelet.log       what was saved of a node, explained
  pleg agent                     the daemon, with metrics and /v1/status on 127.0.0.1:20258

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

/// What every command takes.
#[derive(Args, Debug)]
pub struct Global {
    /// The runtime's socket: unix:///path or a path. Without it the first of the usual
    /// places where a runtime answers (containerd, CRI-O, cri-dockerd, k3s, k0s, MicroK8s).
    #[arg(
        short = 'r',
        long,
        value_name = "URL",
        env = "CONTAINER_RUNTIME_ENDPOINT",
        global = true
    )]
    pub runtime_endpoint: Option<String>,
    /// For people, or for scripts.
    #[arg(short, long, value_enum, default_value_t, global = true)]
    pub output: Format,
    /// Log more to standard error; twice for debug. RUST_LOG says it finer.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
}

impl Global {
    /// The endpoint that is named; an empty variable names none.
    pub fn named_endpoint(&self) -> Result<Option<Endpoint>, EndpointError> {
        let named = self.runtime_endpoint.as_deref();
        let named = named.filter(|text| !text.is_empty());
        named.map(str::parse).transpose()
    }
}

/// How to write results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned, with colours on a terminal.
    #[default]
    Text,
    /// One JSON value, or one object a line on a stream.
    Json,
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
    /// Explain logs, goroutine dumps and whatever else was saved of a node.
    Analyze(Analyze),
    /// See in half a minute, on a simulated node, what one stuck container does to a kubelet.
    Demo,
}

/// How to relist.
#[derive(Args, Debug)]
pub struct Relisting {
    /// How changes are found.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// From the end of one relist to the next.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = period)]
    pub relist_period: Duration,
    /// For how long no relist may complete before it is Unhealthy.
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = period)]
    pub relist_threshold: Duration,
}

/// How changes are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The best that the runtime has.
    #[default]
    Auto,
    /// By relisting, as the kubelet does.
    Generic,
}

/// Arguments of `pleg watch`.
#[derive(Args, Debug)]
pub struct Watch {
    #[command(flatten)]
    pub relisting: Relisting,
    #[command(flatten)]
    pub filter: PodFilter,
    #[command(flatten)]
    pub agent: AgentUrl,
    /// Stop by itself after this time.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
}

/// Arguments of `pleg pods`.
#[derive(Args, Debug)]
pub struct Pods {
    #[command(flatten)]
    pub filter: PodFilter,
    #[command(flatten)]
    pub agent: AgentUrl,
}

/// Arguments of `pleg status`.
#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    pub agent: AgentUrl,
}

/// Arguments of `pleg agent`.
#[derive(Args, Debug)]
pub struct Agent {
    /// YAML in camelCase, with KubeletConfiguration's names and units.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to answer, in place of the configuration's `listen`; a loopback address.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
}

/// Which pods to show.
#[derive(Args, Debug)]
pub struct PodFilter {
    /// Only pods of this namespace.
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Only pods of this name.
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,
}

impl PodFilter {
    /// Whether a pod is to be shown.
    pub fn shows(&self, namespace: &str, name: &str) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|wanted| wanted == namespace)
            && self.pod.as_deref().is_none_or(|wanted| wanted == name)
    }
}

/// Where an agent may be.
#[derive(Args, Debug)]
pub struct AgentUrl {
    /// The agent to ask, or `off` to go to the runtime. Unless said, an agent on
    /// http://127.0.0.1:20258 is used if it watches the same runtime.
    #[arg(long = "agent", value_name = "URL|off")]
    pub url: Option<String>,
}

/// The shortest time that a runtime can be asked again after without harm.
fn period(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|period| match period.as_millis() {
        0..10 => Err("it must be at least 10ms".to_owned()),
        _ => Ok(period),
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    match text.parse::<GoDuration>() {
        Ok(GoDuration(Duration::ZERO)) => Err("it must be longer than nothing".to_owned()),
        Ok(duration) => Ok(duration.0),
        Err(error) => Err(error.to_string()),
    }
}
