//! The known state of every sandbox and container: the rows of the last complete lists, updated by
//! every other answer.
//!
//! ```text
//!   complete list ----> all ids that exist, all ids that do not
//!   other answers ----> one id: exists in this state, or does not exist
//!                          |
//!   confirmed since the list was requested, and not changed after that: may be in an answer
//!
//!   known --an answer lacks it--> missing --an answer requested after that lacks it--> gone
//!     ^                              | a later request finds it                          |
//!     \------------------------------+---------------------------------------------------/
//! ```
//!
//! The answer that was requested last decides whether an id exists. One wrong answer must not remove a
//! running container from lists: an id is gone after two answers that lack it, or after its removal was
//! answered.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use base::id::Id;
use tokio::time::Instant;

use super::known::{Interval, Known};
use crate::wire::Kind;
use crate::wire::row::Row;

/// How long the change of an unknown id is recorded. A call that was requested before the change is
/// answered by then, or never.
const CHANGE_RECORDED_FOR: Duration = Duration::from_secs(600);

/// How many ids that are gone are recorded: a list that was requested earlier may still contain them.
const MAX_GONE: usize = 4096;

/// All rows of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    kind: Kind,
    known: BTreeMap<Id, Known>,
    gone: BTreeMap<Id, Gone>,
    /// When ids without a row were changed: answers requested before that do not confirm them.
    changed: BTreeMap<Id, Instant>,
    /// When the newest complete list was requested.
    complete: Option<Instant>,
    /// Counts the changes of ids and states.
    revision: u64,
}

/// An id that is gone.
#[derive(Clone, Debug)]
struct Gone {
    /// When a removal of it was answered, or when the second answer that lacked it was requested. An answer
    /// that contains it counts only if it was requested after this time.
    since: Instant,
    is_removed: bool,
}

