//! The configuration file: YAML in camelCase, with the names that KubeletConfiguration uses for the same
//! settings, and durations as the kubelet writes them (`1s`, `3m0s`).

use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::host::guard_socket;
use cluster::KubernetesConfig;
use cri::Endpoint;
use pleg::Mode;
use pleg::runtime::grpc::MAX_MESSAGE_SIZE;
use pleg_text::GoDuration;
use serde::Deserialize;

use crate::default_socket;
use crate::diagnosis::DiagnosisConfig;
use crate::history::HistoryConfig;
use crate::yaml_words::explain;

mod check;

pub(crate) use check::check_absolute;

/// Where the agent serves health and metrics by default.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 20258);

/// A file of this size is refused: no real configuration is as large.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The configuration of an agent. An absent key has its default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentConfig {
    /// The runtime's socket. Without this key, the usual places are tried.
    pub container_runtime_endpoint: Option<String>,
    /// How changes are found.
    pub mode: Mode,
    /// Whether process exits that the kernel reports are used as hints.
    pub kernel_hints: KernelHints,
    /// The time from the end of one relist to the next.
    pub relist_period: GoDuration,
    /// The longest time between relists, which is used while the stream or the kernel announces all
    /// changes.
    pub relist_ceiling: GoDuration,
    /// How long no pod may be observed before the node is Unhealthy.
    pub relist_threshold: GoDuration,
    /// How long a list may be outstanding before it is overdue.
    pub list_overdue: GoDuration,
    /// How long a status call may be outstanding before it is overdue, if any other call is answered.
    pub status_overdue: GoDuration,
    /// How many pods are inspected at once.
    pub max_concurrent_inspections: usize,
    /// How many calls may be outstanding at once.
    pub max_outstanding_calls: usize,
    /// The receive limit in bytes; the kubelet's is 16 MiB.
    pub max_message_size: usize,
    /// The unix socket on which everything is served.
    pub socket: PathBuf,
    /// The group that may use the unix socket, by name or number. By default, only root and the agent's
    /// own user may.
    pub socket_group: Option<String>,
    /// The TCP address on which health and metrics are served, for probes.
    pub listen: SocketAddr,
    /// A second TCP address on which health and metrics are served, for Prometheus; off by default.
    pub metrics_listen: Option<SocketAddr>,
    /// How the node is diagnosed when something is wrong. Without this section, it is not diagnosed.
    pub diagnosis: Option<DiagnosisConfig>,
    /// Whether and where the history of the node is recorded.
    pub history: HistoryConfig,
    /// What is reported to Kubernetes. Without this section, nothing is.
    pub kubernetes: Option<KubernetesConfig>,
    /// The socket of a guard in front of the runtime, or `off`. Without this key, the usual place is
    /// tried.
    pub guard: Option<String>,
    /// What is done about a container that blocks the lists, while a guard answers them.
    pub remedy: Remedy,
    /// How long one container must have blocked the lists before the remedy is applied.
    pub remedy_after: GoDuration,
}

/// Which signals may be sent because of a container that blocks the lists, if the doctor is certain of
/// the cause and its first advice is to send them. The shim itself is never killed, because that would
/// end its pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Remedy {
    /// No signals are sent.
    #[default]
    None,
    /// A stopped shim, or a stopped runc below it, is continued (SIGCONT).
    Shim,
    /// In addition to what `Shim` allows, a runc that does not return is killed (SIGKILL), if it runs
    /// below the shim.
    ShimKill,
}

/// Whether process exits that the kernel reports are used as hints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KernelHints {
    /// They are used where the kernel can report process exits.
    #[default]
    Auto,
    /// They are never used.
    Off,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The file cannot be parsed, or contains an unknown key or value; the text shows the line.
    #[error("the configuration {path} is wrong: {error}")]
    Unparsable {
        /// The file.
        path: String,
        /// What and where.
        error: String,
    },
    /// The file can be parsed, but one of its values is invalid.
    #[error("{0}")]
    Invalid(String),
}

impl Default for AgentConfig {
    fn default() -> Self {
        let library = pleg::Config::default();
        Self {
            container_runtime_endpoint: None,
            mode: Mode::default(),
            kernel_hints: KernelHints::default(),
            relist_period: GoDuration(library.relist_period),
            relist_ceiling: GoDuration(library.relist_ceiling),
            relist_threshold: GoDuration(library.relist_threshold),
            list_overdue: GoDuration(library.list_overdue),
            status_overdue: GoDuration(library.status_overdue),
            max_concurrent_inspections: library.max_inspections,
            max_outstanding_calls: library.max_outstanding_calls,
            max_message_size: MAX_MESSAGE_SIZE,
            socket: default_socket(),
            socket_group: None,
            listen: DEFAULT_LISTEN,
            metrics_listen: None,
            diagnosis: None,
            history: HistoryConfig::default(),
            kubernetes: None,
            guard: None,
            remedy: Remedy::default(),
            remedy_after: GoDuration(Duration::from_secs(120)),
        }
    }
}

impl AgentConfig {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = || path.display().to_string();
        let text = read_bounded(path).map_err(|error| ConfigError::Unreadable {
            path: name(),
            error,
        })?;
        Self::parse(&text).map_err(|error| ConfigError::Unparsable {
            path: name(),
            error,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        // An empty document is a configuration in which every key is absent.
        serde_saphyr::from_str(text)
            .map(Option::unwrap_or_default)
            .map_err(|error| explain(&error))
    }

    /// The endpoint, if the file names one.
    pub fn endpoint(&self) -> Result<Option<Endpoint>, ConfigError> {
        self.container_runtime_endpoint
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|error: cri::EndpointError| ConfigError::Invalid(error.to_string()))
    }

