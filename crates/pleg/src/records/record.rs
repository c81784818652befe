//! What is known of one pod: what was told, and what was seen since.

use std::sync::Arc;

use tokio::time::Instant;

use crate::event::Source;
use crate::listed::ListedPod;

#[derive(Debug)]
pub(super) struct Record {
    /// The listing up to which everything was told; the kubelet's `old`.
    pub(super) committed: Option<Arc<ListedPod>>,
    /// The newest listing; the kubelet's `current`.
    pub(super) listed: Option<Arc<ListedPod>>,
    /// How fresh the listing's sandboxes are, and its containers.
    pub(super) sandboxes: Freshness,
    pub(super) containers: Freshness,
    /// What made us look.
    pub(super) source: Source,
    /// Somebody wants the pod inspected although nothing differs.
    pub(super) reinspect: bool,
    pub(super) inspecting: Option<Inspecting>,
}

/// When the looks were begun that a part of a listing is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freshness {
    /// The last one at the whole part: an older look at a single id knows less.
    pub(super) whole: Instant,
    /// The last one at anything in it: an older look at the whole knows less.
    pub(super) any: Instant,
}

impl Freshness {
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            whole: begun,
            any: begun,
        }
    }
}

#[derive(Debug)]
pub(super) struct Inspecting {
    pub(super) ticket: u64,
    pub(super) version: Arc<ListedPod>,
    pub(super) begun: Instant,
}

impl Record {
    pub(super) fn new(looked: Instant) -> Self {
        Self {
            committed: None,
            listed: None,
            sandboxes: Freshness::new(looked),
            containers: Freshness::new(looked),
            source: Source::Relist,
            reinspect: false,
            inspecting: None,
        }
    }

    /// Takes in a look, unless a newer one is known.
    pub(super) fn look(
        &mut self,
        pod: Option<&Arc<ListedPod>>,
        begun: Instant,
        source: Source,
    ) -> bool {
        if begun < self.sandboxes.any || begun < self.containers.any {
            return false;
        }
        self.sandboxes = Freshness::new(begun);
        self.containers = Freshness::new(begun);
        self.list(pod.cloned(), source);
        true
    }

    /// Changes the listing; a pod of which nothing is left is gone.
    pub(super) fn amend(&mut self, source: Source, change: impl FnOnce(&mut ListedPod)) {
        if let Some(listed) = &self.listed {
            let mut pod = ListedPod::clone(listed);
            change(&mut pod);
            let gone = pod.sandboxes.is_empty() && pod.containers.is_empty();
            self.list((!gone).then(|| Arc::new(pod)), source);
        }
    }

    pub(super) fn list(&mut self, pod: Option<Arc<ListedPod>>, source: Source) {
        self.source = source;
        // One version of an unchanged pod is kept, not one for each look.
        self.listed = if pod == self.committed {
            self.committed.clone()
        } else {
            pod
        };
    }

    /// A pod that is being inspected waits for the end of it, unless it is gone.
    pub(super) fn wants_step(&self) -> bool {
        let differs = self.reinspect || self.listed != self.committed;
        self.listed.is_none() || differs && self.inspecting.is_none()
    }
}
