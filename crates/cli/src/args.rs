//! Arguments that commands share, and those of commands that are only wiring.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use agent::AgentChoice;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use cri::{Endpoint, EndpointError};
use pleg_text::GoDuration;

/// What every command takes.
#[derive(Args, Debug)]
pub struct Global {
    /// The runtime's socket: unix:///path or a path. Default: the first of the usual sockets
    /// that answers (containerd, CRI-O, cri-dockerd, k3s, k0s, MicroK8s).
    #[arg(
        short = 'r',
        long,
        value_name = "URL",
        env = "CONTAINER_RUNTIME_ENDPOINT",
        global = true
    )]
    runtime_endpoint: Option<String>,
    /// Output format [default: text]
    // A command with more formats has its own argument of this name and type.
    #[arg(short, long, value_parser = text_or_json(), global = true)]
    output: Option<Output>,
    /// Log more to standard error; twice for debug. RUST_LOG gives finer control.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
}

fn text_or_json() -> impl TypedValueParser<Value = Output> {
    let formats = Format::value_variants().iter();
    let values = formats.filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values).try_map(|name| Output::from_str(&name, false))
}

impl Global {
    /// How to write results.
    pub fn format(&self) -> Format {
        match self.output {
            Some(Output::Json) => Format::Json,
            _ => Format::Text,
        }
    }

    /// The endpoint from the flag or the environment variable. `None` if there is
    /// neither, or if it is empty.
    pub fn given_endpoint(&self) -> Result<Option<Endpoint>, EndpointError> {
        let named = self.runtime_endpoint.as_deref();
        named
            .filter(|text| !text.is_empty())
            .map(str::parse)
            .transpose()
    }
}

/// How to write results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned, with colours on a terminal.
    #[default]
    Text,
    /// One JSON value; for streams and an agent's log, one object per line.
    Json,
}

/// All formats. Each command writes some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One page: no network, any browser.
    Html,
    /// A picture without a script, for a README or a ticket.
    Svg,
    /// One JSON value.
    Json,
    /// JSON as OpenShift's test tools read it.
    Intervals,
    /// For a terminal.
    Text,
}

/// How to relist without an agent. `None` is the library's default.
#[derive(Args, Debug)]
pub struct Relisting {
    /// How changes are found [default: auto]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Detect container exits (pidfd) and starts (inotify) immediately, on any runtime [default: auto]
    #[arg(long, value_enum)]
    pub kernel_hints: Option<KernelHints>,
    /// Time between the end of one relist and the start of the next [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub relist_period: Option<Duration>,
    /// Report Unhealthy if no pod was observed for this long [default: 3m]
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub relist_threshold: Option<Duration>,
}

impl Relisting {
    /// The flags that were given.
    pub fn given(&self) -> Vec<&'static str> {
        let given = [
            self.mode.is_some().then_some("--mode"),
            self.kernel_hints.is_some().then_some("--kernel-hints"),
            self.relist_period.is_some().then_some("--relist-period"),
            self.relist_threshold
                .is_some()
                .then_some("--relist-threshold"),
        ];
        given.into_iter().flatten().collect()
    }
}

/// How changes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// By relisting, and from the runtime's events where available.
    Auto,
    /// By relisting only, like the kubelet.
    Generic,
    /// Like auto, with a warning if the runtime has no event stream.
    Evented,
}

impl From<Mode> for pleg::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Auto => Self::Auto,
            Mode::Generic => Self::Generic,
            Mode::Evented => Self::Evented,
        }
    }
}

/// Whether kernel hints are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KernelHints {
    /// If the kernel and the runtime allow it.
    Auto,
    /// Never.
    Off,
}

/// Arguments of `pleg watch`.
#[derive(Args, Debug)]
pub struct Watch {
    #[command(flatten)]
    pub relisting: Relisting,
    #[command(flatten)]
    pub filter: PodFilter,
    #[command(flatten)]
    pub agent: AgentOption,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
}

const PODS_HELP: &str = "\
Exit codes: 0 all pods are up to date; 1 the node is not Healthy, or the last
known status of a pod is shown; 2 no pod was observed yet.";

/// Arguments of `pleg pods`.
#[derive(Args, Debug)]
#[command(after_help = PODS_HELP)]
pub struct Pods {
    #[command(flatten)]
    pub filter: PodFilter,
    #[command(flatten)]
    pub agent: AgentOption,
}

const STATUS_HELP: &str = "\
Exit codes: 0 pods are observed (Healthy, or with an agent Degraded); 1 they are
not, or the runtime answers nothing, or without an agent a call is stuck or
fails; 2 could not determine. docs/health.md describes each state.";

/// Arguments of `pleg status`.
#[derive(Args, Debug)]
#[command(after_help = STATUS_HELP)]
pub struct Status {
    #[command(flatten)]
    pub agent: AgentOption,
}

/// Arguments of `pleg agent`.
#[derive(Args, Debug)]
pub struct Agent {
    /// Configuration file: YAML in camelCase, with KubeletConfiguration's names and units.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to serve on. A path replaces the unix socket, which serves everything (default:
    /// /run/pleg/agent.sock, key `socket`). An address replaces the TCP address of health and
    /// metrics (default: 127.0.0.1:20258, key `listen`). Can be set once for each.
    #[arg(long, value_name = "ADDR|PATH", action = ArgAction::Append)]
    pub listen: Vec<Listen>,
}

/// One of the places where an agent serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Health and metrics, over TCP.
    Address(SocketAddr),
    /// Everything, on a unix socket.
    Socket(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        match text.parse::<Endpoint>() {
            Ok(socket) => Ok(Self::Socket(socket.path().to_owned())),
            Err(_) => Err("expected an address with a port, or an absolute path".to_owned()),
        }
    }
}

/// Which pods to show.
#[derive(Args, Debug)]
pub struct PodFilter {
    /// Only pods in this namespace.
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Only pods with this name.
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,
}

impl PodFilter {
    /// Whether a pod is to be shown.
    pub fn shows(&self, namespace: &str, name: &str) -> bool {
        let matches =
            |wanted: &Option<String>, it| wanted.as_deref().is_none_or(|wanted| wanted == it);
        matches(&self.namespace, namespace) && matches(&self.pod, name)
    }
}

/// Which agent to query.
#[derive(Args, Debug)]
pub struct AgentOption {
    /// The socket of the agent to query, or `off` to query the runtime directly. Default:
    /// /run/pleg/agent.sock, if an agent of root or of this user listens there and watches
    /// the same runtime.
    #[arg(long, value_name = "PATH|off")]
    agent: Option<AgentChoice>,
}

impl AgentOption {
    /// The agent to query.
    pub fn choice(&self) -> AgentChoice {
        self.agent.clone().unwrap_or_default()
    }
}

/// A period of at least 10 ms: more frequent lists would burden the runtime.
fn period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        period if period.as_millis() < 10 => Err("it must be at least 10ms".to_owned()),
        period => Ok(period),
    }
}

/// A duration in Go's form.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse::<GoDuration>() {
        Ok(GoDuration(Duration::ZERO)) => Err("it must be greater than zero".to_owned()),
        Ok(duration) => Ok(duration.0),
        Err(error) => Err(error.to_string()),
    }
}
