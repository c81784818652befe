//! Rows by the fingerprint of what was listed.
//!
//! On a quiet node one answer is like the last. That is seen by fingerprints alone,
//! without touching a row, and then the whole listing is the same `Arc` as before; where
//! something differs, the rows that do not are the same `Arc` still. So a relist that
//! finds nothing costs what reading the answer costs.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

/// The rows of the last answer.
#[derive(Debug)]
pub(super) struct Rows<Row> {
    all: Arc<[Arc<Row>]>,
    known: HashMap<u64, Arc<Row>>,
    /// The sum of the fingerprints, for a runtime's order is another each time.
    sum: u64,
    /// Random keys: nobody can make an item that passes for another.
    hasher: RandomState,
}

/// An answer that is being read.
pub(super) struct Reading<Row> {
    last: Rows<Row>,
    new: HashMap<u64, Arc<Row>>,
    fingerprints: Vec<u64>,
    sum: u64,
}

impl<Row> Default for Rows<Row> {
    fn default() -> Self {
        Self {
            all: Arc::new([]),
            known: HashMap::new(),
            sum: 0,
            hasher: RandomState::new(),
        }
    }
}

impl<Row> Rows<Row> {
    /// Begins to read the next answer.
    pub(super) fn read(self) -> Reading<Row> {
        Reading {
            fingerprints: Vec::with_capacity(self.all.len()),
            new: HashMap::new(),
            sum: 0,
            last: self,
        }
    }

    /// All rows, in the answer's order.
    pub(super) fn all(&self) -> Arc<[Arc<Row>]> {
        self.all.clone()
    }
}

impl<Row> Reading<Row> {
    /// Takes in an item; a row is made of it only if it was not in the last answer.
    pub(super) fn item(&mut self, item: impl Hash, row: impl FnOnce() -> Row) {
        let fingerprint = self.last.hasher.hash_one(item);
        self.sum = self.sum.wrapping_add(fingerprint);
        self.fingerprints.push(fingerprint);
        if !self.last.known.contains_key(&fingerprint) {
            self.new.entry(fingerprint).or_insert_with(|| row().into());
        }
    }

    /// The answer was read to its end.
    pub(super) fn end(mut self) -> Rows<Row> {
        let last = self.last;
        let as_many = self.fingerprints.len() == last.all.len();
        if as_many && self.sum == last.sum && self.new.is_empty() {
            return last;
        }
        self.new.extend(last.known);
        let row = |fingerprint: &u64| self.new[fingerprint].clone();
        let all: Arc<[Arc<Row>]> = self.fingerprints.iter().map(row).collect();
        let known = self.fingerprints.iter().copied().zip(all.iter().cloned());
        Rows {
            known: known.collect(),
            all,
            sum: self.sum,
            hasher: last.hasher,
        }
    }
}
