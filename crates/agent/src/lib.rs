//! The daemon around the library, and the client that queries it.
//!
//! ```text
//!   AgentConfig (YAML) --> Listeners: the unix socket, and TCP without /v1
//!           |                  |
//!           v                  v
//!        daemon: Pleg ---> http: /healthz /readyz /livez
//!                 |   /v1/status /v1/pods /v1/events /v1/relist  <--- client: other commands
//!                 |---> Metrics: /metrics, /metrics/kubelet
//!                 |---> static_pods: those of `pleg run`; /v1/node
//!                 |---> history: what happened, recorded on disk
//!                 |---> supervisor: systemd is notified of progress
//!                 '---> known_ids: saved for a process that starts while a list hangs
//! ```
//!
//! [`run`] is all of it: sockets, shutdown and state directory are arguments, so that tests
//! run the whole daemon.

mod agent;
mod client;
mod config;
mod daemon;
mod diagnosis;
mod guard;
mod history;
pub mod http;
mod kernel;
mod known_ids;
mod listeners;
mod metrics;
mod pods;
mod records;
mod reports;
#[cfg(test)]
mod sample_report;
mod shared_answer;
mod static_pods;
mod supervisor;
mod symptoms;
mod yaml_words;

pub use agent::Agent;
pub use client::{AgentChoice, AgentClient, ClientError, Events};
pub use config::{AgentConfig, ConfigError, DEFAULT_LISTEN, KernelHints, Remedy};
pub use daemon::{Daemon, RunError, run};
pub use diagnosis::{DiagnosisConfig, Findings};
pub use guard::{Guard, GuardedRuntime};
pub use history::{HistoryConfig, HistoryFolder};
pub use kernel::kernel;
pub use known_ids::known_ids;
pub use listeners::{AgentSocket, Endless, ListenError, Listeners, MAX_CONNECTIONS, serve};
pub use metrics::{HistoryFigures, Metrics};
pub use pods::pod_reports;
pub use static_pods::{StaticPods, StaticPodsError};
pub use supervisor::keep_trying;

pub use base::host::state_directory;

use std::path::PathBuf;

use base::host::named_state_directory;

/// The directory in which the history is recorded by default. It survives a reboot, unless
/// `PLEG_STATE_DIR` names a directory that does not.
pub fn history_directory() -> PathBuf {
    match named_state_directory() {
        Some(directory) => directory.join("history"),
        None => recorder::store::DIRECTORY.into(),
    }
}

/// The socket on which an agent serves by default, and on which commands look for one.
pub fn default_socket() -> PathBuf {
    state_directory().join("agent.sock")
}
