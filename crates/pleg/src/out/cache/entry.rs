//! What the cache holds for a pod, and the times as of which it is known.

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
    /// The status of the last successful inspection; before the first one, what the lists show.
    pub status: Arc<PodStatus>,
    /// Whether the status is from an inspection, and not only from lists.
    pub inspected: bool,
    /// Why the newest inspection failed, which of its calls is overdue, or what contradicts it.
    pub error: Option<InspectError>,
    /// The containers that the runtime reports as running although the kernel reported the exit of their
    /// process seconds ago. If there are any, `error` is set, perhaps for another reason.
    pub dead: BTreeSet<Id>,
    /// The time as of which the status, or the error beside it, is known.
    pub modified: Option<Instant>,
    /// The time as of which the status was last confirmed: by an inspection, or by a pass that found no
    /// change. This includes what is new in the pod. Only while [unseen parts](crate::out::health::Blind)
    /// are reported, a confirmation of everything else counts too. Once nothing is unseen any more, this
    /// goes back to the last time that everything was confirmed.
    pub as_of: Option<Moment>,
    /// The time as of which the status is complete: it has every sandbox and container that existed then,
    /// unless it was removed. This time does not advance while one of the lists is unavailable. It is
    /// `None` while the status lacks a listed sandbox or container, which may have been removed since, or
    /// which the runtime does not find for a moment.
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

    /// The entry with its times on the monotonic clock, which readers use.
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

    /// Whether the entry shows the result of an inspection, and no error.
    pub(super) fn is_good(&self) -> bool {
        self.inspected && self.error.is_none()
    }

    /// Records that a pass which began at `begun` found no change, and that the status is complete as of
    /// `complete_as_of`. Does nothing if the entry has an error or was not inspected.
    pub(super) fn confirm(&mut self, begun: Option<Moment>, complete_as_of: Option<Instant>) {
        if self.is_good() {
            self.as_of = later(self.as_of, begun);
            self.complete_as_of = self.complete_as_of.max(complete_as_of);
        }
    }
}

/// Whether an inspection confirms a pod, and as of when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// The inspection does not confirm the pod.
    No,
    /// The pod is confirmed as of this moment, at which it was known which sandboxes and containers
    /// exist.
    Seen(Moment),
    /// The pod is confirmed as of the inspection, for as long as unseen parts are reported.
    Blindly(Moment),
}

/// When an inspection was made, and what its result confirms.
#[derive(Clone, Copy, Debug)]
pub struct Inspection {
    /// When the inspection began, or the pass that showed what to inspect.
    pub begun: Moment,
    /// Whether the inspection confirms the pod, and as of when.
    pub confirmed: Confirmed,
    /// When the lists were requested that showed which ids to inspect.
    pub listed: Option<Instant>,
    /// Whether the pod differs again, or contradicts the lists, so that nothing confirms the
    /// result.
    pub differs: bool,
    /// Whether an inspected id was not found although it is listed.
    pub lacks_listed: bool,
    /// Whether the inspection showed a container as running whose process had exited by then, so
    /// that it confirms nothing.
    pub disproved: bool,
}

/// What a pass confirms: every pod but those that are `pending`.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// When the pass began.
    pub begun: Moment,
    /// The pods that differ from what the cache holds, or whose calls fail or are not answered.
    pub pending: BTreeSet<PodUid>,
    /// The pending pods that the pass did not observe: it does not show what is new in them.
    pub unseen: BTreeSet<PodUid>,
    /// Whether sandboxes were listed: then a pod that is not known does not exist.
    pub sees_new_pods: bool,
    /// Whether containers were listed.
    pub sees_new_containers: bool,
}

/// The later of two moments.
pub(super) fn later(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    let moments = [one, other].into_iter().flatten();
    moments.max_by_key(|moment| moment.instant)
}
