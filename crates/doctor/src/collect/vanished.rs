//! Ids that were listed and did not exist when they were called for.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::facts::probes::{End, Probe};

/// The calls for them. Newer lists tell whether they were removed, or are listed still, which is a
/// fault of the runtime.
#[derive(Default)]
pub(super) struct Vanished {
    calls: Vec<Probe>,
    /// When the last of them ended.
    last: Option<Instant>,
}

impl Vanished {
    /// A call for one has failed just now.
    pub fn note(&mut self, call: Probe) {
        self.calls.push(call);
        self.last = Some(Instant::now());
    }

    /// Since when lists must have been requested to decide; `None` if there is nothing to decide.
    pub fn since(&self) -> Option<Instant> {
        self.last
    }

    /// Of how many it is not known.
    pub fn undecided(&self) -> usize {
        self.calls.len()
    }

    /// The calls, as these ids are listed now: of one that was removed there is nothing to say.
    pub fn decide(&mut self, listed: &BTreeSet<String>) -> Vec<Probe> {
        self.last = None;
        let mut calls = std::mem::take(&mut self.calls);
        for call in &mut calls {
            if !call.id.as_ref().is_some_and(|id| listed.contains(id)) {
                call.end = End::Answered;
            }
        }
        calls
    }
}
