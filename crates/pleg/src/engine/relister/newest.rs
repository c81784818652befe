//! The newest good answer of a list.

use std::sync::Arc;

use tokio::time::Instant;

use super::Relister;
use crate::engine::call::List;
use crate::model::listed::{ListedContainer, ListedSandbox, Row};
use crate::model::wall_time::Moment;

/// The newest good answer of a list, from request to arrival.
#[derive(Debug)]
pub(crate) struct Newest<R> {
    pub(super) begun: Moment,
    pub(super) ended: Instant,
    pub(super) bytes: usize,
    pub(super) rows: Rows<R>,
    pub(super) is_taken_in: bool,
}

pub(super) type Rows<R> = Arc<[Arc<R>]>;

/// A row of one of the lists.
pub(crate) trait ListRow: Row {
    /// The list that has such rows.
    const LIST: List;

    /// The newest answer of this list.
    fn newest(relister: &mut Relister) -> &mut Option<Newest<Self>>;
}

impl ListRow for ListedSandbox {
    const LIST: List = List::Sandboxes;

    fn newest(relister: &mut Relister) -> &mut Option<Newest<Self>> {
        &mut relister.sandboxes
    }
}

impl ListRow for ListedContainer {
    const LIST: List = List::Containers;

    fn newest(relister: &mut Relister) -> &mut Option<Newest<Self>> {
        &mut relister.containers
    }
}
