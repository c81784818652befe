//! How often what was done, for whoever shows it.

use std::collections::BTreeMap;

use cri::Rpc;

use super::shadow::Differences;

/// How often what was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that were answered in the runtime's place.
    pub answered: BTreeMap<Rpc, u64>,
    /// Calls that were ended with an error, because nothing better could be said.
    pub given_up: BTreeMap<Rpc, u64>,
    /// Mutations that were proved to be done.
    pub completed: BTreeMap<Rpc, u64>,
    /// Mutations that were refused, because one before is overdue.
    pub refused: BTreeMap<Rpc, u64>,
    /// Where lists of ours would have been others than the runtime's.
    pub differences: Differences,
}

pub(super) fn count(figure: &mut BTreeMap<Rpc, u64>, rpc: Rpc) {
    *figure.entry(rpc).or_default() += 1;
}
