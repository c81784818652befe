//! Shadow mode: nothing is answered in the runtime's place, but now and then it is rehearsed,
//! and the list that would have been given is compared with the runtime's own.
//!
//! ```text
//!   Idle --a kubelet asks for all--> Rehearsing: lists teach nothing, ids are asked for
//!                                        | all are confirmed
//!   Idle <--the next list: compared-- Ready
//! ```
//!
//! What we would have said lies between two lists of the runtime: one that it answered before,
//! one that it was asked for afterwards. What both of them have, ours must have, in a state
//! between theirs; what neither of them has, ours must not have.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::id::Id;
use tokio::time::Instant;

use super::rows::Asked;
use super::{Guard, Mode};
use crate::wire::Kind;
use crate::wire::filter::Filter;
use crate::wire::row::{Row, rises};

/// A rehearsal that takes longer is dropped: it differs from nothing.
const REHEARSED_WITHIN: Duration = Duration::from_secs(10);

/// How many differences are kept.
const KEPT: usize = 16;

/// States by id.
type States = BTreeMap<Id, i32>;

/// A complete list of the runtime.
#[derive(Clone, Debug)]
struct Listed {
    asked: Asked,
    rows: Vec<Row>,
}

impl Listed {
    fn states(&self) -> States {
        let states = self.rows.iter().map(|row| (row.id.clone(), row.state));
        states.collect()
    }
}

/// What we would have shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    state: i32,
    /// The lists may lack it: it came after the list before, or that list lacked it and its own
    /// status is stuck.
    may_be_gone: bool,
}

/// A kind's rehearsals.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    /// What the runtime listed last.
    listed: Option<Listed>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Idle {
        next: Instant,
    },
    Rehearsing {
        before: States,
        /// When that list was requested.
        listed: Instant,
        asked: Instant,
        known_to: Option<Id>,
    },
    Ready {
        before: States,
        ours: BTreeMap<Id, Shown>,
        at: Instant,
    },
}

/// How a list of ours would have differed from the runtime's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Of which list.
    pub kind: Kind,
    /// Whom it is about.
    pub id: Id,
    /// The state that we would have shown; `None` if we would not have shown it.
    pub ours: Option<i32>,
    /// What the runtime listed before and after.
    pub theirs: [Option<i32>; 2],
}

/// The differences that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// How many there were.
    pub count: u64,
    /// How many lists were compared.
    pub compared: u64,
    /// The newest of them, the oldest first.
    pub kept: VecDeque<Difference>,
}

impl Differences {
    fn add(&mut self, found: Vec<Difference>) {
        self.compared += 1;
        self.count += found.len() as u64;
        self.kept.extend(found);
        self.kept.drain(..self.kept.len().saturating_sub(KEPT));
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
        matches!(self.state, State::Rehearsing { .. })
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { .. })
    }

    pub(super) fn alarm(&self) -> Option<Instant> {
        match &self.state {
            State::Rehearsing { asked, .. } => Some(*asked + REHEARSED_WITHIN),
            State::Idle { .. } | State::Ready { .. } => None,
        }
    }
}

impl Guard {
    /// A kubelet asks for all of a kind: as if the answer did not come, it is rehearsed.
    pub(super) fn rehearse(&mut self, kind: Kind, now: Instant) {
        let shadow = &mut self.shadows[kind as usize];
        if let State::Idle { next } = shadow.state
            && now >= next
            && let Some(before) = shadow.listed.take()
        {
            shadow.state = State::Rehearsing {
                before: before.states(),
                listed: before.asked.0,
                asked: now,
                known_to: None,
            };
            // It may have come during the last rehearsal, and has taught nothing then.
            self.learn_all(kind, before.rows, before.asked);
        }
    }

