//! The CNI networks of this node.

use serde::{Deserialize, Serialize};

/// A CNI network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CniNetwork {
    /// The name of its file.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The plugins, by the names of their executables.
    pub plugins: Vec<String>,
}
