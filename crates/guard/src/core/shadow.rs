//! Shadow mode: the guard answers nothing in place of the runtime. It rehearses an answer from time to
//! time, and compares the list that it would have given with the runtime's own.
//!
//! ```text
//!   Idle --a kubelet requests a complete list--> Rehearsing: lists are not applied to the rows, the
//!                                                   |        status of each id is requested
//!                                                   | all rows are confirmed
//!   Idle <----the next list: compared----------- Ready
//! ```
//!
//! The guard's list lies between two lists of the runtime: one that was answered before it, and one that
//! was requested after it. An id that is in both must be in the guard's list, in a state between theirs.
//! An id that is in neither must not be in it, unless it is newer than the first of them, or is missing from
//! the runtime's lists while its status is stuck.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::id::Id;
use tokio::time::Instant;

use super::known::{Interval, Known};
use super::{Guard, Mode};
use crate::wire::Kind;
use crate::wire::filter::Filter;
use crate::wire::row::{Row, rises};

/// A rehearsal that takes longer is dropped without a comparison.
const REHEARSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// How many differences are reported in detail.
const MAX_DIFFERENCES: usize = 16;

/// States by id.
type States = BTreeMap<Id, i32>;

/// A complete list of the runtime.
#[derive(Clone, Debug)]
struct Listed {
    interval: Interval,
    rows: Vec<Row>,
}

impl Listed {
    fn states(&self) -> States {
        let states = self.rows.iter().map(|row| (row.id.clone(), row.state));
        states.collect()
    }
}

/// A row of the guard's list.
#[derive(Clone, Copy, Debug)]
struct Shown {
    state: i32,
    /// Whether the id may be in neither list of the runtime: it is newer than the first one, or it was missing
    /// from that list and its status is stuck.
    may_be_in_neither: bool,
}

/// The rehearsals of one kind.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    /// The last complete list of the runtime.
    listed: Option<Listed>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Idle {
        next: Instant,
    },
    Rehearsing(Rehearsal),
    Ready {
        before: States,
        ours: BTreeMap<Id, Shown>,
        at: Instant,
    },
}

#[derive(Clone, Debug)]
struct Rehearsal {
    before: States,
    /// When the list `before` was requested.
    before_requested: Instant,
    /// When a kubelet requested the list that is rehearsed.
    requested: Instant,
    /// The first row that was not yet confirmed at the last attempt; all before it are.
    known_to: Option<Id>,
}

/// A difference between a list of the guard and the lists of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind that was listed.
    pub kind: Kind,
    /// The id that differs.
    pub id: Id,
    /// The state in the guard's list; `None` if the id is not in it.
    pub ours: Option<i32>,
    /// The states in the runtime's lists before and after it; `None` where the id is not in the list.
    pub theirs: [Option<i32>; 2],
}

/// The differences that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The number of differences.
    pub count: u64,
    /// The number of lists that were compared.
    pub compared: u64,
    /// The newest differences, the oldest of them first.
    pub newest: VecDeque<Difference>,
}

impl Differences {
    fn add(&mut self, found: Vec<Difference>) {
        self.compared += 1;
        self.count += found.len() as u64;
        self.newest.extend(found);
        self.newest
            .drain(..self.newest.len().saturating_sub(MAX_DIFFERENCES));
    }
}

impl Shadow {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            listed: None,
            state: State::Idle { next: now },
        }
    }

    pub(super) fn is_rehearsing(&self) -> bool {
        matches!(self.state, State::Rehearsing(_))
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { .. })
    }

    pub(super) fn alarm(&self) -> Option<Instant> {
        match &self.state {
            State::Rehearsing(it) => Some(it.requested + REHEARSAL_TIMEOUT),
            State::Idle { .. } | State::Ready { .. } => None,
        }
    }
}

impl Guard {
    /// Begins to rehearse the answer to a complete list that a kubelet requests, as if the list were
    /// overdue.
    pub(super) fn rehearse(&mut self, kind: Kind, now: Instant) {
        let shadow = &mut self.shadows[kind];
        if let State::Idle { next } = shadow.state
            && now >= next
            && let Some(before) = shadow.listed.take()
        {
            shadow.state = State::Rehearsing(Rehearsal {
                before: before.states(),
                before_requested: before.interval.0,
                requested: now,
                known_to: None,
            });
            // A list that was answered during the last rehearsal was not applied then.
            self.learn_all(kind, before.rows, before.interval);
        }
    }

