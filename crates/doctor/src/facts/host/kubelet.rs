//! The kubelet's open port, and the networks that it has pods put into.

use serde::{Deserialize, Serialize};

/// What `/healthz` of the kubelet says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Healthz {
    /// The status of HTTP.
    pub status: u16,
    /// The checks that failed, `syncloop`.
    pub failing: Vec<String>,
}

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
