//! Who calls what, how often, and how many calls are outstanding at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use pleg::model::id::Id;
use tokio::time::Instant;

use crate::faults::HeldBy;
use cri::Rpc;

/// A call that has not been answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Which.
    pub rpc: Rpc,
    /// About what; `None` for the node.
    pub id: Option<Id>,
    /// When it came.
    pub since: Instant,
    /// Whether what holds it up is a fault of its id alone, and not of all calls of its kind.
    pub by_its_own: bool,
}

/// Counts the calls. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    made: BTreeMap<Rpc, usize>,
    outstanding: BTreeMap<u64, Outstanding>,
    alike: BTreeMap<(Rpc, Option<Id>), usize>,
    most_alike: usize,
    /// Those outstanding that are no stream: one is opened beside all questions.
    questions: usize,
    most: usize,
    last: u64,
}

impl Tally {
    /// Counts a call as outstanding until what this returns is dropped: also when the
    /// caller gave it up.
    pub(crate) fn count(&self, rpc: Rpc, id: Option<&Id>) -> Counted {
        let mut counts = self.lock();
        *counts.made.entry(rpc).or_default() += 1;
        counts.last += 1;
        let number = counts.last;
        let call = Outstanding {
            rpc,
            id: id.cloned(),
            since: Instant::now(),
            by_its_own: false,
        };
        counts.outstanding.insert(number, call);
        let alike = counts.alike.entry((rpc, id.cloned())).or_default();
        *alike += 1;
        let alike = *alike;
        counts.most_alike = counts.most_alike.max(alike);
        counts.questions += usize::from(rpc != Rpc::GetContainerEvents);
        counts.most = counts.most.max(counts.questions);
        Counted {
            tally: self.clone(),
            number,
        }
    }

    pub(crate) fn made(&self, rpc: Rpc) -> usize {
        self.lock().made.get(&rpc).copied().unwrap_or_default()
    }

    /// The most for the same (RPC, id) at once.
    pub(crate) fn most_alike(&self) -> usize {
        self.lock().most_alike
    }

    /// The most at once.
    pub(crate) fn most(&self) -> usize {
        self.lock().most
    }

    pub(crate) fn outstanding(&self) -> Vec<Outstanding> {
        self.lock().outstanding.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no panic while it is held")
    }
}

/// A call that is under way.
pub(crate) struct Counted {
    tally: Tally,
    number: u64,
}

impl Counted {
    /// Notes what holds it up.
    pub(crate) fn is_held(&self, by: HeldBy) {
        let mut counts = self.tally.lock();
        if let Some(call) = counts.outstanding.get_mut(&self.number) {
            call.by_its_own = by == HeldBy::ItsOwn;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.tally.lock();
        let Some(call) = counts.outstanding.remove(&self.number) else {
            return;
        };
        counts.questions -= usize::from(call.rpc != Rpc::GetContainerEvents);
        let key = (call.rpc, call.id);
        if let Some(alike) = counts.alike.get_mut(&key) {
            *alike -= 1;
            if *alike == 0 {
                counts.alike.remove(&key);
            }
        }
    }
}
