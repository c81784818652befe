//! A pod as `pleg pods` shows it and `/v1/pods` serves it.

use serde::{Deserialize, Serialize};

use crate::model::status::PodStatus;
use crate::model::wall_time::WallTime;

/// The last known status of a pod, and when it was last confirmed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// The last observed status.
    #[serde(flatten)]
    pub status: PodStatus,
    /// The time as of which the status was last confirmed; `None` if it never was.
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
    /// Whether the container runs, and its probes report that it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: u32,
    /// What the container waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// What a pod or container waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The reason in one word, such as `CrashLoopBackOff`.
    pub reason: String,
    /// The reason in one sentence.
    pub message: String,
    /// How many seconds are left, if nothing but time is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}
