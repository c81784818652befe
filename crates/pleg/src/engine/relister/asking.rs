//! What the lists of the relist under way have said so far.

use std::sync::Arc;

use tokio::time::Instant;

use crate::engine::call::List;
use crate::model::listed::{ListedContainer, ListedSandbox, Row};
use crate::model::wall_time::Moment;
use crate::runtime::CallError;

/// Both lists were asked for.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(super) begun: Moment,
    pub(super) sandboxes: Asked<ListedSandbox>,
    pub(super) containers: Asked<ListedContainer>,
    /// The larger of both lists, in bytes.
    pub(super) largest: usize,
}

/// What a list has said in this relist; nothing yet if it is `None`.
pub(super) type Asked<R> = Option<Said<R>>;

/// What a list has said, and when.
#[derive(Debug)]
pub(crate) struct Said<R> {
    pub(super) at: Instant,
    pub(super) rows: Result<Rows<R>, CallError>,
}

pub(super) type Rows<R> = Arc<[Arc<R>]>;

/// The rows of one of the lists.
pub(crate) trait ListRow: Row {
    /// Which list that is.
    const LIST: List;

    /// What this list has said.
    fn asked(asking: &mut Asking) -> &mut Asked<Self>;
}

impl ListRow for ListedSandbox {
    const LIST: List = List::Sandboxes;

    fn asked(asking: &mut Asking) -> &mut Asked<Self> {
        &mut asking.sandboxes
    }
}

impl ListRow for ListedContainer {
    const LIST: List = List::Containers;

    fn asked(asking: &mut Asking) -> &mut Asked<Self> {
        &mut asking.containers
    }
}
