//! What the cache holds of a pod, and as of when.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use crate::model::id::{Id, PodUid};
use crate::model::run_clock::RunClock;
use crate::model::status::PodStatus;
use crate::model::wall_time::Moment;
use crate::out::failure::InspectError;

/// What the cache holds for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The last good status; of a pod that was never inspected what the lists tell of it.
    pub status: Arc<PodStatus>,
    /// Whether the status is of an inspection, and not only of the lists.
    pub inspected: bool,
    /// Why the newest inspection failed, if it did, or why what it found is not true, or which of
    /// its calls does not return.
    pub error: Option<InspectError>,
    /// The containers that the runtime reports as running although their process is dead, as the
    /// kernel has told for seconds. There is an error then, which may be another one.
    pub dead: BTreeSet<Id>,
    /// As of when the status, or the error beside it, is known.
    pub modified: Option<Instant>,
    /// As of when the status was last confirmed: by an inspection, or by a look that found
    /// nothing changed. What is new in a pod must be known then. Only while it is
    /// [said](crate::out::health::Blind) that this cannot be seen, what confirms all else counts
    /// too; once it can be seen again, this is as of the last time that it was, which is earlier.
    pub as_of: Option<Moment>,
    /// As of when the status is complete: it has every sandbox and container that was there then,
    /// unless it is gone. It stays behind while either of them cannot be listed, and is `None`
    /// while the status lacks one that is listed: that may have been removed since, or the
    /// runtime does not find it for a moment.
    pub complete_as_of: Option<Instant>,
}

impl Entry {
    pub(super) fn unknown(uid: &PodUid) -> Self {
        Self {
            status: Arc::new(PodStatus::unknown(uid.clone())),
            inspected: false,
            error: None,
            dead: BTreeSet::new(),
            modified: None,
            as_of: None,
            complete_as_of: None,
        }
    }

    /// Its times on the monotonic clock, which readers use.
    pub(super) fn on_monotonic(self, clock: &RunClock) -> Self {
        let monotonic = |time: Instant| clock.monotonic(time);
        Self {
            modified: self.modified.map(monotonic),
            as_of: self.as_of.map(|as_of| Moment {
                instant: monotonic(as_of.instant),
                ..as_of
            }),
            complete_as_of: self.complete_as_of.map(monotonic),
            ..self
        }
    }

    /// Whether it shows what an inspection has found.
    pub(super) fn is_good(&self) -> bool {
        self.inspected && self.error.is_none()
    }

    /// A look that was begun then found nothing changed, and nothing new since it was `listed`.
    pub(super) fn confirm(&mut self, looked: Option<Moment>, listed: Option<Instant>) {
        if self.is_good() {
            self.as_of = later(self.as_of, looked);
            self.complete_as_of = self.complete_as_of.max(listed);
        }
    }
}

/// As of when an inspection confirms a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// It does not.
    No,
    /// As of this moment it is known which sandboxes and containers there are.
    Seen(Moment),
    /// Nothing shows what is new in the pod: this counts for as long as that is said.
    Blindly(Moment),
}

/// As of when that is known which an inspection found.
#[derive(Clone, Copy, Debug)]
pub struct Inspection {
    /// When it was begun, or the look that showed what to inspect.
    pub begun: Moment,
    /// As of when it confirms the pod.
    pub confirmed: Confirmed,
    /// When the lists were begun that showed what to ask for.
    pub listed: Option<Instant>,
    /// The pod differs again, or contradicts the lists, so nothing vouches for it.
    pub differs: bool,
    /// Something that was asked for was not found, and is listed.
    pub lacks_listed: bool,
    /// It found a container running whose process was dead by then, so it confirms nothing.
    pub disproved: bool,
}

/// What a look vouches for: every pod but those that are `pending`.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// When the look was begun.
    pub begun: Moment,
    /// The pods that differ from what the cache holds, fail, or do not answer.
    pub pending: BTreeSet<PodUid>,
    /// Those of them that it has not seen: it does not say what is new in them.
    pub unseen: BTreeSet<PodUid>,
    /// Whether sandboxes were listed: a pod that is not known does not exist then.
    pub sees_new_pods: bool,
    /// Whether containers were listed.
    pub sees_new_containers: bool,
}

/// The later one.
pub(super) fn later(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    [one, other]
        .into_iter()
        .flatten()
        .max_by_key(|moment| moment.instant)
}