    /// The socket of the guard in front of this runtime; `None` if the configuration has `guard: off`.
    pub fn guard_socket(&self, runtime: &Endpoint) -> Result<Option<PathBuf>, ConfigError> {
        let named = match self.guard.as_deref() {
            None => return Ok(Some(guard_socket(runtime.path()))),
            Some("off" | "false") => return Ok(None),
            Some(named) => named.parse::<Endpoint>(),
        };
        let wrong = |error| ConfigError::Invalid(format!("guard: {error}"));
        Ok(Some(named.map_err(wrong)?.path().to_owned()))
    }

    /// The part of this configuration that the library uses.
    pub fn library(&self) -> pleg::Config {
        pleg::Config {
            mode: self.mode,
            relist_period: self.relist_period.0,
            relist_ceiling: self.relist_ceiling.0,
            relist_threshold: self.relist_threshold.0,
            list_overdue: self.list_overdue.0,
            status_overdue: self.status_overdue.0,
            max_inspections: self.max_concurrent_inspections,
            max_outstanding_calls: self.max_outstanding_calls,
            ..pleg::Config::default()
        }
    }
}

/// Reads a file, and refuses one that is too long to be a configuration.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_string(&mut text)?;
    if read as u64 == MAX_FILE_BYTES {
        return Err(io::Error::other(
            "the configuration file is longer than 1 MiB",
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HistoryFolder;

    #[test]
    fn an_empty_file_is_the_default_configuration() {
        for text in ["", "# nothing\n", "\n\n", "---\n# nothing\n", "{}", "null"] {
            assert_eq!(AgentConfig::parse(text).unwrap(), AgentConfig::default());
        }
    }

    #[test]
    fn keys_and_units_are_the_kubelets() {
        let config = AgentConfig::parse(
            "containerRuntimeEndpoint: unix:///run/x.sock\n\
             relistPeriod: 1m30s\n\
             socket: /run/x/agent.sock\n\
             socketGroup: 1200\n\
             metricsListen: 0.0.0.0:20259\n",
        )
        .unwrap();
        assert_eq!(config.socket_group.as_deref(), Some("1200"));
        assert_eq!(config.socket, Path::new("/run/x/agent.sock"));
        config.check().unwrap();
        assert_eq!(config.relist_period.0, Duration::from_secs(90));
        assert_eq!(
            config.endpoint().unwrap(),
            Some(Endpoint::new("/run/x.sock"))
        );
        assert_eq!(config.relist_threshold.0, Duration::from_secs(180));
    }

    #[test]
    fn a_wrong_file_shows_the_line() {
        for (text, line, what) in [
            (
                "relistPeriod: 1s\nrelistperiod: 2s\n",
                "line 2",
                "relistperiod",
            ),
            ("relistPeriod: [1, 2]\n", "line 1", "relistPeriod: [1, 2]"),
            (
                "relistPeriod: soon\n",
                "line 1",
                "\"soon\" is not a duration",
            ),
            ("# a\n\nlisten: nowhere\n", "line 3", "nowhere"),
            ("a: b: c\n", "line 1", "a: b: c"),
            ("maxMessageSize: -1\n", "line 1", "-1"),
            ("mode: auto\nhistory: on a disk\n", "line 2", "must be off"),
            (
                "history:\n  directory: /x\n  maxbytes: 3\n",
                "line 3",
                "maxbytes",
            ),
            ("history: [1]\n", "line 1", "off, or a section"),
        ] {
            let error = AgentConfig::parse(text).unwrap_err();
            assert!(
                error.contains(line) && error.contains(what),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn a_guard_is_looked_for_in_the_usual_place_unless_another_is_named() {
        let socket = |text: &str| {
            let config = AgentConfig::parse(text).unwrap();
            let runtime = Endpoint::new("/run/containerd/containerd.sock");
            config.guard_socket(&runtime).unwrap()
        };
        assert!(socket("").is_some_and(|socket| socket.ends_with("cri.sock")));
        assert_eq!(socket("guard: off"), None);
        let named = Some(PathBuf::from("/run/x.sock"));
        assert_eq!(socket("guard: unix:///run/x.sock"), named);
        let config = AgentConfig::parse("remedy: shimKill\nremedyAfter: 3m\n").unwrap();
        assert_eq!(config.remedy, Remedy::ShimKill);
        assert_eq!(AgentConfig::default().remedy, Remedy::None);
    }

    #[test]
    fn the_history_is_on_off_or_elsewhere() {
        let history = |text: &str| AgentConfig::parse(text).unwrap().history;
        assert_eq!(history("history: off"), HistoryConfig::Off);
        assert_eq!(history("history: false"), HistoryConfig::Off);
        assert_eq!(history("history: {}"), HistoryConfig::default());
        let elsewhere = HistoryConfig::On(HistoryFolder {
            directory: "/x".into(),
            max_bytes: 2 << 20,
            max_age: GoDuration(Duration::from_secs(86_400)),
        });
        let text = "history:\n  directory: /x\n  maxBytes: 2097152\n  maxAge: 24h\n";
        assert_eq!(history(text), elsewhere);
    }
}