impl Rows {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            known: BTreeMap::new(),
            gone: BTreeMap::new(),
            changed: BTreeMap::new(),
            complete: None,
            revision: 0,
        }
    }

    /// When the newest complete list was requested, if there was one.
    pub(crate) fn complete_since(&self) -> Option<Instant> {
        self.complete
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Restores the rows of an earlier process. None of them is confirmed.
    pub(crate) fn restore(&mut self, rows: Vec<Row>, now: Instant) {
        self.complete = Some(now);
        for row in rows {
            let known = Known::restored(row, now);
            self.known.insert(known.row.id.clone(), known);
        }
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&Known> {
        self.known.get(id)
    }

    /// Whether this id is gone because of a removal. An id that is only missing from answers may still
    /// exist.
    pub(crate) fn is_removed(&self, id: &Id) -> bool {
        self.gone.get(id).is_some_and(|gone| gone.is_removed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Id, &Known)> + Clone {
        self.known.iter()
    }

    /// The only id with this prefix, if there is exactly one: runtimes accept prefixes of ids.
    pub(crate) fn only_one_that_begins(&self, prefix: &Id) -> Option<&Id> {
        let has_prefix = |id: &&Id| id.as_str().starts_with(prefix.as_str());
        let mut ids = self.from(Some(prefix.clone())).map(|(id, _)| id);
        let first = ids.next().filter(has_prefix)?;
        let is_only_one = *first == *prefix || ids.next().filter(has_prefix).is_none();
        (is_only_one && !prefix.as_str().is_empty()).then_some(first)
    }

    /// Whether this is as long as a whole id, and not a prefix of one.
    pub(crate) fn is_as_long(&self, id: &Id) -> bool {
        let mut known = self.known.keys();
        known
            .next()
            .is_none_or(|known| known.as_str().len() == id.as_str().len())
    }

    /// The rows from this id on, ordered by id.
    pub(crate) fn from(&self, first: Option<Id>) -> impl Iterator<Item = (&Id, &Known)> {
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        self.known.range((first, Bound::Unbounded))
    }

    /// Applies a complete list. Ids that it lacks are missing.
    pub(crate) fn complete(&mut self, rows: Vec<Row>, interval: Interval) {
        self.complete = self.complete.max(Some(interval.0));
        self.part(rows, interval, |_| true);
    }

    /// Applies a list that was to contain only the rows for which `is_requested` is true. Those that it
    /// lacks are missing.
    pub(crate) fn part(
        &mut self,
        rows: Vec<Row>,
        interval: Interval,
        is_requested: impl Fn(&Row) -> bool,
    ) {
        let mut gone: Vec<Id> = Vec::new();
        let mut listed: Vec<&Id> = rows.iter().map(|row| &row.id).collect();
        listed.sort_unstable();
        for (id, known) in &mut self.known {
            let is_lacking = listed.binary_search(&id).is_err() && is_requested(&known.row);
            if is_lacking && known.note_missing(interval) {
                gone.push(id.clone());
            }
        }
        for id in gone {
            self.note_gone(&id, interval.0, false);
        }
        for row in rows {
            self.learn(row, interval);
        }
    }

    /// Applies a row that the runtime has reported.
    pub(crate) fn learn(&mut self, row: Row, interval: Interval) {
        if let Some(gone) = self.gone.get(&row.id) {
            if interval.0 <= gone.since {
                return;
            }
            self.gone.remove(&row.id);
        }
        match self.known.get_mut(&row.id) {
            Some(known) => {
                self.revision += u64::from(known.replace(self.kind, row, interval));
            }
            None => {
                self.revision += 1;
                let mut known = Known::new(row, interval);
                if let Some(changed) = self.changed.remove(&known.row.id) {
                    known.note_change(changed);
                }
                self.known.insert(known.row.id.clone(), known);
            }
        }
    }

    /// Applies the state of an id that the runtime has reported.
    pub(crate) fn set_state(&mut self, id: &Id, state: i32, interval: Interval) {
        if let Some(known) = self.known.get_mut(id) {
            self.revision += u64::from(known.set_state(self.kind, state, interval));
        }
    }

    /// Applies the answer that the runtime has no such id. The id may have been created since the request.
    pub(crate) fn absent(&mut self, id: &Id, interval: Interval) {
        let known = self.known.get_mut(id);
        if known.is_some_and(|known| known.note_missing(interval)) {
            self.note_gone(id, interval.0, false);
        }
    }

    /// Records that a change of this id was answered: answers that were requested before do not confirm it.
    pub(crate) fn changed(&mut self, id: &Id, now: Instant) {
        if let Some(known) = self.known.get_mut(id) {
            known.note_change(now);
        } else if !self.is_removed(id) {
            self.changed
                .retain(|_, changed| now < *changed + CHANGE_RECORDED_FOR);
            self.changed.insert(id.clone(), now);
        }
    }

    /// Records that the status call of the id failed with an error that shows nothing about its state.
    pub(crate) fn failed(&mut self, id: &Id, interval: Interval) {
        if let Some(known) = self.known.get_mut(id) {
            known.note_failure(interval);
        }
    }

    /// Records that the container was started, or may have been.
    pub(crate) fn started(&mut self, id: &Id, now: Instant) {
        if let Some(known) = self.known.get_mut(id) {
            known.note_start(now);
        }
        self.changed(id, now);
    }

    /// Removes the id, because a removal of it was answered. A list that was requested before may still
    /// contain it.
    pub(crate) fn remove(&mut self, id: &Id, answered: Instant) {
        self.note_gone(id, answered, true);
    }

    fn note_gone(&mut self, id: &Id, since: Instant, is_removed: bool) {
        self.revision += u64::from(self.known.remove(id).is_some());
        self.gone.insert(id.clone(), Gone { since, is_removed });
        if self.gone.len() > MAX_GONE {
            let oldest = self.gone.iter().min_by_key(|(_, gone)| gone.since);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.gone.remove(&oldest);
            }
        }
    }

    /// Encodes a list of these rows.
    pub(crate) fn write<'a>(&self, rows: impl Iterator<Item = &'a Known>) -> Vec<u8> {
        let mut list = Vec::new();
        for known in rows {
            known.row.write(self.kind, &mut list);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::row::{READY, RUNNING};

    const NOT_READY: i32 = 1;

    fn row(state: i32) -> Row {
        Row {
            id: "it".into(),
            state,
            sandbox: None,
            is_made: false,
            bytes: Bytes::new(),
        }
    }

    struct Fixture {
        rows: Rows,
        start: Instant,
    }

    impl Fixture {
        /// Rows whose first list had a container.
        fn new() -> Self {
            let mut fixture = Self {
                rows: Rows::new(Kind::Container),
                start: Instant::now(),
            };
            fixture.listed(0, 1, true);
            fixture
        }

        fn interval(&self, requested: u64, answered: u64) -> Interval {
            let at = |seconds| self.start + Duration::from_secs(seconds);
            (at(requested), at(answered))
        }

        fn listed(&mut self, requested: u64, answered: u64, has_it: bool) {
            let row = has_it.then(|| row(RUNNING));
            let interval = self.interval(requested, answered);
            self.rows.complete(row.into_iter().collect(), interval);
        }

        fn not_found(&mut self, requested: u64, answered: u64) {
            let interval = self.interval(requested, answered);
            self.rows.absent(&"it".into(), interval);
        }

        fn removed(&mut self, answered: u64) {
            let (_, answered) = self.interval(0, answered);
            self.rows.remove(&"it".into(), answered);
        }

        fn has_it(&self) -> bool {
            self.rows.get(&"it".into()).is_some()
        }
    }

    #[test]
    fn an_id_is_gone_after_two_answers_without_it_if_the_second_was_requested_after_the_first() {
        let mut fixture = Fixture::new();
        fixture.not_found(2, 5);
        fixture.not_found(3, 6);
        assert!(fixture.has_it(), "both were outstanding at the same time");
        fixture.listed(6, 7, false);
        assert!(!fixture.has_it());
    }

    #[test]
    fn an_answer_with_the_id_cancels_an_earlier_answer_without_it() {
        let mut fixture = Fixture::new();
        fixture.not_found(2, 3);
        fixture.listed(4, 5, true);
        fixture.not_found(6, 7);
        assert!(fixture.has_it());
    }

    #[test]
    fn a_list_without_an_id_is_ignored_if_it_was_requested_before_a_list_with_the_id() {
        let mut fixture = Fixture::new();
        fixture.listed(4, 5, true);
        fixture.listed(2, 6, false);
        fixture.listed(3, 7, false);
        assert!(fixture.has_it());
        let since = fixture.start + Duration::from_secs(4);
        let known = fixture.rows.get(&"it".into()).expect("it is there");
        assert!(known.is_confirmed(since));
    }

    #[test]
    fn a_missing_id_is_not_confirmed() {
        let mut fixture = Fixture::new();
        fixture.listed(2, 3, false);
        let known = fixture.rows.get(&"it".into()).expect("it is there");
        assert!(!known.is_confirmed(fixture.start));
        assert_eq!(known.age(fixture.start), Duration::MAX);
    }

    #[test]
    fn an_id_that_is_gone_returns_only_with_a_list_that_was_requested_later() {
        let mut fixture = Fixture::new();
        fixture.not_found(2, 3);
        fixture.not_found(4, 5);
        fixture.listed(3, 6, true);
        assert!(!fixture.has_it());
        fixture.listed(5, 7, true);
        assert!(fixture.has_it());
    }

    #[test]
    fn a_list_that_was_requested_before_a_removal_was_answered_does_not_restore_the_id() {
        let mut fixture = Fixture::new();
        fixture.removed(5);
        fixture.listed(4, 6, true);
        assert!(!fixture.has_it());
        fixture.listed(6, 7, true);
        assert!(fixture.has_it(), "a later list has it");
    }

    #[test]
    fn a_sandbox_that_was_listed_before_its_start_becomes_ready() {
        let start = Instant::now();
        let mut rows = Rows::new(Kind::Sandbox);
        for (second, state) in [(1, NOT_READY), (2, READY)] {
            let requested = start + Duration::from_secs(second);
            rows.complete(vec![row(state)], (requested, requested));
        }
        assert_eq!(rows.get(&"it".into()).unwrap().row.state, READY);
    }

    #[test]
    fn overlapping_answers_that_differ_leave_a_sandbox_not_ready_and_unconfirmed() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        for states in [[READY, NOT_READY], [NOT_READY, READY]] {
            let mut rows = Rows::new(Kind::Sandbox);
            rows.complete(vec![row(states[0])], (at(2), at(4)));
            rows.set_state(&"it".into(), states[1], (at(1), at(5)));
            let known = rows.get(&"it".into()).unwrap();
            assert_eq!(known.row.state, NOT_READY);
            assert!(!known.is_confirmed(start));
            rows.set_state(&"it".into(), READY, (at(6), at(7)));
            let known = rows.get(&"it".into()).unwrap();
            assert_eq!(known.row.state, READY);
            assert!(known.is_confirmed(start));
        }
    }
}
