//! What lists and `Version` show about the connection to the runtime: whether there is one, and to
//! which runtime.

use tokio::time::Instant;

use super::Relister;
use crate::engine::call::List;
use crate::engine::limits::{MAX_LOSS_PAUSE, SUSPECT_AFTER};
use crate::engine::lister::Lister;
use crate::engine::losses::Losses;
use crate::runtime::{CallError, NoConnection, RuntimeVersion};

/// What lists and `Version` show about the connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// The last answer to `Version`.
    runtime: Option<RuntimeVersion>,
    /// Whether the runtime is known: `Version` was answered, and the connection was not lost since.
    is_known: bool,
    /// Whether the next lists are requested without an answer to `Version`.
    skips_version: bool,
    /// Counts the connections that were lost soon after lists or `Version` were sent.
    losses: Losses,
    /// Why no list can be answered: there is no connection, or the server is no CRI runtime.
    pub(super) failure: Option<CallError>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            runtime: None,
            is_known: false,
            skips_version: false,
            losses: Losses::new(MAX_LOSS_PAUSE),
            failure: None,
        }
    }
}

impl Connection {
    /// Forgets that the runtime is known: another one may be listening now.
    pub(super) fn forget_version(&mut self) {
        self.is_known = false;
        self.skips_version = false;
    }

    /// The next list needs `Version` again if it was skipped.
    pub(super) fn list_ended(&mut self) {
        self.skips_version = false;
    }

    /// Records that no list can be answered. If the connection was lost repeatedly, soon after the
    /// same calls were sent, the error names these calls.
    fn fail(&mut self, error: &CallError, calls: &str, sent: Instant, now: Instant) {
        if self.failure.as_ref() != Some(error) {
            tracing::debug!("unable to list: {error}");
        }
        let is_crash = is_lost(error) && now < sent + SUSPECT_AFTER;
        if is_crash {
            self.losses.count(now);
        }
        self.failure = Some(match is_crash && self.losses.are_repeated() {
            true => {
                let why = format!("the connection is lost each time {calls} requested");
                CallError::unavailable(NoConnection::Lost, why)
            }
            false => error.clone(),
        });
    }
}

impl Relister {
    /// The last answer to `Version`.
    pub(crate) fn runtime(&self) -> Option<&RuntimeVersion> {
        self.connection.runtime.as_ref()
    }

    /// Whether `Version` is sent before the next list, because the runtime is unknown.
    pub(crate) fn needs_version(&self) -> bool {
        !self.connection.is_known && !self.connection.skips_version
    }

    /// `Version` was answered. Returns whether the runtime was unknown or is another one.
    pub(crate) fn version_known(&mut self, version: RuntimeVersion, now: Instant) -> bool {
        // A list that has been outstanding for long will not soon show that there is a connection
        // again, but this answer does.
        let suspect = self.times.suspect();
        let is_suspect = |list: &Lister| list.begun().is_some_and(|it| now >= it.instant + suspect);
        let is_any_suspect = self.each(is_suspect).any();
        let connection = &mut self.connection;
        if is_any_suspect {
            connection.failure.take_if(|error| is_no_connection(error));
        }
        let was_known = std::mem::replace(&mut connection.is_known, true);
        connection.skips_version = false;
        let before = connection.runtime.replace(version);
        !was_known || before != connection.runtime
    }

    /// Requests lists without an answer to `Version`.
    pub(crate) fn skip_version(&mut self) {
        self.connection.skips_version = !self.connection.is_known;
    }

    /// `Version`, which was sent at `sent`, failed while the runtime was unknown. Returns whether that
    /// ends a relist.
    pub(crate) fn version_failed(
        &mut self,
        error: &CallError,
        sent: Instant,
        now: Instant,
    ) -> bool {
        if self.connection.is_known {
            return false;
        }
        self.connection.forget_version();
        self.connection.fail(error, "Version is", sent, now);
        self.postpone(now);
        true
    }

    /// A list that was sent at `sent` has ended, perhaps with an error. Judges the connection once the
    /// other list, if it is outstanding, has ended too.
    pub(super) fn judge_connection(
        &mut self,
        ended: List,
        sent: Instant,
        error: Option<&CallError>,
        now: Instant,
    ) {
        let other = &self.lists[ended.other()];
        let is_outstanding = other.is_outstanding();
        // After a lost connection, the next call often finds none.
        let first = other.loss().filter(|_| other.failed_at >= Some(sent));
        let lost = error.filter(|error| is_no_connection(error));
        match (lost.cloned(), first.cloned()) {
            // The other list may yet be answered.
            (Some(_), _) if is_outstanding => {}
            // This list shows that there is a connection again.
            (None, _) if is_outstanding => self.connection.failure = None,
            (Some(_), Some(first)) if is_lost(&first) => self.fail_lists(&first, sent, now),
            (Some(error), _) | (None, Some(error)) => self.fail_lists(&error, sent, now),
            (None, None) if other.loss().is_none() => {
                self.connection.failure = None;
                self.connection.losses.forget();
            }
            (None, None) => {}
        }
    }

    fn fail_lists(&mut self, error: &CallError, sent: Instant, now: Instant) {
        self.connection.fail(error, "lists are", sent, now);
        self.postpone(now);
    }

    /// Whether there is no connection.
    pub(super) fn is_unreachable(&self) -> bool {
        self.connection
            .failure
            .as_ref()
            .is_some_and(is_no_connection)
    }

    /// Postpones the lists, because they may cause the next loss.
    fn postpone(&mut self, now: Instant) {
        let until = self.connection.losses.postponed(now + self.period);
        for list in List::BOTH {
            self.lists[list].postpone(until);
        }
    }
}

/// Whether an error shows that the connection was lost before the answer.
fn is_lost(error: &CallError) -> bool {
    matches!(error, CallError::Unavailable(why) if why.cause == NoConnection::Lost)
}

/// Whether an error shows that there is no connection.
pub(super) fn is_no_connection(error: &CallError) -> bool {
    matches!(error, CallError::Unavailable(_))
}
