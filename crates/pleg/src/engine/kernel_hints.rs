//! Hints of the kernel: containers that are about to start or have ended, and the processes that can
//! be watched.

use tokio::time::Instant;

use super::births::Change;
use super::call::Request;
use super::state::{Action, Engine};
use crate::kernel::Birth;
use crate::model::id::Id;
use crate::model::listed::Row;
use crate::model::status::Status;
use crate::model::wall_time::Moment;
use crate::records::diff::State;
use crate::records::{Hint, NamedId, Records};
use crate::runtime::CallError;

impl Engine {
    pub(super) fn on_birth(&mut self, birth: Birth, now: Moment) {
        match birth {
            Birth::Watched => {
                self.sources.births.on_watched(Ok(()));
                // Changes before this moment were not reported.
                self.relister.request(now.instant);
            }
            Birth::Unwatched(why) => {
                tracing::info!("births of containers are not watched: {why}");
                self.sources.births.on_watched(Err(why));
            }
            Birth::Lost => self.list_soon(now),
            Birth::Appeared(id) => self.follow(id, Change::Appeared, now),
            Birth::Disappeared(id) => self.follow(id, Change::Disappeared, now),
        }
    }

    /// Takes in the end of the process of a container. A container that the runtime no longer lists is
    /// now gone, so its pod is inspected or removed.
    pub(super) fn on_death(&mut self, id: &Id, now: Moment) {
        if let Some(uid) = self.sources.processes.on_death(id, now.instant) {
            self.records.retry(&uid);
            self.take_step(&uid, now);
        }
    }

    fn follow(&mut self, id: Id, change: Change, now: Moment) {
        if !self.sources.births.follow(id, change, now.instant) {
            self.list_soon(now);
        }
    }

    /// Stops following ids whose change the stream or a list has shown meanwhile.
    pub(super) fn drop_known_births(&mut self, now: Instant) {
        let records = &self.records;
        let births = &mut self.sources.births;
        births.drop_finished(|id, change| is_known(records, id, change), now);
    }

    /// Takes in the status of an id that is followed.
    pub(super) fn on_followed<S>(
        &mut self,
        request: &Request,
        answer: Result<S, CallError>,
        now: Moment,
    ) where
        S: Status<Listed: Row<State: Into<State>>>,
    {
        let state = answer.as_ref().map(|status| status.state().into());
        let is_shown = self.sources.births.on_status(request, state, now.instant);
        let Some(status) = answer.ok().filter(|_| is_shown) else {
            return;
        };
        // Without labels, only a list shows which pod the id belongs to.
        let Some(pod) = status.pod().cloned() else {
            return self.hurry(now);
        };
        let id = status.id().clone();
        let named = match request {
            Request::Sandbox(_) => NamedId::Sandbox(id),
            // A container's status does not name its sandbox.
            _ => NamedId::Container {
                id,
                sandbox: "".into(),
            },
        };
        let hint = Hint {
            named: vec![named],
            ..Hint::of_kernel(now.instant)
        };
        self.hint(&pod, hint, now);
    }

    pub(super) fn on_pid(&mut self, id: Id, answer: Result<Option<u32>, CallError>, now: Moment) {
        if let Some(pid) = self.sources.processes.on_pid(&id, answer, now.instant) {
            self.act(Action::Watch { id, pid });
        }
    }
}

/// Whether the change of this id is known.
fn is_known(records: &Records, id: &Id, change: Change) -> bool {
    let mut pods = records.listed();
    let state = pods.find_map(|pod| {
        let container = pod.containers.iter().find(|row| row.id == *id);
        let sandbox = || pod.sandboxes.iter().find(|row| row.id == *id);
        let container = container.map(|row| row.state.into());
        container.or_else(|| sandbox().map(|row| row.state.into()))
    });
    // An id that was never known and is gone needs no inspection.
    let state = state.unwrap_or(State::Gone);
    change.is_shown_by(state)
}
