//! What a runtime keeps of the containers that run, beside its socket: it is there when no
//! call is answered.

use serde::{Deserialize, Serialize};

use causes::finding::PodName;

/// A container or sandbox that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Its first process, which is a child of its shim.
    pub init: u32,
    /// The conmon that stands by it, where the runtime notes one for each container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conmon: Option<u32>,
    /// The pod that it is of.
    pub pod: Option<PodName>,
    /// The container's name; a sandbox has none.
    pub container: Option<String>,
    /// The sandbox that a container is in, where its specification was read.
    pub sandbox: Option<String>,
    /// Its first process had ended for seconds, and the runtime still listed it as running.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub listed_though_dead: bool,
}
