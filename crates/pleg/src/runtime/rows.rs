//! Rows by the fingerprint of their bytes.
//!
//! On a quiet node each answer equals the last one. Fingerprints show this without decoding a row, and
//! then the whole listing is the same `Arc`. If something differs, unchanged rows are still the same
//! `Arc`, mostly in the same place. So a relist without changes costs only the reading of the answer.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

/// The rows of the last answer.
#[derive(Debug)]
pub(super) struct Rows<Row> {
    all: Arc<[Arc<Row>]>,
    /// The fingerprint of each row.
    fingerprints: Vec<u64>,
    /// The number of the last answer that contained each fingerprint.
    seen: HashMap<u64, u32, BuildHasherDefault<Fingerprinted>>,
    answer: u32,
    /// Random keys, so that no item can be crafted to collide with another.
    hasher: RandomState,
}

/// An answer while it is read.
pub(super) struct Reading<Row> {
    rows: Rows<Row>,
    new: Vec<(u64, Arc<Row>)>,
    /// How many rows of the last answer are also in this one.
    same: usize,
}

impl<Row> Default for Rows<Row> {
    fn default() -> Self {
        Self {
            all: Arc::new([]),
            fingerprints: Vec::new(),
            seen: HashMap::default(),
            answer: 0,
            hasher: RandomState::new(),
        }
    }
}

impl<Row> Rows<Row> {
    /// Begins to read the next answer.
    pub(super) fn read(mut self) -> Reading<Row> {
        self.answer = self.answer.wrapping_add(1);
        Reading {
            rows: self,
            new: Vec::new(),
            same: 0,
        }
    }

    /// All rows, each once. They are not in the runtime's order, which changes with each answer.
    pub(super) fn all(&self) -> Arc<[Arc<Row>]> {
        self.all.clone()
    }
}

impl<Row> Reading<Row> {
    /// Adds an item. It is decoded only if it was not in the last answer.
    pub(super) fn item(&mut self, item: impl Hash, row: impl FnOnce() -> Row) {
        let fingerprint = self.rows.hasher.hash_one(item);
        let answer = self.rows.answer;
        match self.rows.seen.insert(fingerprint, answer) {
            None => self.new.push((fingerprint, row().into())),
            Some(seen) if seen != answer => self.same += 1,
            Some(_) => {}
        }
    }

    /// Ends the answer, and returns its rows.
    pub(super) fn end(self) -> Rows<Row> {
        let Self {
            mut rows,
            new,
            same,
        } = self;
        if new.is_empty() && same == rows.all.len() {
            return rows;
        }
        let places = rows.fingerprints.iter().enumerate();
        let gone = places.filter(|(_, fingerprint)| rows.seen[fingerprint] != rows.answer);
        let gone: Vec<usize> = gone.map(|(place, _)| place).collect();
        for place in &gone {
            rows.seen.remove(&rows.fingerprints[*place]);
        }
        let mut all = rows.all.to_vec();
        let mut new = new.into_iter();
        let filled = gone.len().min(new.len());
        for (place, (fingerprint, row)) in gone.iter().zip(new.by_ref().take(filled)) {
            rows.fingerprints[*place] = fingerprint;
            all[*place] = row;
        }
        for place in gone[filled..].iter().rev() {
            rows.fingerprints.swap_remove(*place);
            all.swap_remove(*place);
        }
        for (fingerprint, row) in new {
            rows.fingerprints.push(fingerprint);
            all.push(row);
        }
        rows.all = all.into();
        rows
    }
}

/// A hasher for fingerprints, which are hashes already.
#[derive(Default)]
struct Fingerprinted(u64);

impl Hasher for Fingerprinted {
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }

    /// Not used: a fingerprint is hashed as one number.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn read(rows: Rows<u8>, items: &[u8]) -> Rows<u8> {
        let mut reading = rows.read();
        for item in items {
            reading.item(item, || *item);
        }
        reading.end()
    }

    proptest! {
        #[test]
        fn rows_are_the_items_and_unchanged_rows_are_not_decoded_again(
            answers in prop::collection::vec(prop::collection::vec(0..20u8, 0..20), 0..8)
        ) {
            let mut rows = Rows::default();
            for items in answers {
                let before = rows.all();
                rows = read(rows, &items);
                let all = rows.all();
                let values: BTreeSet<u8> = all.iter().map(|row| **row).collect();
                prop_assert_eq!(all.len(), values.len(), "each once");
                prop_assert_eq!(values, items.iter().copied().collect());
                for row in &*all {
                    let known = before.iter().find(|known| known == &row);
                    prop_assert!(known.is_none_or(|known| Arc::ptr_eq(known, row)));
                }
                let again = read(rows, &items.iter().rev().copied().collect::<Vec<_>>());
                prop_assert!(Arc::ptr_eq(&again.all(), &all), "the same answer");
                rows = again;
            }
        }
    }
}
