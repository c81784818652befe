//! Where the two lists stand: when they are due, what they said last, and whether they
//! were good.

use std::sync::Arc;

use tokio::time::Instant;

use super::sweeping::Missing;
use crate::listed::{ListedContainer, ListedSandbox};
use crate::runtime::CallError;
use crate::snapshot::Snapshot;

/// Where the two lists stand.
#[derive(Debug)]
pub(super) struct Lists {
    /// When the next relist is due; `None` while one is under way.
    due: Option<Instant>,
    /// Somebody wants one that is begun after this.
    requested: Option<Instant>,
    /// When the relist under way, or the last one, was begun.
    pub(super) begun: Instant,
    pub(super) sandboxes: Asking<ListedSandbox>,
    pub(super) containers: Asking<ListedContainer>,
    last: LastLists,
    /// When the last relist with good lists was begun.
    pub(super) last_good: Option<Instant>,
    /// And the one before: what the last one found happened since.
    pub(super) good_before: Option<Instant>,
    /// The last one of which a kubelet could have received both lists.
    pub(super) good_for_kubelet: Option<Instant>,
    /// The larger of both lists, in bytes.
    pub(super) largest: usize,
    /// Why lists failed since the last complete round, if they did.
    pub(super) failure: Option<CallError>,
    /// They come again, but what happened meanwhile is not told yet.
    pub(super) recovered: bool,
    /// How many rows belonged to no pod.
    pub(super) homeless: usize,
}

/// One of the lists in the relist under way.
#[derive(Debug)]
pub(super) enum Asking<Row> {
    Asked,
    Answered(Arc<[Arc<Row>]>),
    Failed(CallError),
}

impl<Row> Asking<Row> {
    /// It was good in the last relist, and fails now.
    pub(super) fn fails(&mut self, error: CallError) {
        if matches!(self, Self::Answered(_)) {
            *self = Self::Failed(error);
        }
    }

    /// Whether it failed by itself, and not for want of a connection.
    fn has_failed(&self) -> bool {
        match self {
            Self::Asked | Self::Answered(_) => false,
            Self::Failed(error) => matches!(
                error,
                CallError::TooLarge(_) | CallError::Malformed(_) | CallError::Refused(_)
            ),
        }
    }
}

impl Lists {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            due: Some(now),
            requested: None,
            begun: now,
            sandboxes: Asking::Asked,
            containers: Asking::Asked,
            last: LastLists::none(now),
            last_good: None,
            good_for_kubelet: None,
            largest: 0,
            good_before: None,
            failure: None,
            recovered: false,
            homeless: 0,
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Makes a relist due that is begun after `asked`; one that was begun since serves.
    pub(super) fn request(&mut self, asked: Instant) {
        match self.due {
            None => self.requested = Some(asked),
            Some(_) if self.last_good.is_some_and(|begun| begun > asked) => {}
            Some(due) => self.due = Some(due.min(asked)),
        }
    }

    /// Makes the next relist due at `time`, unless it is due before.
    pub(super) fn hurry(&mut self, time: Instant) {
        self.due = self.due.map(|due| due.min(time));
    }

    /// Which lists failed although the runtime answers.
    pub(super) fn failed(&self) -> Missing {
        Missing {
            sandboxes: self.sandboxes.has_failed(),
            containers: self.containers.has_failed(),
        }
    }

    /// Whether the last attempt failed, or would have for a kubelet.
    pub(super) fn fail(&self) -> bool {
        let failed = self.failure.is_some() && !self.recovered;
        failed || self.good_for_kubelet != self.last_good
    }

    /// A round is complete: what happened while lists failed has been told.
    pub(super) fn caught_up(&mut self) {
        if self.recovered {
            self.failure = None;
        }
    }

    pub(super) fn begin(&mut self) {
        self.due = None;
        self.largest = 0;
        self.begun = Instant::now();
        self.sandboxes = Asking::Asked;
        self.containers = Asking::Asked;
    }

    /// The relist under way has ended; the next one is due then, unless somebody wants it
    /// now.
    pub(super) fn end(&mut self, next: Instant) {
        let requested = self.requested.take().filter(|asked| *asked > self.begun);
        self.due = Some(requested.unwrap_or(next));
    }

    /// What both lists said, once both are in.
    pub(super) fn take(&mut self) -> Option<Result<Snapshot, CallError>> {
        let (sandboxes, containers) = match (&self.sandboxes, &self.containers) {
            (Asking::Asked, _) | (_, Asking::Asked) => return None,
            (Asking::Failed(error), _) | (_, Asking::Failed(error)) => {
                return Some(Err(error.clone()));
            }
            (Asking::Answered(sandboxes), Asking::Answered(containers)) => (sandboxes, containers),
        };
        Some(Ok(self.last.snapshot(self.begun, sandboxes, containers)))
    }
}

/// The last good lists, and what was made of them: the same lists make the same pods.
#[derive(Debug)]
struct LastLists {
    sandboxes: Arc<[Arc<ListedSandbox>]>,
    containers: Arc<[Arc<ListedContainer>]>,
    snapshot: Snapshot,
}

impl LastLists {
    fn none(now: Instant) -> Self {
        Self {
            sandboxes: Arc::new([]),
            containers: Arc::new([]),
            snapshot: Snapshot::new(now, &[], &[]),
        }
    }

    fn snapshot(
        &mut self,
        taken: Instant,
        sandboxes: &Arc<[Arc<ListedSandbox>]>,
        containers: &Arc<[Arc<ListedContainer>]>,
    ) -> Snapshot {
        let same =
            Arc::ptr_eq(sandboxes, &self.sandboxes) && Arc::ptr_eq(containers, &self.containers);
        if same {
            self.snapshot.taken = taken;
        } else {
            self.snapshot = Snapshot::new(taken, sandboxes, containers);
            self.sandboxes = sandboxes.clone();
            self.containers = containers.clone();
        }
        self.snapshot.clone()
    }
}
