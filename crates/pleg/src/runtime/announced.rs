//! What the runtime's event stream says. It is a hint and no more: something may have
//! happened to this id, so look. What the event says beyond that is not believed, since
//! events come late, twice, out of order and without a status.

use std::pin::Pin;

use futures_util::Stream;

use super::CallError;
use crate::model::id::{Id, PodRef};
use crate::model::wall_time::WallTime;

/// An event of the runtime's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Of which container or sandbox.
    pub id: Id,
    /// When the runtime made the event.
    pub created_at: Option<WallTime>,
    /// In which sandbox, where the event says it.
    pub sandbox: Option<AnnouncedSandbox>,
    /// Whether the event says that the runtime has removed it. It counts only together with a
    /// status that does not exist.
    pub is_removal: bool,
}

/// The sandbox that an event speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedSandbox {
    /// Its id.
    pub id: Id,
    /// Its pod.
    pub pod: PodRef,
}

/// The stream. It ends when the connection does, or when the runtime ends it.
pub type Announcements = Pin<Box<dyn Stream<Item = Result<Announced, CallError>> + Send>>;
