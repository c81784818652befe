//! Applies what the runtime's answers show to the rows and to the ids: lists, statuses, and changes that
//! are done. What the rows then show may complete calls of callers.

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::known::{Interval, Known};
use super::{Guard, Outcome};
use crate::wire::Kind;
use crate::wire::filter::Filter;
use crate::wire::request::{Mutation, Target, id_of};
use crate::wire::row::{RUNNING, Row, row_of_config, row_of_status, rows_of};
use crate::wire::status::Status;

impl Guard {
    /// Applies a list to the rows. Returns whether the list could be decoded.
    pub(super) fn learn_list(
        &mut self,
        kind: Kind,
        filter: &Filter,
        outcome: &Outcome,
        interval: Interval,
    ) -> bool {
        let Outcome::Messages(messages) = outcome else {
            return false;
        };
        let Ok(rows) = rows_of(kind, messages) else {
            return false;
        };
        if filter.is_whole() {
            self.compare(kind, &rows, interval);
        }
        if self.shadows[kind].is_rehearsing() {
            return true;
        }
        if filter.is_whole() {
            self.learn_all(kind, rows, interval);
        } else {
            // Only the runtime can resolve a prefix of an unknown id: then no id counts as missing.
            let is_whole = |kind, id: &Option<Id>| {
                let id = id.as_ref();
                id.is_none_or(|id| self.rows[kind].get(id).is_some())
            };
            let shows_missing = is_whole(kind, &filter.id)
                && is_whole(Kind::Sandbox, &filter.sandbox)
                && filter.state.is_none();
            self.rows[kind].part(rows, interval, |row| {
                shows_missing && filter.matches_but_for_state(kind, row)
            });
            self.found_rows(kind, interval);
        }
        true
    }

    /// Applies a complete list to the rows.
    pub(super) fn learn_all(&mut self, kind: Kind, rows: Vec<Row>, interval: Interval) {
        self.rows[kind].complete(rows, interval);
        self.ids.note_complete_list(kind, interval.0);
        self.found_rows(kind, interval);
    }

    fn found_rows(&mut self, kind: Kind, interval: Interval) {
        self.ids.note_rows(&self.rows[kind]);
        self.complete_creations(interval.1);
    }

    /// Applies a status answer to the rows.
    pub(super) fn learn_status(
        &mut self,
        kind: Kind,
        id: &Id,
        outcome: &Outcome,
        interval: Interval,
    ) {
        match outcome {
            Outcome::NotFound => return self.learn_absence(kind, id, interval),
            Outcome::Failed | Outcome::GivenUp => return self.rows[kind].failed(id, interval),
            Outcome::Messages(_) | Outcome::Undecodable | Outcome::Lost => {}
        }
        let status = outcome.message().map(|answer| Status::read(kind, answer));
        let Some(Ok(status)) = status else {
            return;
        };
        if status.id != *id {
            // If the requested id is a prefix of the other one, the other one exists.
            if status.id.as_str().starts_with(id.as_str()) {
                self.ids.note_row(id);
                self.on_id_named(&status.id, interval.1);
            }
            return;
        }
        if status.is_of_other_kind {
            if kind == Kind::Sandbox && self.rows.containers.get(id).is_none() {
                self.ids.note_container_without_sandbox(id, interval.1);
            }
            if kind == Kind::Container {
                self.learn_absence(kind, id, interval);
            }
            return;
        }
        let known = self.rows[kind].get(id).map(|known| &known.row);
        match known {
            // The row is from a list: only the state is taken from a status.
            Some(row) if !row.is_made => self.rows[kind].set_state(id, status.state, interval),
            _ => {
                let sandbox = known.map_or(&status.sandbox, |row| &row.sandbox).as_ref();
                if kind == Kind::Container && sandbox.is_none() {
                    self.ids.note_container_without_sandbox(id, interval.1);
                } else if let Ok(row) = row_of_status(kind, &status.bytes, sandbox, known) {
                    self.learn_row(kind, row, interval);
                    self.complete_creations(interval.1);
                }
            }
        }
        self.complete_by_status(kind, id, Some(&status), interval);
    }

    /// Applies a row, unless it was requested before the id was gone.
    pub(super) fn learn_row(&mut self, kind: Kind, row: Row, interval: Interval) {
        let id = row.id.clone();
        self.rows[kind].learn(row, interval);
        if self.rows[kind].get(&id).is_some() {
            self.ids.note_row(&id);
        }
    }

