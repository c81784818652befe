//! The networks that pods are put into.

use serde::{Deserialize, Serialize};

/// A network of CNI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CniNetwork {
    /// The name of its file.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The plug-ins, by the names of their programs.
    pub plugins: Vec<String>,
}
