//! Applies what the runtime's answers show to the rows and to the ids: lists, statuses, and changes that
//! are done. What the rows then show may complete calls of callers.

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::known::Interval;
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
        let rows = messages.iter().map(|message| rows_of(kind, message));
        let Ok(rows) = rows.collect::<Result<Vec<_>, _>>() else {
            return false;
        };
        let rows: Vec<Row> = rows.into_iter().flatten().collect();
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
            let names_whole_ids = filter
                .id()
                .is_none_or(|id| self.rows[kind].get(&id.into()).is_some())
                && filter
                    .sandbox()
                    .is_none_or(|id| self.rows.sandboxes.get(id).is_some());
            self.rows[kind].part(rows, interval, |row| {
                let is_of_all = names_whole_ids && !filter.is_of_state();
                is_of_all && filter.matches_but_for_state(kind, row)
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
        let status = match outcome {
            Outcome::Messages(messages) => match messages.as_slice() {
                [message] => Status::read(kind, message).ok(),
                _ => None,
            },
            Outcome::NotFound => return self.learn_absence(kind, id, interval),
            Outcome::Failed | Outcome::GivenUp => {
                return self.rows[kind].failed(id, interval);
            }
            Outcome::Undecodable | Outcome::Lost => None,
        };
        let Some(status) = status else {
            return;
        };
        if status.id != *id {
            return self.learn_of_another(id, &status.id, interval.1);
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
            // A list has shown it: a status has only its state.
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

    /// The answer is for another id. If the requested id is a prefix of it, the other id exists.
    fn learn_of_another(&mut self, id: &Id, other: &Id, now: Instant) {
        if other.as_str().starts_with(id.as_str()) {
            self.ids.note_row(id);
            self.on_id_named(other, now);
        }
    }

    /// Applies a row, unless it was requested before the id was gone.
    pub(super) fn learn_row(&mut self, kind: Kind, row: Row, interval: Interval) {
        let id = row.id.clone();
        self.rows[kind].learn(row, interval);
        if self.rows[kind].get(&id).is_some() {
            self.ids.note_row(&id);
        }
    }

    /// Applies an answer that the runtime has nothing of this kind with this id.
    fn learn_absence(&mut self, kind: Kind, id: &Id, interval: Interval) {
        self.rows[kind].absent(id, interval);
        let overdue = self.read_overdue_after(kind);
        self.ids.note_not_found(kind, id, interval, overdue);
        match self.rows[kind].get(id) {
            Some(_) => self.check_removal_soon(kind, id, interval.1),
            None => self.complete_by_status(kind, id, None, interval),
        }
    }

    /// Applies a change that is done to the rows, so that later answers show it.
    pub(super) fn apply(
        &mut self,
        rpc: Rpc,
        mutation: &Mutation,
        answer: &Bytes,
        interval: Interval,
    ) {
        let (began, now) = interval;
        match (&mutation.target, rpc) {
            (Target::NewSandbox { .. }, _) => {
                self.made(Kind::Sandbox, mutation, answer, None, interval);
            }
            (Target::NewContainer { sandbox, .. }, _) => {
                self.made(Kind::Container, mutation, answer, Some(sandbox), interval);
            }
            (Target::Existing(Kind::Sandbox, id), Rpc::RemovePodSandbox) => {
                self.rows.sandboxes.remove(id, now);
                for container in self.containers_of(id) {
                    self.rows.containers.remove(&container, now);
                }
            }
            (Target::Existing(Kind::Sandbox, id), _) => {
                self.rows.sandboxes.changed(id, now);
                self.reads.invalidate(Kind::Sandbox, id);
                for container in self.containers_of(id) {
                    self.rows.containers.changed(&container, now);
                    self.reads.invalidate(Kind::Container, &container);
                }
            }
            (Target::Existing(kind, id), Rpc::RemoveContainer) => {
                self.rows[*kind].remove(id, now);
            }
            (Target::Existing(kind, id), _) => {
                if mutation.starts {
                    // It is running, or has exited since.
                    self.rows.containers.set_state(id, RUNNING, (began, now));
                    self.rows.containers.started(id, now);
                }
                self.rows[*kind].changed(id, now);
                self.reads.invalidate(*kind, id);
            }
        }
    }

    fn made(
        &mut self,
        kind: Kind,
        mutation: &Mutation,
        answer: &Bytes,
        sandbox: Option<&Id>,
        interval: Interval,
    ) {
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
            // The answer cannot be decoded: the id of the new one is not known.
            None => self.ids.note_unshown(kind, interval.1),
        }
    }

    fn containers_of(&self, sandbox: &Id) -> Vec<Id> {
        let rows = self.rows.containers.iter();
        let of = rows.filter(|(_, known)| known.row.sandbox.as_ref() == Some(sandbox));
        of.map(|(id, _)| id.clone()).collect()
    }

    /// A pod was restored, or may have been. Only a list shows which containers it has.
    pub(super) fn on_restored(&mut self, now: Instant) {
        for kind in Kind::BOTH {
            self.ids.note_unshown(kind, now);
        }
    }

    /// A mutation was cancelled by its caller, or its connection was lost: it may be done or not.
    pub(super) fn on_unknown_end(&mut self, mutation: &Mutation, now: Instant) {
        match &mutation.target {
            Target::NewSandbox { .. } => self.ids.note_unshown(Kind::Sandbox, now),
            Target::NewContainer { .. } => self.ids.note_unshown(Kind::Container, now),
            Target::Existing(_, id) if mutation.starts => self.rows.containers.started(id, now),
            Target::Existing(kind, id) => self.rows[*kind].changed(id, now),
        }
    }

    /// A call named this id.
    pub(super) fn on_id_named(&mut self, id: &Id, now: Instant) {
        self.ids.on_id_named(id, &self.rows, now);
    }
}