    /// Completes the rehearsal once every row is confirmed; drops it if that takes too long, or if the guard
    /// is not in shadow mode any more.
    pub(super) fn advance_shadow(&mut self, kind: Kind, now: Instant) {
        let next = now + self.settings.rehearse_every;
        let idle = State::Idle { next };
        let state = std::mem::replace(&mut self.shadows[kind].state, idle);
        self.shadows[kind].state = match state {
            State::Rehearsing(it)
                if now >= it.requested + REHEARSAL_TIMEOUT || self.mode != Mode::Shadow =>
            {
                return;
            }
            State::Rehearsing(mut it) => {
                // Lists are not applied during a rehearsal: each row is confirmed by a status call.
                let filter = Filter::default();
                let ours = self.known_rows(kind, &filter, &mut it.known_to, it.requested, now);
                let shown = |known: &Known| {
                    let is_newer = known.is_new_since(it.before_requested);
                    let shown = Shown {
                        state: known.row.state,
                        may_be_in_neither: is_newer || known.is_missing(),
                    };
                    (known.row.id.clone(), shown)
                };
                match ours.map(|ours| ours.map(shown).collect()) {
                    Some(ours) => State::Ready {
                        before: it.before,
                        ours,
                        at: now,
                    },
                    None => State::Rehearsing(it),
                }
            }
            other => other,
        };
    }

    /// Compares a complete list of the runtime with the rehearsed one.
    pub(super) fn compare(&mut self, kind: Kind, rows: &[Row], interval: Interval) {
        let shadow = &mut self.shadows[kind];
        if self.mode != Mode::Shadow {
            shadow.listed = None;
            return;
        }
        let listed = Listed {
            interval,
            rows: rows.to_vec(),
        };
        if let State::Ready { before, ours, at } = &shadow.state
            && interval.0 >= *at
        {
            let found = differences(kind, before, ours, &listed.states());
            self.figures.differences.add(found);
            let next = interval.1 + self.settings.rehearse_every;
            shadow.state = State::Idle { next };
        }
        shadow.listed = Some(listed);
    }
}

/// Where `ours` does not lie between the lists `before` and `after`.
fn differences(
    kind: Kind,
    before: &States,
    ours: &BTreeMap<Id, Shown>,
    after: &States,
) -> Vec<Difference> {
    let all = before.keys().chain(ours.keys()).chain(after.keys());
    let mut all: Vec<&Id> = all.collect();
    all.sort_unstable();
    all.dedup();
    let found = all.into_iter().filter_map(|id| {
        let state = |of: &States| of.get(id).copied();
        let (theirs, ours) = ([state(before), state(after)], ours.get(id).copied());
        let agrees = match (theirs, ours) {
            ([Some(_), Some(_)], None) => false,
            ([None, None], Some(ours)) => ours.may_be_in_neither,
            ([Some(before), Some(after)], Some(ours)) => {
                let mut states = [before, ours.state, after].into_iter();
                let is_ordered = kind == Kind::Sandbox || states.all(|state| rises(kind, state));
                let between = before.min(after)..=before.max(after);
                !is_ordered || between.contains(&ours.state)
            }
            // The id was created or removed between the two lists.
            _ => true,
        };
        (!agrees).then(|| Difference {
            kind,
            id: id.clone(),
            ours: ours.map(|ours| ours.state),
            theirs,
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(of: &[(&str, i32)]) -> States {
        of.iter()
            .map(|(id, state)| ((*id).into(), *state))
            .collect()
    }

    fn shown(of: &[(&str, i32)]) -> BTreeMap<Id, Shown> {
        let may_be_in_neither = false;
        let of = listed(of).into_iter();
        let shown = |state| Shown {
            state,
            may_be_in_neither,
        };
        of.map(|(id, state)| (id, shown(state))).collect()
    }

    #[test]
    fn an_id_that_was_created_removed_or_changed_between_two_lists_is_no_difference() {
        let before = listed(&[("goes", 1), ("dies", 1), ("stays", 1)]);
        let after = listed(&[("comes", 0), ("dies", 2), ("stays", 1)]);
        let mut early = shown(&[("goes", 1), ("dies", 1), ("stays", 1)]);
        let passing = Shown {
            state: 1,
            may_be_in_neither: true,
        };
        early.insert("comes-and-goes".into(), passing);
        let late = shown(&[("comes", 0), ("dies", 2), ("stays", 1)]);
        for ours in [early, late] {
            assert_eq!(differences(Kind::Container, &before, &ours, &after), []);
        }
    }

    #[test]
    fn an_id_that_is_in_both_lists_must_be_listed_in_a_state_between_theirs() {
        let both = listed(&[("missing", 1), ("too-soon", 1), ("too-late", 2)]);
        let ours = shown(&[("too-soon", 2), ("too-late", 1), ("ghost", 1)]);
        let found = differences(Kind::Container, &both, &ours, &both);
        let ids: Vec<&str> = found.iter().map(|found| found.id.as_str()).collect();
        assert_eq!(ids, ["ghost", "missing", "too-late", "too-soon"]);
        assert_eq!(found[1].ours, None);
        assert_eq!(found[3].theirs, [Some(1), Some(1)]);
    }
}
