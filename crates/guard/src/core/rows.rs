//! What is known of every sandbox and container: the rows of the last complete lists, and what
//! every other answer has told since.
//!
//! ```text
//!   complete list ----> all that is there, all that is gone
//!   other answers ----> one row: there (in this state), or gone
//!                          |
//!   confirmed since, and not told otherwise: fit to be answered
//!
//!   known --an answer lacks it--> missing --one asked for after that lacks it--> gone
//!     ^                              | one asked for later has it                 |
//!     \------------------------------+--------------------------------------------/
//! ```
//!
//! The states of a container only rise, so that the highest one that the runtime told is the newest;
//! of a sandbox the one that was asked for last counts. If two questions were open at the same time
//! and their answers differ, it is not ready, and asked for again.
//! Whether an id is there at all says the answer that was asked for last. A container that runs
//! must not be omitted from a list because of one wrong answer: two are needed for it to be
//! gone, unless its removal was answered.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use base::id::Id;
use tokio::time::Instant;

use crate::wire::Kind;
use crate::wire::row::{CREATED, Row, rises};

/// What was known before a restart was confirmed before it.
const A_MOMENT: Duration = Duration::from_nanos(1);

/// For how long it is remembered that an unknown id was changed: a question from before it is
/// answered by then, or never.
const REMEMBERED_CHANGE: Duration = Duration::from_secs(600);

/// How many ids that are gone are remembered: a list that was asked for before may still
/// bring them.
const REMEMBERED: usize = 4096;

/// All rows of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    kind: Kind,
    known: BTreeMap<Id, Known>,
    gone: BTreeMap<Id, Gone>,
    /// When ids were changed that are not known yet: what was asked before says nothing of them.
    changed: BTreeMap<Id, Instant>,
    /// When the newest complete list was asked for.
    complete: Option<Instant>,
    /// Counts what changes, but for rows that are only written otherwise.
    revision: u64,
}

/// A row, and how it is known.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) row: Row,
    /// When the runtime first told of it: a list that was asked for earlier may lack it.
    told: Instant,
    /// The newest question whose answer found it as it is here, and when the last answer that
    /// told of it came.
    confirmed: Instant,
    answered: Instant,
    /// When the last change of it was answered: what was asked before says nothing of it.
    changed: Instant,
    /// When it was last started, or may have been.
    started: Instant,
    /// How often its status has failed since it was confirmed.
    failing: Failing,
    /// A question since then whose answer lacked it.
    missing: Option<Asked>,
}

/// How often a status has failed, one time after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    No,
    /// When that was answered.
    Once(Instant),
    Again,
}

/// How it is known that an id is gone.
#[derive(Clone, Debug)]
enum Gone {
    /// A removal of it was answered then.
    Removed(Instant),
    /// The runtime lacked it twice: when it was last asked.
    Missing(Instant),
}

impl Gone {
    /// An answer that has the id counts if it was asked for after this.
    fn since(&self) -> Instant {
        match self {
            Self::Removed(since) | Self::Missing(since) => *since,
        }
    }
}

impl Known {
    fn new(row: Row, (asked, answered): Asked) -> Self {
        Self {
            row,
            told: answered,
            confirmed: asked,
            answered,
            changed: asked,
            started: asked,
            failing: Failing::No,
            missing: None,
        }
    }

    /// Whether it is known to be so at some time since `since`, after all changes of it.
    pub(crate) fn is_confirmed(&self, since: Instant) -> bool {
        self.confirmed >= since && self.is_as_told()
    }

    /// Whether an answer has lacked it since one had it.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Whether nothing has happened to it since it was confirmed.
    fn is_as_told(&self) -> bool {
        self.confirmed >= self.changed && self.missing.is_none()
    }

    /// Whether the runtime first told of it after this time.
    pub(crate) fn is_told_since(&self, time: Instant) -> bool {
        self.told >= time
    }

    /// Whether it was last known as created, and may have been started since: of a container
    /// that runs a kubelet must not be told so.
    pub(crate) fn may_run_since(&self, kind: Kind) -> bool {
        kind == Kind::Container && self.row.state == CREATED && self.confirmed < self.started
    }

