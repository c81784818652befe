//! A pod as `pleg pods` shows it and `/v1/pods` serves it.
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::model::status::PodStatus;
//! use pleg::out::pods::PodReport;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::out::cache::Stopped> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(1)).await;
//!
//! let entry = &pleg.cache().all()[0];
//! let report = PodReport {
//!     status: PodStatus::clone(&entry.status),
//!     as_of: entry.as_of.map(|as_of| as_of.wall),
//!     error: entry.error.as_ref().map(|error| error.to_string()),
//!     static_pod: None,
//! };
//! assert!(report.as_of.is_some());
//! # Ok(())
//! # }
//! ```

use serde::{Deserialize, Serialize};

use crate::model::status::PodStatus;
use crate::model::wall_time::WallTime;

/// The last known status of a pod, as of when it was last confirmed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// The last observed status.
    #[serde(flatten)]
    pub status: PodStatus,
    /// When that was last confirmed; `None` if it never was.
    pub as_of: Option<WallTime>,
    /// Why the newest inspection of the pod failed, if it did: then the status is the last
    /// known one.
    pub error: Option<String>,
    /// The progress of a static pod that this process keeps running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub static_pod: Option<StaticPodReport>,
}

/// The progress of a static pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticPodReport {
    /// `status.phase`, as Kubernetes defines it.
    pub phase: String,
    /// Whether all its containers are ready.
    pub ready: bool,
    /// What the pod as a whole waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Its containers, in the order of the manifest.
    pub containers: Vec<StaticContainerReport>,
}

/// The progress of a container of a static pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticContainerReport {
    /// Its name.
    pub name: String,
    /// Whether it runs, and its probes say that it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: u32,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// What a pod or container waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// In a word, such as `CrashLoopBackOff`.
    pub reason: String,
    /// In a sentence.
    pub message: String,
    /// How many seconds are left, if only time is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}
