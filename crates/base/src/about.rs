//! Calls by the names that people know: which RPC, of which container, of which pod.

use std::sync::Arc;

use cri::Rpc;
use tokio::time::Instant;

use crate::id::{Id, PodRef};

/// What a call asks for, by the names that people know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Which RPC.
    pub call: Rpc,
    /// The container or sandbox that it asks for; `None` for a list.
    pub id: Option<Id>,
    /// The container's name.
    pub container: Option<Arc<str>>,
    /// The pod.
    pub pod: Option<PodRef>,
}

impl About {
    /// A call for the whole node.
    pub fn node(call: Rpc) -> Self {
        Self {
            call,
            id: None,
            container: None,
            pod: None,
        }
    }
}

/// A call that has not been answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutstandingCall {
    /// What it asks for.
    pub about: About,
    /// When it was made.
    pub since: Instant,
}