    /// Whether the runtime says, time after time, that it cannot tell its status.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing == Failing::Again
    }

    /// How long ago it was confirmed; the longest time if it has changed since, or is missing.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        match self.is_as_told() {
            true => now.saturating_duration_since(self.confirmed),
            false => Duration::MAX,
        }
    }

    /// Says whether its state is another now.
    fn tell(&mut self, kind: Kind, state: i32, (asked, answered): Asked) -> bool {
        let known = self.row.state;
        let is_later = asked >= self.confirmed;
        self.row.state = match kind {
            _ if rises(kind, known) && rises(kind, state) => known.max(state),
            // Of two answers whose questions were open at the same time either may be the newer
            // one. A sandbox seldom becomes ready, and is asked for again.
            Kind::Sandbox if state != known && asked < self.answered => {
                self.changed = answered;
                known.max(state)
            }
            // It may turn out to be anything: the later question counts.
            _ if is_later => state,
            _ => known,
        };
        self.confirmed = asked.max(self.confirmed);
        self.answered = answered.max(self.answered);
        self.failing = Failing::No;
        self.missing.take_if(|missing| asked > missing.0);
        self.row.state != known
    }

    /// An answer lacks it. Says whether it is gone: an earlier answer lacked it too, and it was
    /// asked for again after that.
    fn lacks(&mut self, asked: Asked) -> bool {
        // It was told since this was asked, or by an answer to a later question.
        if self.told.max(self.confirmed) >= asked.0 {
            return false;
        }
        let (_, answered) = *self.missing.get_or_insert(asked);
        asked.0 >= answered && asked.1 > answered
    }
}

