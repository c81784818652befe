//! The time limits of the guard.

use std::time::Duration;

/// The time limits of the guard. [`Default`] fits a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long after its request a list is overdue. The limit is higher if lists usually take longer.
    pub list_overdue: Duration,
    /// How long after its request a stuck read of one id is ended with an error.
    pub read_overdue: Duration,
    /// How long after its request the guard first checks whether an outstanding mutation is done.
    pub check_completion_after: Duration,
    /// How long the guard answers during one fault.
    pub limit: Duration,
    /// Shadow mode: the time between two rehearsals of a list. Each requests the status of every id once.
    pub rehearse_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            list_overdue: Duration::from_secs(2),
            read_overdue: Duration::from_secs(5),
            check_completion_after: Duration::from_secs(1),
            limit: Duration::from_secs(30 * 60),
            rehearse_every: Duration::from_secs(30),
        }
    }
}
