//! Arguments that commands share, and those of commands that are only wiring.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use cri::{Endpoint, EndpointError};
use pleg::go_duration::GoDuration;

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
    /// One JSON value, or one object a line: on a stream, and in an agent's log.
    Json,
}

/// How to relist, where no agent does. What is not said is the library's default, and
/// known not to have been said.
#[derive(Args, Debug)]
pub struct Relisting {
    /// How changes are found [default: auto]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Whether the kernel is asked which processes died: at once, on any runtime
    /// [default: auto]
    #[arg(long, value_enum)]
    pub kernel_hints: Option<KernelHints>,
    /// From the end of one relist to the next [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub relist_period: Option<Duration>,
    /// For how long no relist may complete before it is Unhealthy [default: 3m]
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub relist_threshold: Option<Duration>,
}

impl Relisting {
    /// The flags that were given.
    pub fn given(&self) -> Vec<&'static str> {
        let given = [
            ("--mode", self.mode.is_some()),
            ("--kernel-hints", self.kernel_hints.is_some()),
            ("--relist-period", self.relist_period.is_some()),
            ("--relist-threshold", self.relist_threshold.is_some()),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        given.map(|(flag, _)| flag).collect()
    }
}

/// How changes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// By the runtime's events where it has them, and by relisting.
    Auto,
    /// By relisting alone, as the kubelet does.
    Generic,
    /// As auto, with a warning if the runtime has no events.
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

/// Whether the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KernelHints {
    /// Where it can tell.
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

const SIM_HELP: &str = "\
A scenario has a time and what happens then on each line:

  0s    run web nginx                          # a pod with a container that runs
  10s   hang ContainerStatus of web/nginx      # slow, fail, oversize, malformed
  20s   status-lock web/nginx                  # ListContainers hangs for all
  +5s   lift all                               # five seconds after the line before
  40s   churn 5/s for 1m                       # exit, restart, stop, remove
  40s   events drop every 3                    # duplicate, swap, delay, scatter, silent
  2m    restart-runtime for 3s

Without one, a container restarts every five seconds. It goes on until it is interrupted,
or until a scenario says `end`. docs/sim.md has all of it.";

/// Arguments of `pleg sim`.
#[derive(Args, Debug)]
#[command(after_help = SIM_HELP)]
pub struct Sim {
    /// Where to listen: unix:///path or a path. The socket of a server that has gone is
    /// replaced, and anything else left alone.
    #[arg(long, value_name = "URL")]
    pub listen: Endpoint,
    /// How many pods there are from the beginning: pod-0, pod-1 and so on. Unless said, 10,
    /// and with a scenario none.
    #[arg(long, value_name = "N")]
    pub pods: Option<usize>,
    /// How many containers each of them has: app-0, app-1 and so on.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub containers: usize,
    /// What happens, and when.
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
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