    /// Applies the answer that the runtime has nothing of this kind with this id.
    fn learn_absence(&mut self, kind: Kind, id: &Id, interval: Interval) {
        self.rows[kind].absent(id, interval);
        let overdue = self.read_overdue_after(kind);
        self.ids.note_not_found(kind, id, interval, overdue);
        match self.rows[kind].get(id) {
            Some(_) => self.check_removal_soon(kind, id, interval.1),
            None => self.complete_by_status(kind, id, None, interval),
        }
    }

    /// Updates the rows after a mutation that is done, so that later answers show it.
    pub(super) fn apply(&mut self, mutation: &Mutation, answer: &Bytes, interval: Interval) {
        let now = interval.1;
        let Target::Existing(kind, id) = &mutation.target else {
            return self.apply_creation(mutation, answer, interval);
        };
        let containers = self.containers_of(*kind, id).into_iter();
        let changed = containers.map(|id| (Kind::Container, id));
        let changed = changed.chain([(*kind, id.clone())]);
        if let Rpc::RemovePodSandbox | Rpc::RemoveContainer = mutation.rpc {
            return changed.for_each(|(kind, id)| self.rows[kind].remove(&id, now));
        }
        if mutation.rpc == Rpc::StartContainer {
            // It is running, or has exited since.
            self.rows.containers.set_state(id, RUNNING, interval);
            self.rows.containers.started(id, now);
        }
        for (kind, id) in changed {
            self.rows[kind].changed(&id, now);
            self.reads.invalidate(kind, &id);
        }
    }

    /// Updates the rows after the creation of a sandbox or a container.
    fn apply_creation(&mut self, mutation: &Mutation, answer: &Bytes, interval: Interval) {
        let (kind, sandbox) = match &mutation.target {
            Target::NewContainer { sandbox, .. } => (Kind::Container, Some(sandbox)),
            Target::NewSandbox { .. } | Target::Existing(..) => (Kind::Sandbox, None),
        };
        let id = id_of(answer);
        // The request may have a prefix of the sandbox's id, which only the runtime can resolve.
        if let (Some(id), Some(sandbox)) = (&id, sandbox)
            && self.rows.sandboxes.get(sandbox).is_none()
        {
            return self.on_id_named(id, interval.1);
        }
        let row = id.and_then(|id| {
            let created_at = self.unix_nanos(interval.1);
            row_of_config(kind, &id, &mutation.config, sandbox, created_at).ok()
        });
        match row {
            Some(row) if self.rows[kind].get(&row.id).is_some() => {
                self.rows[kind].changed(&row.id, interval.1);
                self.reads.invalidate(kind, &row.id);
            }
            Some(row) => {
                let id = row.id.clone();
                self.learn_row(kind, row, interval);
                // The row is built from the request; only a status confirms it.
                self.rows[kind].changed(&id, interval.1);
            }
            // The answer cannot be decoded, so the new id is not known.
            None => self.ids.note_unshown(kind, interval.1),
        }
    }

    /// The containers in a sandbox; none for a container.
    fn containers_of(&self, kind: Kind, id: &Id) -> Vec<Id> {
        let is_in_it =
            |known: &Known| kind == Kind::Sandbox && known.row.sandbox.as_ref() == Some(id);
        let rows = self.rows.containers.iter();
        let in_it = rows.filter(|(_, known)| is_in_it(known));
        in_it.map(|(id, _)| id.clone()).collect()
    }

    /// Updates the rows and ids after a mutation that may be done or not: its caller cancelled it, or
    /// the connection was lost.
    pub(super) fn on_unknown_end(&mut self, mutation: &Mutation, now: Instant) {
        match &mutation.target {
            Target::Existing(_, id) if mutation.rpc == Rpc::StartContainer => {
                self.rows.containers.started(id, now);
            }
            Target::Existing(kind, id) => self.rows[*kind].changed(id, now),
            Target::NewSandbox { .. } => self.ids.note_unshown(Kind::Sandbox, now),
            Target::NewContainer { .. } => self.ids.note_unshown(Kind::Container, now),
        }
    }

    /// Adds an id that an event or a call named, unless it is known.
    pub(super) fn on_id_named(&mut self, id: &Id, now: Instant) {
        self.ids.on_id_named(id, &self.rows, now);
    }
}
