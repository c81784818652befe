//! What is known of one pod: what was told, and what was seen since.

use std::sync::Arc;

use tokio::time::Instant;

use super::hint::Hint;
use super::look::{Freshness, Look};
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
    /// The last inspection came to nothing, and may have left an error: one must be good,
    /// though nothing differs.
    pub(super) failed: bool,
    /// Something may have happened that is not listed yet.
    pub(super) hint: Option<Hint>,
    pub(super) inspecting: Option<Inspecting>,
}

#[derive(Debug)]
pub(super) struct Inspecting {
    pub(super) ticket: u64,
    pub(super) version: Arc<ListedPod>,
    pub(super) begun: Instant,
    /// The hint that it follows, if no list asked for it.
    pub(super) hint: Option<Hint>,
}

impl Record {
    pub(super) fn new(look: Look) -> Self {
        Self {
            committed: None,
            listed: None,
            sandboxes: Freshness::of(look),
            containers: Freshness::of(look),
            source: look.source,
            reinspect: false,
            failed: false,
            hint: None,
            inspecting: None,
        }
    }

    /// Takes in a look at the whole pod, unless a newer one is known.
    pub(super) fn look(&mut self, pod: Option<&Arc<ListedPod>>, look: Look) -> bool {
        if !self.sandboxes.admits_list(look) || !self.containers.admits_list(look) {
            return false;
        }
        self.sandboxes = Freshness::of(look);
        self.containers = Freshness::of(look);
        self.hint.take_if(|hint| hint.at <= look.begun);
        self.list(pod.cloned(), look.source);
        true
    }

    /// Changes the listing; a pod of which nothing is left is gone.
    pub(super) fn amend(&mut self, source: Source, change: impl FnOnce(&mut ListedPod)) {
        if let Some(listed) = &self.listed {
            let mut pod = ListedPod::clone(listed);
            change(&mut pod);
            self.list((!pod.is_empty()).then(|| Arc::new(pod)), source);
        }
    }

    pub(super) fn list(&mut self, pod: Option<Arc<ListedPod>>, source: Source) {
        if self.listed != pod {
            self.source = source;
        }
        // One version of an unchanged pod is kept, not one for each look.
        self.listed = if pod == self.committed {
            self.committed.clone()
        } else {
            pod
        };
    }

    /// Whether the pod is to be inspected although nothing differs.
    pub(super) fn is_asked_for(&self) -> bool {
        self.reinspect || self.failed || self.hint.is_some()
    }

    /// A pod that is being inspected waits for the end of it, unless it is gone.
    pub(super) fn wants_step(&self) -> bool {
        let wanted = self.is_asked_for() || self.listed != self.committed;
        self.listed.is_none() || wanted && self.inspecting.is_none()
    }
}
