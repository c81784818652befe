//! The running containers according to the runtime's state directories, which can be read even if no
//! call is answered.

use serde::{Deserialize, Serialize};

use causes::finding::PodName;

/// A running container or sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Its first process, which is a child of its shim. A container that is being created has none yet, and
    /// the runtime keeps no record of one that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<u32>,
    /// Its conmon, if the runtime has one for each container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conmon: Option<u32>,
    /// Its pod.
    pub pod: Option<PodName>,
    /// The container's name; a sandbox has none.
    pub container: Option<String>,
    /// The sandbox of a container, if its specification was read.
    pub sandbox: Option<String>,
    /// Its first process had exited, and seconds later the runtime still listed it as running.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub listed_though_dead: bool,
    /// Its first process runs, but the runtime did not list it for several seconds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unlisted: bool,
    /// The runtime lists it as running, although its sandbox is no longer ready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sandbox_ended: bool,
    /// The runtime listed it as ended, and seconds later its process `init` still ran.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub listed_as_ended: bool,
}
