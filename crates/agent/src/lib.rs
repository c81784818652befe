//! The daemon around the library.
//!
//! ```text
//!   Config (YAML) --> Pleg ----------------> http: /healthz /readyz /livez
//!                      |                           /v1/status /v1/pods /v1/events
//!                      +--> Metrics (observer) --> /metrics, /metrics/kubelet
//!                                               |
//!                                               v
//!                                          server: bounded connections
//! ```

mod config;
mod host;
pub mod http;
mod metrics;
pub mod server;
mod yaml_words;

pub use config::{AgentConfig, ConfigError, DEFAULT_LISTEN, KernelHints};
pub use metrics::Metrics;
