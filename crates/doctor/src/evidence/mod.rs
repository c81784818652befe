//! What several judges derive from the facts: which process serves which pod, what is blocked,
//! and what is affected.

use crate::facts::Fact;
use crate::facts::host::{HostFacts, Process};

pub(crate) mod culprit;
pub(crate) mod disk;
pub(crate) mod ending;
pub(crate) mod exits;
pub(crate) mod lack;
pub(crate) mod owner;
pub(crate) mod phrases;
pub(crate) mod plugins;
pub(crate) mod remedy;
pub(crate) mod rights;
pub(crate) mod runc;
pub(crate) mod shims;
pub(crate) mod tables;
pub(crate) mod victims;
pub(crate) mod waits;

/// The items of a fact; none if the fact is missing.
pub(crate) fn known<T>(fact: &Fact<Vec<T>>) -> &[T] {
    fact.value().map_or(&[], Vec::as_slice)
}

/// The kubelet, or the program that contains it, if one runs.
pub(crate) fn kubelet(host: &HostFacts) -> Option<&Process> {
    let mut processes = host.all_processes().iter();
    processes.find(|process| process.is_kubelet())
}