/// When a question was asked, and when its answer came.
pub(crate) type Asked = (Instant, Instant);

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

    /// When the newest complete list was asked for, if there was one.
    pub(crate) fn complete_since(&self) -> Option<Instant> {
        self.complete
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// What was known before a restart: nothing of it is confirmed.
    pub(crate) fn restore(&mut self, rows: Vec<Row>, now: Instant) {
        self.complete = Some(now);
        for row in rows {
            let known = Known {
                changed: now,
                started: now,
                // What is confirmed later is, in the same moment too.
                ..Known::new(row, (now.checked_sub(A_MOMENT).unwrap_or(now), now))
            };
            self.known.insert(known.row.id.clone(), known);
        }
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&Known> {
        self.known.get(id)
    }

    /// Whether it is gone because of a removal. What the runtime only lacked may be there.
    pub(crate) fn is_removed(&self, id: &Id) -> bool {
        matches!(self.gone.get(id), Some(Gone::Removed(_)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Id, &Known)> + Clone {
        self.known.iter()
    }

    /// The id of which this is the beginning, as runtimes take it, if it is that of only one.
    pub(crate) fn only_one_that_begins(&self, beginning: &Id) -> Option<&Id> {
        let begins = |id: &&Id| id.as_str().starts_with(beginning.as_str());
        let mut ids = self.from(Some(beginning.clone())).map(|(id, _)| id);
        let first = ids.next().filter(begins)?;
        let is_only_one = *first == *beginning || ids.next().filter(begins).is_none();
        (is_only_one && !beginning.as_str().is_empty()).then_some(first)
    }

    /// Whether this is as long as ids are, and not only the beginning of one.
    pub(crate) fn is_as_long(&self, id: &Id) -> bool {
        let mut known = self.known.keys();
        known
            .next()
            .is_none_or(|known| known.as_str().len() == id.as_str().len())
    }

    /// Those from this id on, in their order.
    pub(crate) fn from(&self, first: Option<Id>) -> impl Iterator<Item = (&Id, &Known)> {
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        self.known.range((first, Bound::Unbounded))
    }

    /// A complete list: what it lacks is missing.
    pub(crate) fn complete(&mut self, rows: Vec<Row>, asked: Asked) {
        self.complete = self.complete.max(Some(asked.0));
        self.part(rows, asked, |_| true);
    }

    /// A list of those rows that `is_asked_for`.
    pub(crate) fn part(
        &mut self,
        rows: Vec<Row>,
        asked: Asked,
        is_asked_for: impl Fn(&Row) -> bool,
    ) {
        let mut gone: Vec<Id> = Vec::new();
        let mut listed: Vec<&Id> = rows.iter().map(|row| &row.id).collect();
        listed.sort_unstable();
        for (id, known) in &mut self.known {
            let is_lacking = listed.binary_search(&id).is_err() && is_asked_for(&known.row);
            if is_lacking && known.lacks(asked) {
                gone.push(id.clone());
            }
        }
        for id in gone {
            self.miss(&id, asked.0);
        }
        for row in rows {
            self.learn(row, asked);
        }
    }

    /// The runtime told of a row.
    pub(crate) fn learn(&mut self, row: Row, asked: Asked) {
        if let Some(gone) = self.gone.get(&row.id) {
            if asked.0 <= gone.since() {
                return;
            }
            self.gone.remove(&row.id);
        }
        match self.known.get_mut(&row.id) {
            Some(known) => {
                self.revision += u64::from(known.tell(self.kind, row.state, asked));
                let state = known.row.state;
                known.row = Row { state, ..row };
            }
            None => {
                self.revision += 1;
                let mut known = Known::new(row, asked);
                if let Some(changed) = self.changed.remove(&known.row.id) {
                    known.changed = known.changed.max(changed);
                }
                self.known.insert(known.row.id.clone(), known);
            }
        }
    }

    /// The runtime told the state of an id.
    pub(crate) fn tell(&mut self, id: &Id, state: i32, asked: Asked) {
        if let Some(known) = self.known.get_mut(id) {
            self.revision += u64::from(known.tell(self.kind, state, asked));
        }
    }

    /// The runtime has no such id. It may have got one since it was asked.
    pub(crate) fn absent(&mut self, id: &Id, asked: Asked) {
        let known = self.known.get_mut(id);
        if known.is_some_and(|known| known.lacks(asked)) {
            self.miss(id, asked.0);
        }
    }

    /// A change of this id was answered: what was asked before says nothing of it any more.
    pub(crate) fn changed(&mut self, id: &Id, now: Instant) {
        if let Some(known) = self.known.get_mut(id) {
            known.changed = now;
        } else if !self.is_removed(id) {
            self.changed
                .retain(|_, changed| now < *changed + REMEMBERED_CHANGE);
            self.changed.insert(id.clone(), now);
        }
    }

    /// The status of the id ended with an error that says nothing of it.
    pub(crate) fn failed(&mut self, id: &Id, (asked, answered): Asked) {
        if let Some(known) = self.known.get_mut(id).filter(|it| it.confirmed < asked) {
            known.failing = match known.failing {
                Failing::No => Failing::Once(answered),
                Failing::Once(before) if asked < before => known.failing,
                Failing::Once(_) | Failing::Again => Failing::Again,
            };
        }
    }

    /// The container was started, or may have been.
    pub(crate) fn started(&mut self, id: &Id, now: Instant) {
        if let Some(known) = self.known.get_mut(id) {
            known.started = now;
        }
        self.changed(id, now);
    }

    /// A removal of the id was answered: a list that was asked for before may still have it.
    pub(crate) fn remove(&mut self, id: &Id, answered: Instant) {
        self.revision += u64::from(self.known.remove(id).is_some());
        self.remember(id, Gone::Removed(answered));
    }

    /// The runtime has lacked the id twice.
    fn miss(&mut self, id: &Id, asked: Instant) {
        if self.known.remove(id).is_some() {
            self.revision += 1;
            self.remember(id, Gone::Missing(asked));
        }
    }

    fn remember(&mut self, id: &Id, gone: Gone) {
        self.gone.insert(id.clone(), gone);
        if self.gone.len() > REMEMBERED {
            let oldest = self.gone.iter().min_by_key(|(_, gone)| gone.since());
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.gone.remove(&oldest);
            }
        }
    }

    /// Writes the message of a list of these rows.
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

    struct Asker {
        rows: Rows,
        start: Instant,
    }

    impl Asker {
        /// One whose first list had a container.
        fn new() -> Self {
            let mut asker = Self {
                rows: Rows::new(Kind::Container),
                start: Instant::now(),
            };
            asker.listed(0, 1, true);
            asker
        }

        fn asked(&self, asked: u64, answered: u64) -> Asked {
            let at = |seconds| self.start + Duration::from_secs(seconds);
            (at(asked), at(answered))
        }

        fn listed(&mut self, asked: u64, answered: u64, has_it: bool) {
            let row = has_it.then(|| Row {
                id: "it".into(),
                state: RUNNING,
                sandbox: None,
                is_made: false,
                bytes: Bytes::new(),
            });
            let asked = self.asked(asked, answered);
            self.rows.complete(row.into_iter().collect(), asked);
        }

        fn not_found(&mut self, asked: u64, answered: u64) {
            let asked = self.asked(asked, answered);
            self.rows.absent(&"it".into(), asked);
        }

        fn removed(&mut self, answered: u64) {
            let (_, answered) = self.asked(0, answered);
            self.rows.remove(&"it".into(), answered);
        }

        fn has_it(&self) -> bool {
            self.rows.get(&"it".into()).is_some()
        }
    }

    #[test]
    fn an_id_is_gone_once_two_answers_lacked_it_of_which_one_was_asked_for_after_the_other() {
        let mut asker = Asker::new();
        asker.not_found(2, 5);
        asker.not_found(3, 6);
        assert!(asker.has_it(), "both were asked for at the same time");
        asker.listed(6, 7, false);
        assert!(!asker.has_it());
    }

    #[test]
    fn an_answer_in_between_that_has_the_id_takes_back_what_lacked_it() {
        let mut asker = Asker::new();
        asker.not_found(2, 3);
        asker.listed(4, 5, true);
        asker.not_found(6, 7);
        assert!(asker.has_it());
    }

    #[test]
    fn a_list_that_lacks_an_id_and_was_asked_for_before_one_that_had_it_says_nothing() {
        let mut asker = Asker::new();
        asker.listed(4, 5, true);
        asker.listed(2, 6, false);
        asker.listed(3, 7, false);
        assert!(asker.has_it());
        let since = asker.start + Duration::from_secs(4);
        let known = asker.rows.get(&"it".into()).expect("it is there");
        assert!(known.is_confirmed(since));
    }

    #[test]
    fn what_is_missing_is_not_confirmed() {
        let mut asker = Asker::new();
        asker.listed(2, 3, false);
        let known = asker.rows.get(&"it".into()).expect("it is there");
        assert!(!known.is_confirmed(asker.start));
        assert_eq!(known.age(asker.start), Duration::MAX);
    }

    #[test]
    fn what_is_gone_comes_back_with_a_list_that_was_asked_for_later_only() {
        let mut asker = Asker::new();
        asker.not_found(2, 3);
        asker.not_found(4, 5);
        asker.listed(3, 6, true);
        assert!(!asker.has_it());
        asker.listed(5, 7, true);
        assert!(asker.has_it());
    }

    #[test]
    fn a_list_that_was_asked_for_before_a_removal_was_answered_brings_nothing_back() {
        let mut asker = Asker::new();
        asker.removed(5);
        asker.listed(4, 6, true);
        assert!(!asker.has_it());
        asker.listed(6, 7, true);
        assert!(asker.has_it(), "the runtime has it, whatever it has said");
    }

    #[test]
    fn a_sandbox_that_was_listed_before_it_was_started_is_ready_once_it_is() {
        let start = Instant::now();
        let mut rows = Rows::new(Kind::Sandbox);
        for (second, state) in [(1, NOT_READY), (2, READY)] {
            let row = Row {
                id: "it".into(),
                state,
                sandbox: None,
                is_made: false,
                bytes: Bytes::new(),
            };
            let asked = start + Duration::from_secs(second);
            rows.complete(vec![row], (asked, asked));
        }
        assert_eq!(rows.get(&"it".into()).unwrap().row.state, READY);
    }

    #[test]
    fn overlapping_answers_that_differ_leave_a_sandbox_not_ready_and_unconfirmed() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        for states in [[READY, NOT_READY], [NOT_READY, READY]] {
            let mut rows = Rows::new(Kind::Sandbox);
            let row = Row {
                id: "it".into(),
                state: states[0],
                sandbox: None,
                is_made: false,
                bytes: Bytes::new(),
            };
            rows.complete(vec![row], (at(2), at(4)));
            rows.tell(&"it".into(), states[1], (at(1), at(5)));
            let known = rows.get(&"it".into()).unwrap();
            assert_eq!(known.row.state, NOT_READY);
            assert!(!known.is_confirmed(start));
            rows.tell(&"it".into(), READY, (at(6), at(7)));
            let known = rows.get(&"it".into()).unwrap();
            assert_eq!(known.row.state, READY);
            assert!(known.is_confirmed(start));
        }
    }
}
