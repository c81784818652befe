//! The CNI networks of this node.

use serde::{Deserialize, Serialize};

/// A CNI network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CniNetwork {
    /// The name of its configuration file.
    pub file: String,
    /// The network's name.
    pub name: String,
    /// The plugins, by the names of their executables.
    pub plugins: Vec<String>,
}
