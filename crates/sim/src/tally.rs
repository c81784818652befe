//! Counts calls, and the highest number of them that are outstanding at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use pleg::model::id::Id;
use tokio::time::Instant;

use crate::faults::DelayCause;
use cri::Rpc;

/// A call that has not been answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// The method.
    pub rpc: Rpc,
    /// The id of the call's subject; `None` for the node.
    pub id: Option<Id>,
    /// When the call arrived.
    pub since: Instant,
    /// Whether the call is delayed by a fault of its id, and not by one of all calls of its method.
    pub has_own_fault: bool,
}

/// Counts the calls. Clones share the counts.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    made: BTreeMap<Rpc, usize>,
    outstanding: BTreeMap<u64, Outstanding>,
    max_per_id: usize,
    /// The highest number of calls that were outstanding at once, not counting streams of events.
    max_unary: usize,
    last: u64,
}

impl Tally {
    /// Counts a call as outstanding until the returned guard is dropped, which also happens if the
    /// caller cancels the call.
    pub(crate) fn count(&self, rpc: Rpc, id: Option<&Id>) -> Counted {
        let mut counts = self.lock();
        *counts.made.entry(rpc).or_default() += 1;
        counts.last += 1;
        let number = counts.last;
        let call = Outstanding {
            rpc,
            id: id.cloned(),
            since: Instant::now(),
            has_own_fault: false,
        };
        counts.outstanding.insert(number, call);
        let count = |is_counted: &dyn Fn(&Outstanding) -> bool| {
            let calls = counts.outstanding.values();
            calls.filter(|call| is_counted(call)).count()
        };
        let per_id = count(&|call| call.rpc == rpc && call.id.as_ref() == id);
        let unary = count(&|call| call.rpc != Rpc::GetContainerEvents);
        counts.max_per_id = counts.max_per_id.max(per_id);
        counts.max_unary = counts.max_unary.max(unary);
        Counted {
            tally: self.clone(),
            number,
        }
    }

    pub(crate) fn made(&self, rpc: Rpc) -> usize {
        self.lock().made.get(&rpc).copied().unwrap_or_default()
    }

    pub(crate) fn max_outstanding_per_id(&self) -> usize {
        self.lock().max_per_id
    }

    pub(crate) fn max_outstanding(&self) -> usize {
        self.lock().max_unary
    }

    pub(crate) fn outstanding(&self) -> Vec<Outstanding> {
        self.lock().outstanding.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no panic while it is held")
    }
}

/// Counts a call as outstanding until this guard is dropped.
pub(crate) struct Counted {
    tally: Tally,
    number: u64,
}

impl Counted {
    /// Records what delays the call.
    pub(crate) fn note_delay(&self, cause: DelayCause) {
        let mut counts = self.tally.lock();
        if let Some(call) = counts.outstanding.get_mut(&self.number) {
            call.has_own_fault = cause == DelayCause::OwnFault;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.tally.lock().outstanding.remove(&self.number);
    }
}
