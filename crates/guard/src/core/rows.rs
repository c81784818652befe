//! What is known of every sandbox and container: the rows of the last complete lists, and what
//! every other answer has told since.
//!
//! ```text
//!   complete list ----> all that is there, all that is gone
//!   other answers ----> one row: there (in this state), or gone
//!                          |
//!   confirmed since, and not told otherwise: fit to be answered
//! ```
//!
//! Ids are never given twice, and within one id states only rise. So answers may come in any
//! order: what is gone stays gone, and the highest state that the runtime told is the newest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::Instant;

use crate::wire::Kind;
use crate::wire::row::{CREATED, EXITED, Row};

/// What was known before a restart was confirmed before it.
const A_MOMENT: Duration = Duration::from_nanos(1);

/// For how long it is remembered that an unknown id was changed: a question from before it is
/// answered by then, or never.
const REMEMBERED_CHANGE: Duration = Duration::from_secs(600);

/// How many ids that are gone are remembered: a list that was asked for before may still
/// bring them.
const REMEMBERED: usize = 4096;

/// All rows of one kind.
#[derive(Debug)]
pub(crate) struct Rows {
    kind: Kind,
    known: BTreeMap<Id, Known>,
    gone: BTreeSet<Id>,
    /// The same, the oldest first.
    gone_since: VecDeque<Id>,
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
    /// The newest question whose answer found it as it is here.
    confirmed: Instant,
    /// When the last change of it was answered: what was asked before says nothing of it.
    changed: Instant,
}

impl Known {
    fn new(row: Row, (asked, answered): Asked) -> Self {
        Self {
            row,
            told: answered,
            confirmed: asked,
            changed: asked,
        }
    }

    /// Whether it is known to be so at some time since `since`, after all changes of it.
    pub(crate) fn is_confirmed(&self, since: Instant) -> bool {
        self.confirmed >= since && self.confirmed >= self.changed
    }

    /// Whether the runtime first told of it after this time.
    pub(crate) fn is_told_since(&self, time: Instant) -> bool {
        self.told >= time
    }

    /// Whether it was last known as created, and may have been started since: of a container
    /// that runs a kubelet must not be told so.
    pub(crate) fn may_run_since(&self, kind: Kind) -> bool {
        kind == Kind::Container && self.row.state == CREATED && self.confirmed < self.changed
    }

    /// How long ago it was confirmed; the longest time if it has changed since.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        match self.confirmed >= self.changed {
            true => now.saturating_duration_since(self.confirmed),
            false => Duration::MAX,
        }
    }

    /// Says whether its state is another now.
    fn tell(&mut self, state: i32, asked: Instant) -> bool {
        let known = self.row.state;
        let rises = |state: i32| (0..=EXITED).contains(&state);
        self.row.state = match rises(known) && rises(state) {
            true => known.max(state),
            // What is unknown may turn out to be anything: the later question counts.
            false if asked >= self.confirmed => state,
            false => known,
        };
        self.confirmed = asked.max(self.confirmed);
        self.row.state != known
    }
}

/// When a question was asked, and when its answer came.
pub(crate) type Asked = (Instant, Instant);

impl Rows {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            known: BTreeMap::new(),
            gone: BTreeSet::new(),
            gone_since: VecDeque::new(),
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
                // What is confirmed later is, in the same moment too.
                ..Known::new(row, (now.checked_sub(A_MOMENT).unwrap_or(now), now))
            };
            self.known.insert(known.row.id.clone(), known);
        }
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&Known> {
        self.known.get(id)
    }

    pub(crate) fn is_gone(&self, id: &Id) -> bool {
        self.gone.contains(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Id, &Known)> + Clone {
        self.known.iter()
    }

    /// Those from this id on, in their order.
    pub(crate) fn from(&self, first: Option<Id>) -> impl Iterator<Item = (&Id, &Known)> {
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        self.known.range((first, Bound::Unbounded))
    }

    /// A complete list: what it lacks, and was told before it was asked for, is gone.
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
        let mut lacking: Vec<Id> = Vec::new();
        let mut listed: Vec<&Id> = rows.iter().map(|row| &row.id).collect();
        listed.sort_unstable();
        for (id, known) in &self.known {
            let is_lacking = listed.binary_search(&id).is_err();
            if is_lacking && known.told < asked.0 && is_asked_for(&known.row) {
                lacking.push(id.clone());
            }
        }
        for id in lacking {
            self.remove(&id);
        }
        for row in rows {
            self.learn(row, asked);
        }
    }

    /// The runtime told of a row.
    pub(crate) fn learn(&mut self, row: Row, asked: Asked) {
        if self.is_gone(&row.id) {
            return;
        }
        match self.known.get_mut(&row.id) {
            Some(known) => {
                self.revision += u64::from(known.tell(row.state, asked.0));
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
    pub(crate) fn tell(&mut self, id: &Id, state: i32, asked: Instant) {
        if let Some(known) = self.known.get_mut(id) {
            self.revision += u64::from(known.tell(state, asked));
        }
    }

    /// The runtime has no such id. It may have got one since it was asked.
    pub(crate) fn absent(&mut self, id: &Id, asked: Instant) {
        if self.known.get(id).is_some_and(|known| known.told < asked) {
            self.remove(id);
        }
    }

    /// A change of this id was answered: what was asked before says nothing of it any more.
    pub(crate) fn changed(&mut self, id: &Id, now: Instant) {
        if let Some(known) = self.known.get_mut(id) {
            known.changed = now;
        } else if !self.is_gone(id) {
            self.changed
                .retain(|_, changed| now < *changed + REMEMBERED_CHANGE);
            self.changed.insert(id.clone(), now);
        }
    }

    /// The id was removed.
    pub(crate) fn remove(&mut self, id: &Id) {
        self.revision += u64::from(self.known.remove(id).is_some());
        if !self.gone.insert(id.clone()) {
            return;
        }
        self.gone_since.push_back(id.clone());
        if self.gone_since.len() > REMEMBERED
            && let Some(oldest) = self.gone_since.pop_front()
        {
            self.gone.remove(&oldest);
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
