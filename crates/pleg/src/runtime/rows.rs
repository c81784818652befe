//! Rows that are the same as in the last answer are the same `Arc`: on a quiet node a
//! relist allocates no row, and two listings compare by pointer.

use std::collections::HashMap;
use std::sync::Arc;

use crate::id::Id;

/// The rows of the last answer by id.
#[derive(Debug)]
pub(super) struct Rows<Row> {
    known: HashMap<Id, Arc<Row>>,
}

impl<Row> Default for Rows<Row> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
        }
    }
}

impl<Row> Rows<Row> {
    /// The known row if it is `same`, else what `make` makes, given the known one.
    pub(super) fn take(
        &mut self,
        id: &str,
        same: impl FnOnce(&Row) -> bool,
        make: impl FnOnce(Option<&Row>) -> Row,
    ) -> Arc<Row> {
        let known = self.known.get(id);
        if let Some(row) = known
            && same(row)
        {
            return row.clone();
        }
        let row = Arc::new(make(known.map(AsRef::as_ref)));
        self.known.insert(id.into(), row.clone());
        row
    }

    /// Forgets what was not in the answer just read.
    pub(super) fn keep_only(&mut self, rows: &[Arc<Row>], id: impl Fn(&Row) -> &Id) {
        if self.known.len() > rows.len() {
            self.known = rows
                .iter()
                .map(|row| (id(row).clone(), row.clone()))
                .collect();
        }
    }
}
