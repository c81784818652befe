//! What the kubelet says of itself.

use serde::{Deserialize, Serialize};

/// The answer of its `/healthz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletHealth {
    /// The HTTP status; `None` where it took the connection and does not answer.
    pub code: Option<u16>,
    /// The checks that fail.
    pub failed: Vec<String>,
}
