//! What a call is about, with the names of container and pod for display.

use std::sync::Arc;

use cri::Rpc;
use tokio::time::Instant;

use crate::id::{Id, PodRef};

/// What a call is about, with names for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The RPC.
    pub call: Rpc,
    /// The container or sandbox; `None` for a call for the whole node.
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

/// An outstanding call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutstandingCall {
    /// What the call is about.
    pub about: About,
    /// When the call was sent.
    pub since: Instant,
}
