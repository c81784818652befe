//! The guard's times.

use std::time::Duration;

/// The guard's times. [`Default`] is what a node wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A list that is not answered for this long is overdue, or later if lists usually take longer.
    pub list_overdue: Duration,
    /// A read of one id that is stuck is given up for its callers after this.
    pub read_overdue: Duration,
    /// After this it is asked whether what a mutation was to do is done.
    pub prove_after: Duration,
    /// How long the guard answers during one fault.
    pub limit: Duration,
    /// In shadow mode: how often a list is rehearsed, which asks for each id once.
    pub rehearse_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            list_overdue: Duration::from_secs(2),
            read_overdue: Duration::from_secs(5),
            prove_after: Duration::from_secs(1),
            limit: Duration::from_secs(30 * 60),
            rehearse_every: Duration::from_secs(30),
        }
    }
}
