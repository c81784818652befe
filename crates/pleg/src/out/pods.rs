//! A pod as `pleg pods` shows it and `/v1/pods` serves it.

use serde::{Deserialize, Serialize};

use crate::model::status::PodStatus;
use crate::model::wall_time::WallTime;

/// The last known status of a pod, as of when it was last confirmed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// The last status that was seen.
    #[serde(flatten)]
    pub status: PodStatus,
    /// When that was last confirmed; `None` if it never was.
    pub as_of: Option<WallTime>,
    /// Why the newest inspection of the pod failed, if it did: then the status is the last
    /// known one.
    pub error: Option<String>,
}
