//! The open relist: the answers that have arrived so far.

use std::sync::Arc;

use tokio::time::Instant;

use crate::engine::call::List;
use crate::engine::lists::PerList;
use crate::model::listed::{ListedContainer, ListedSandbox, Row};
use crate::model::wall_time::Moment;
use crate::runtime::CallError;

/// A relist whose lists were both requested.
#[derive(Debug)]
pub(crate) struct OpenRelist {
    pub(super) begun: Moment,
    pub(super) sandboxes: Option<Reply<ListedSandbox>>,
    pub(super) containers: Option<Reply<ListedContainer>>,
    /// The size of the larger list, in bytes.
    pub(super) largest: usize,
}

/// The answer to a list, and when it arrived.
#[derive(Debug)]
pub(crate) struct Reply<R> {
    pub(super) at: Instant,
    pub(super) rows: Result<Rows<R>, CallError>,
}

pub(super) type Rows<R> = Arc<[Arc<R>]>;

impl OpenRelist {
    pub(super) fn answered(&self) -> PerList<bool> {
        PerList {
            sandboxes: self.sandboxes.is_some(),
            containers: self.containers.is_some(),
        }
    }

    pub(super) fn failed(&self) -> PerList<bool> {
        PerList {
            sandboxes: self.sandboxes.as_ref().is_some_and(Reply::is_error),
            containers: self.containers.as_ref().is_some_and(Reply::is_error),
        }
    }

    /// Which lists were answered successfully.
    pub(super) fn received(&self) -> PerList<bool> {
        self.answered().but_not(self.failed())
    }
}

impl<R> Reply<R> {
    fn is_error(&self) -> bool {
        self.rows.is_err()
    }
}

/// A row of one of the lists.
pub(crate) trait ListRow: Row {
    /// The list that has such rows.
    const LIST: List;

    /// The answer to this list.
    fn reply(open_relist: &mut OpenRelist) -> &mut Option<Reply<Self>>;
}

impl ListRow for ListedSandbox {
    const LIST: List = List::Sandboxes;

    fn reply(open_relist: &mut OpenRelist) -> &mut Option<Reply<Self>> {
        &mut open_relist.sandboxes
    }
}

impl ListRow for ListedContainer {
    const LIST: List = List::Containers;

    fn reply(open_relist: &mut OpenRelist) -> &mut Option<Reply<Self>> {
        &mut open_relist.containers
    }
}
