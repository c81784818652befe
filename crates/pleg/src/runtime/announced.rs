//! Events of the runtime's stream. An event is only a hint to inspect the pod of its id. Its other
//! content is not used: events arrive late, twice, out of order and without a status.

use std::pin::Pin;

use futures_util::Stream;

use super::CallError;
use crate::model::id::{Id, PodRef};
use crate::model::wall_time::WallTime;

/// An event of the runtime's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The container or sandbox.
    pub id: Id,
    /// When the runtime made the event.
    pub created_at: Option<WallTime>,
    /// Its sandbox, if the event names it.
    pub sandbox: Option<AnnouncedSandbox>,
    /// Whether the event reports a removal. It counts only together with a status that is not found.
    pub is_removal: bool,
}

/// The sandbox in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedSandbox {
    /// Its id.
    pub id: Id,
    /// Its pod.
    pub pod: PodRef,
}

/// The stream of events. It ends with the connection, or when the runtime ends it.
pub type Announcements = Pin<Box<dyn Stream<Item = Result<Announced, CallError>> + Send>>;
