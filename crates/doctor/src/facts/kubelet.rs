//! The kubelet's own health.

use serde::{Deserialize, Serialize};

/// The response of the kubelet's `/healthz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletHealth {
    /// The HTTP status; `None` if the kubelet accepted the connection but does not respond.
    pub code: Option<u16>,
    /// The checks that fail.
    pub failed: Vec<String>,
}

impl KubeletHealth {
    /// The response as a phrase, to follow the address.
    pub fn says(&self) -> String {
        match (self.code, &self.failed[..]) {
            (None, _) => "accepted the connection but does not respond".to_owned(),
            (Some(code), []) => format!("returned {code}"),
            (Some(code), failed) => format!("returned {code}: {} failed", failed.join(", ")),
        }
    }
}
