//! The counters of the guard.

use std::collections::BTreeMap;

use cri::Rpc;

use super::shadow::Differences;

/// The counters of the guard, by method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that the guard answered in place of the runtime.
    pub answered: BTreeMap<Rpc, u64>,
    /// Calls that the guard ended with an error, because the runtime did not answer in time.
    pub given_up: BTreeMap<Rpc, u64>,
    /// Mutations that the guard completed.
    pub completed: BTreeMap<Rpc, u64>,
    /// Mutations that the guard refused, because an earlier one was overdue.
    pub refused: BTreeMap<Rpc, u64>,
    /// Differences between lists of the guard and lists of the runtime, in shadow mode.
    pub differences: Differences,
}

pub(super) fn count(figure: &mut BTreeMap<Rpc, u64>, rpc: Rpc) {
    *figure.entry(rpc).or_default() += 1;
}