    /// Looks whether the list could be given now.
    pub(super) fn pass_shadow(&mut self, kind: Kind, now: Instant) {
        let next = now + self.settings.rehearse_every;
        let idle = State::Idle { next };
        let state = std::mem::replace(&mut self.shadows[kind as usize].state, idle);
        let next = match state {
            // What cannot be answered in time is not answered, and differs from nothing.
            State::Rehearsing { asked, .. }
                if now >= asked + REHEARSED_WITHIN || self.mode != Mode::Shadow =>
            {
                return;
            }
            State::Rehearsing {
                before,
                listed,
                asked,
                mut known_to,
            } => {
                // The runtime's lists teach nothing meanwhile: each id was asked for since.
                let filter = Filter::default();
                let ours = self.known_rows(kind, &filter, &mut known_to, asked, now);
                let ours = ours.map(|ours| {
                    let shown = ours.map(|known| {
                        let shown = Shown {
                            state: known.row.state,
                            may_be_gone: known.is_told_since(listed) || known.is_missing(),
                        };
                        (known.row.id.clone(), shown)
                    });
                    shown.collect()
                });
                match ours {
                    Some(ours) => State::Ready {
                        before,
                        ours,
                        at: now,
                    },
                    None => State::Rehearsing {
                        before,
                        listed,
                        asked,
                        known_to,
                    },
                }
            }
            other => other,
        };
        self.shadows[kind as usize].state = next;
    }

    /// The runtime listed all of a kind.
    pub(super) fn compare(&mut self, kind: Kind, rows: &[Row], asked: Asked) {
        let shadow = &mut self.shadows[kind as usize];
        if self.mode != Mode::Shadow {
            shadow.listed = None;
            return;
        }
        let listed = Listed {
            asked,
            rows: rows.to_vec(),
        };
        if let State::Ready { before, ours, at } = &shadow.state
            && asked.0 >= *at
        {
            let found = differences(kind, before, ours, &listed.states());
            self.figures.differences.add(found);
            let next = asked.1 + self.settings.rehearse_every;
            shadow.state = State::Idle { next };
        }
        shadow.listed = Some(listed);
    }
}

/// Where `ours` does not lie between what was listed before and after.
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
        let is_so = match (theirs, ours) {
            ([Some(_), Some(_)], None) => false,
            ([None, None], Some(ours)) => ours.may_be_gone,
            ([Some(before), Some(after)], Some(ours)) => {
                let mut states = [before, ours.state, after].into_iter();
                let is_known = kind == Kind::Sandbox || states.all(|state| rises(kind, state));
                let between = before.min(after)..=before.max(after);
                !is_known || between.contains(&ours.state)
            }
            // It came, or it went.
            _ => true,
        };
        (!is_so).then(|| Difference {
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
        let may_be_gone = false;
        let of = listed(of).into_iter();
        of.map(|(id, state)| (id, Shown { state, may_be_gone }))
            .collect()
    }

    #[test]
    fn what_came_went_or_changed_between_two_lists_is_no_difference() {
        let before = listed(&[("goes", 1), ("dies", 1), ("stays", 1)]);
        let after = listed(&[("comes", 0), ("dies", 2), ("stays", 1)]);
        let mut early = shown(&[("goes", 1), ("dies", 1), ("stays", 1)]);
        let passing = Shown {
            state: 1,
            may_be_gone: true,
        };
        early.insert("comes-and-goes".into(), passing);
        let late = shown(&[("comes", 0), ("dies", 2), ("stays", 1)]);
        for ours in [early, late] {
            assert_eq!(differences(Kind::Container, &before, &ours, &after), []);
        }
    }

    #[test]
    fn what_both_lists_have_must_be_there_in_a_state_between_theirs() {
        let both = listed(&[("missing", 1), ("too-soon", 1), ("too-late", 2)]);
        let ours = shown(&[("too-soon", 2), ("too-late", 1), ("ghost", 1)]);
        let found = differences(Kind::Container, &both, &ours, &both);
        let ids: Vec<&str> = found.iter().map(|found| found.id.as_str()).collect();
        assert_eq!(ids, ["ghost", "missing", "too-late", "too-soon"]);
        assert_eq!(found[1].ours, None);
        assert_eq!(found[3].theirs, [Some(1), Some(1)]);
    }
}
