//! What shows that a machine is set up to run a kubelet.

use serde::{Deserialize, Serialize};

/// The files that a kubelet is configured by, as far as they exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletFiles {
    /// Their paths. None of them is read.
    pub paths: Vec<String>,
}
