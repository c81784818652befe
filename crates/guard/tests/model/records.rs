//! The states that the runtime has reported and that callers were given, and the check of a list against
//! both.

use std::collections::BTreeMap;
use std::time::Duration;

use cri::Rpc;
use guard::Kind;
use guard::core::Outcome;
use tokio::time::Instant;

use super::runtime::{
    EXITED, Item, Life, NOT_READY, RUNNING, Runtime, is_change, shown, status_of,
};

/// An answer confirms what it shows if its call was sent at most this long before the list was
/// requested.
const CONFIRMS_FOR: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
struct Record {
    /// The states that an answer to a guard has shown, by their numbers.
    reported: [bool; 3],
    /// The highest state that this guard knows, and the highest in the saved records. Only the states of
    /// a container always rise: two answers for a sandbox whose calls were outstanding at the same time
    /// may have either order.
    highest: Option<i32>,
    saved: Option<i32>,
    /// When the newest call whose answer has shown it to this guard was sent.
    confirmed: Option<Instant>,
    /// Whether the last answer to a status call for it was an error.
    fails: bool,
    /// When the last change of it was answered.
    changed: Option<Instant>,
    /// When the kubelet first knew it, or a complete list first contained it.
    known: Option<Instant>,
    /// When a caller was first given each state.
    given: [Option<Instant>; 3],
    /// When a caller was given the answer to its start, and to its removal.
    started: Option<Instant>,
    removed: Option<Instant>,
    /// Whether a caller was given the answer to its removal before the records were saved.
    is_removal_saved: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Records {
    records: BTreeMap<Item, Record>,
}

fn messages(rpc: Rpc, outcome: &Outcome) -> Vec<(Item, i32)> {
    match outcome {
        Outcome::Messages(messages) => shown(rpc, &messages[0]),
        _ => Vec::new(),
    }
}

impl Records {
    fn of(&mut self, item: Item) -> &mut Record {
        self.records.entry(item).or_default()
    }

    /// Records that the runtime has answered a call of the guard that was sent at `sent`.
    pub fn reported(
        &mut self,
        rpc: Rpc,
        item: Option<Item>,
        outcome: &Outcome,
        sent: Instant,
        now: Instant,
    ) {
        for (item, state) in messages(rpc, outcome) {
            let record = self.of(item);
            record.reported[state as usize] = true;
            record.highest = record.highest.max(Some(state));
            record.confirmed = record.confirmed.max(Some(sent));
            record.known.get_or_insert(now);
            record.fails = false;
        }
        if let Some(item) = item.filter(|item| rpc == status_of(item.0)) {
            self.of(item).fails |= matches!(outcome, Outcome::Failed);
        }
        if let Some(item) = item.filter(|_| is_change(rpc)) {
            self.changed(rpc, item, matches!(outcome, Outcome::Messages(_)), now);
        }
    }

    /// Records that a change was answered, or completed by the guard.
    fn changed(&mut self, rpc: Rpc, item: Item, is_done: bool, now: Instant) {
        let record = self.of(item);
        if rpc != Rpc::CreateContainer {
            record.changed = Some(now);
        }
        if rpc == Rpc::StartContainer && is_done {
            record.reported[RUNNING as usize] = true;
            record.highest = record.highest.max(Some(RUNNING));
        }
    }

    /// Records that a caller was given this answer.
    pub fn given(&mut self, rpc: Rpc, item: Option<Item>, outcome: &Outcome, now: Instant) {
        for (item, state) in messages(rpc, outcome) {
            let record = self.of(item);
            record.given[state as usize].get_or_insert(now);
            record.known.get_or_insert(now);
        }
        let Some(item) = item.filter(|_| matches!(outcome, Outcome::Messages(_))) else {
            return;
        };
        if is_change(rpc) {
            self.changed(rpc, item, true, now);
        }
        let record = self.of(item);
        match rpc {
            Rpc::StartContainer => record.started = Some(now),
            Rpc::RemoveContainer | Rpc::RemovePodSandbox => record.removed = Some(now),
            _ => {}
        }
    }

    /// Marks what is known now as saved, because the guard's records were saved.
    pub fn saved(&mut self) {
        for record in self.records.values_mut() {
            record.saved = record.highest;
            record.is_removal_saved = record.removed.is_some();
        }
    }

    /// Returns to what was saved, because the guard is restarted from its saved records. It does not
    /// know later states until the runtime reports them again.
    pub fn restarted(&mut self) {
        for record in self.records.values_mut() {
            record.highest = record.saved;
            record.confirmed = None;
            record.fails = false;
            for (state, given) in record.given.iter_mut().enumerate() {
                if Some(state as i32) > record.saved {
                    *given = None;
                }
            }
            if !record.is_removal_saved {
                record.removed = None;
            }
        }
    }

    /// Checks a list that the guard returns now. The error says what is wrong.
    pub fn check(
        &self,
        kind: Kind,
        requested: Instant,
        rows: &BTreeMap<Item, i32>,
        runtime: &Runtime,
        is_stuck: impl Fn(Item) -> bool,
    ) -> Result<(), String> {
        let since = requested - CONFIRMS_FOR;
        let all = || self.records.iter().filter(|(item, _)| item.0 == kind);
        let is_confirmed = |record: &Record| record.confirmed.is_some_and(|sent| sent >= since);
        if !all().any(|(_, record)| is_confirmed(record)) {
            return Err("it rests on nothing confirmed".to_owned());
        }
        for (item, record) in all() {
            let is_before = |time: Option<Instant>| time.is_some_and(|time| time < requested);
            let is_live = matches!(runtime.life(*item), Life::In(_));
            if is_live && is_before(record.known) && !rows.contains_key(item) {
                return Err(format!("it omits {}", item.id()));
            }
        }
        for (item, shown) in rows {
            let (id, state) = (item.id(), state_name(*item, *shown));
            let Some(record) = self.records.get(item) else {
                return Err(format!("it shows {id}, which no answer has shown"));
            };
            let is_before = |time: &Option<Instant>| time.is_some_and(|time| time < requested);
            let given = record.given.iter().rposition(is_before);
            let is_as_changed = record.confirmed >= record.changed;
            let wrong = if !record.reported[*shown as usize] {
                "which the runtime has not reported"
            } else if item.0 == Kind::Container && record.highest > Some(*shown) {
                "although a later state was reported"
            } else if given > Some(*shown as usize) {
                "although a caller was given a later state before"
            } else if is_before(&record.removed) {
                "although a caller was given its removal before"
            } else if is_before(&record.started) && *shown < RUNNING {
                "although a caller was given its start before"
            } else if !(is_confirmed(record) && is_as_changed || record.fails || is_stuck(*item)) {
                "which is not confirmed, and its status is answered"
            } else {
                continue;
            };
            return Err(format!("it shows {id} as {state}, {wrong}"));
        }
        Ok(())
    }
}

pub fn state_name(item: Item, state: i32) -> &'static str {
    match (item.0, state) {
        (Kind::Sandbox, NOT_READY) => "not ready",
        (Kind::Sandbox, _) => "ready",
        (Kind::Container, RUNNING) => "running",
        (Kind::Container, EXITED) => "exited",
        (Kind::Container, _) => "created",
    }
}
