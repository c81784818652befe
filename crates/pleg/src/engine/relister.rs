//! Both lists: which of them is requested now, and when a relist is complete.
//!
//! ```text
//!   a list is due --> Version (if the runtime is unknown) --> it is requested, and with it the other
//!                                                             one, unless that is slow, fails or is
//!                                                             outstanding
//!   a list is answered --> taken in at once, or with the other one if that may arrive together
//!   both are known as of a later time than before: a relist is complete
//! ```
//!
//! Each list has its own [`Lister`]: a list that is stuck, fails or is slow does not delay the other
//! one.
//!
//! A list is due when the pause after the last one ends ([`Lister::plan`]; the period is
//! `Engine::period`, which is short while changes may be missed), or sooner if the list is wanted:
//!
//! - the stream or the watch of births began, or lost changes; an event named an unknown pod;
//! - a status contradicts the last list, or was not found; an inspection failed;
//! - the runtime answers nothing;
//! - a pass observed no pod, or pods were observed without this list; a sweep needs it;
//! - this process was paused for longer than the period; a user of the library asked for it.
//!
//! A list is never sent during the pause that follows lost connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

mod availability;
mod connection;
mod newest;

pub(super) use newest::ListRow;
use newest::{Newest, Rows};

use connection::{Connection, is_no_connection};

use super::call::{List, Request};
use super::limits::FIRST_RETRY_PAUSE;
use super::list_times::ListTimes;
use super::lister::Lister;
use super::lists::PerList;
use crate::config::Config;
use crate::model::event::Source;
use crate::model::grouping::Grouping;
use crate::model::listed::{ListedContainer, ListedSandbox};
use crate::model::snapshot::Snapshot;
use crate::model::wall_time::Moment;
use crate::out::kubelet_view::REQUEST_TIMEOUT;
use crate::records::Interval;
use crate::runtime::grpc::MAX_MESSAGE_SIZE;
use crate::runtime::{CallError, Listing};

/// Both lists, and when they are requested.
#[derive(Debug)]
pub(crate) struct Relister {
    /// The shortest period between two lists.
    period: Duration,
    lists: PerList<Lister>,
    /// How long lists usually take.
    times: ListTimes,
    connection: Connection,
    /// The newest good answers, whether taken in or not.
    sandboxes: Option<Newest<ListedSandbox>>,
    containers: Option<Newest<ListedContainer>>,
    /// The lists of the last relist, grouped by pod.
    grouping: Grouping,
    complete: Complete,
}

/// The times as of which relists were complete.
#[derive(Clone, Copy, Debug, Default)]
struct Complete {
    last: Option<Instant>,
    /// The time of the relist before the last one.
    before: Option<Instant>,
    /// The time of the last relist whose lists a kubelet could have received.
    for_kubelet: Option<Instant>,
}

impl Relister {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            period: config.relist_period,
            lists: PerList {
                sandboxes: Lister::new(now),
                containers: Lister::new(now),
            },
            times: ListTimes::new(config.list_overdue),
            connection: Connection::default(),
            sandboxes: None,
            containers: None,
            grouping: Grouping::new(now, Arc::new([]), Arc::new([])),
            complete: Complete::default(),
        }
    }

    fn each<T>(&self, of: impl FnMut(&Lister) -> T) -> PerList<T> {
        self.lists.as_ref().map(of)
    }

    /// When both lists are due; `None` while a list is outstanding.
    pub(crate) fn due(&self) -> Option<Instant> {
        let [one, other] = self.each(Lister::due).both();
        Some(one?.max(other?))
    }

    /// When a list is next due. While `Version` must be answered first, a list that is due already
    /// does not count.
    pub(crate) fn alarm(&self, is_awaiting_version: bool, now: Instant) -> Option<Instant> {
        let is_blocked = is_awaiting_version && self.needs_version();
        let due = self.each(Lister::due).both().into_iter().flatten();
        due.filter(|due| *due > now || !is_blocked).min()
    }

    /// Makes each list due, unless its contents are or will be known as of a time later than
    /// `after`.
    pub(crate) fn request(&mut self, after: Instant) {
        for list in List::BOTH {
            self.lists[list].request(after);
        }
    }

    /// Makes one list due, unless it is outstanding or its contents are known as of a time later
    /// than `after`.
    pub(crate) fn request_list(&mut self, list: List, after: Instant) {
        if !self.lists[list].is_outstanding() {
            self.lists[list].request(after);
        }
    }

    /// Makes the lists due by `time`, except one that was too large: the runtime would produce it again,
    /// and it could not be received.
    pub(crate) fn hurry(&mut self, time: Instant) {
        for list in List::BOTH {
            if !self.lists[list].is_too_large() {
                self.lists[list].make_due_by(time);
            }
        }
    }

    /// Makes the lists due by `time`, even one that was too large: only lists show whether the runtime
    /// is reachable at all.
    pub(crate) fn hurry_anyway(&mut self, time: Instant) {
        for list in List::BOTH {
            let lister = &mut self.lists[list];
            let failed_at = lister.failed_at.filter(|_| lister.is_too_large());
            let earliest = failed_at.map(|failed| failed + FIRST_RETRY_PAUSE);
            lister.make_due_by(time.max(earliest.unwrap_or(time)));
        }
    }

    /// The call to send now. `Version` is sent first if the runtime is unknown, because its answer
    /// decides which version of CRI is used. When a list is due, the other one is sent with it if
    /// it was last answered in time.
    pub(crate) fn next_call(&mut self, is_awaiting_version: bool, now: Moment) -> Option<Request> {
        let due = self.each(|list| list.is_due(now.instant));
        if !due.any() {
            return None;
        }
        if self.needs_version() {
            return (!is_awaiting_version).then_some(Request::Version);
        }
        let list = match due.sandboxes {
            true => List::Sandboxes,
            false => List::Containers,
        };
        let other = &mut self.lists[list.other()];
        if other.goes_along() {
            other.make_due_by(now.instant);
        }
        self.lists[list].sent(now);
        Some(Request::List(list))
    }

    /// Records the answer to a list.
    pub(crate) fn received<R: ListRow>(&mut self, listing: Listing<R>, now: Instant) {
        let other = self.lists[R::LIST.other()].begun();
        let list = &mut self.lists[R::LIST];
        let Some(begun) = list.begun() else {
            return;
        };
        let took = now.duration_since(begun.instant);
        let beside = other.is_some_and(|other| other.instant < begun.instant);
        list.received(took, self.times.overdue(), beside, now);
        if !beside {
            self.times.learn(took);
        }
        self.connection.list_ended();
        *R::newest(self) = Some(Newest {
            begun,
            ended: now,
            bytes: listing.bytes,
            rows: listing.rows,
            is_taken_in: false,
        });
        self.judge_connection(R::LIST, begun.instant, None, now);
    }

    /// Records that a list failed, or that its connection was lost.
    pub(crate) fn failed(&mut self, list: List, error: &CallError, now: Instant) {
        let lister = &mut self.lists[list];
        let Some(begun) = lister.begun() else {
            return;
        };
        if is_no_connection(error) {
            lister.lost(error, now);
        } else if lister.failed(error, now) {
            tracing::debug!("unable to list: {error}");
        }
        self.connection.list_ended();
        if let CallError::Unavailable(_) | CallError::Unimplemented(_) = error {
            self.connection.forget_version();
        }
        self.judge_connection(list, begun.instant, Some(error), now);
    }

    /// Plans when the waiting lists are due, perhaps earlier than was planned before. `period` is
    /// the current period between two lists.
    pub(crate) fn plan(&mut self, period: Duration) {
        for list in List::BOTH {
            self.lists[list].plan(self.period, period);
        }
    }

    /// How long a failed relist took. This list, which was sent at `begun`, was the last of the two
    /// to end.
    pub(crate) fn failed_relist(
        &self,
        list: List,
        begun: Instant,
        now: Instant,
    ) -> Option<Duration> {
        let other = &self.lists[list.other()];
        let has_failed = |list: &Lister| list.failed_at >= Some(begun);
        let is_failed = has_failed(&self.lists[list]) || has_failed(other);
        (is_failed && !other.is_outstanding()).then(|| now.duration_since(begun))
    }

    /// Takes the newest rows of a list, unless they were taken in before. While `waits`, the rows
    /// are held until the other list ends, if that was sent earlier or at the same time.
    pub(crate) fn take_new<R: ListRow>(&mut self, waits: bool) -> Option<(Rows<R>, Interval)> {
        if self.is_held::<R>(waits) {
            return None;
        }
        let newest = R::newest(self).as_mut().filter(|it| !it.is_taken_in)?;
        newest.is_taken_in = true;
        let interval = Interval {
            begun: newest.begun.instant,
            ended: newest.ended,
            // The records that these rows are compared with may rest on a sweep, or on an earlier
            // list.
            source: Source::Sweep,
        };
        let rows = newest.rows.clone();
        self.lists[R::LIST].taken_in(interval.begun);
        Some((rows, interval))
    }

    /// Whether new rows of this list wait for the other list.
    fn is_held<R: ListRow>(&mut self, waits: bool) -> bool {
        let other = self.lists[R::LIST.other()].begun().filter(|_| waits);
        let newest = R::newest(self).as_ref().filter(|it| !it.is_taken_in);
        newest
            .is_some_and(|newest| other.is_some_and(|other| other.instant <= newest.begun.instant))
    }

    /// Completes a relist if both lists reflect a later time than the last complete relist. Returns
    /// what they show, and the time as of which they show it. While `waits`, a list may be held for
    /// the other one.
    pub(crate) fn complete(&mut self, waits: bool) -> Option<(Snapshot, Moment)> {
        if self.is_held::<ListedSandbox>(waits) || self.is_held::<ListedContainer>(waits) {
            return None;
        }
        let (sandboxes, containers) = (self.sandboxes.as_mut()?, self.containers.as_mut()?);
        let begun = match sandboxes.begun.instant <= containers.begun.instant {
            true => sandboxes.begun,
            false => containers.begun,
        };
        if self.complete.last >= Some(begun.instant) {
            return None;
        }
        sandboxes.is_taken_in = true;
        containers.is_taken_in = true;
        self.lists.sandboxes.taken_in(sandboxes.begun.instant);
        self.lists.containers.taken_in(containers.begun.instant);
        let orphaned_before = self.grouping.snapshot().orphaned;
        let snapshot = self
            .grouping
            .update(begun.instant, &sandboxes.rows, &containers.rows);
        if snapshot.orphaned > orphaned_before {
            let orphaned = snapshot.orphaned;
            tracing::warn!("{orphaned} listed sandboxes or containers belong to no pod");
        }
        let largest = sandboxes.bytes.max(containers.bytes);
        let [one, other] = self.each(|list| list.took).both();
        self.complete = Complete {
            last: Some(begun.instant),
            before: self.complete.last,
            for_kubelet: match largest <= MAX_MESSAGE_SIZE && one.max(other) < REQUEST_TIMEOUT {
                true => Some(begun.instant),
                false => self.complete.for_kubelet,
            },
        };
        Some((snapshot, begun))
    }

    /// The time as of which the last relist was complete; `None` before the first one.
    pub(crate) fn last_good(&self) -> Option<Instant> {
        self.complete.last
    }

    /// The time as of which the newest relist before `time` was complete. Only the last two relists
    /// are remembered.
    pub(crate) fn good_before(&self, time: Instant) -> Option<Instant> {
        let good = [self.complete.last, self.complete.before];
        good.into_iter().flatten().find(|begun| *begun < time)
    }

    /// The time as of which the last relist that a kubelet could have received was complete.
    pub(crate) fn good_for_kubelet(&self) -> Option<Instant> {
        self.complete.for_kubelet
    }

    /// When the newest taken-in answer of this list was requested.
    pub(crate) fn known_as_of(&self, list: List) -> Option<Instant> {
        self.lists[list].known_as_of
    }

    /// Records that pods were observed as of `time` without these lists, because they were
    /// unavailable.
    pub(crate) fn note_observed_without(&mut self, lists: PerList<bool>, time: Instant) {
        for list in List::BOTH {
            let known = &mut self.lists[list].observed_without;
            *known = (*known).max(lists[list].then_some(time));
        }
    }

    /// Which lists do not yet show what existed when pods were last observed without them.
    pub(crate) fn outdated(&self) -> PerList<bool> {
        self.each(|list| list.observed_without.is_some())
    }

    /// The newest time as of which pods were observed without a list that is still outdated.
    pub(crate) fn outdated_since(&self) -> Option<Instant> {
        let [one, other] = self.each(|list| list.observed_without).both();
        one.max(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wall_time::WallTime;

    #[test]
    fn a_list_that_is_too_large_is_not_requested_again_for_five_seconds_whatever_wants_it() {
        let now = Instant::now();
        let mut relister = Relister::new(&Config::default(), now);
        for list in List::BOTH {
            let wall = WallTime::from_unix_nanos(1).expect("a time");
            relister.lists[list].sent(Moment { instant: now, wall });
            relister.failed(list, &CallError::TooLarge("17 MB".into()), now);
        }
        relister.plan(Duration::from_secs(1));
        assert_eq!(relister.due(), Some(now + Duration::from_secs(30)));
        relister.hurry_anyway(now);
        assert_eq!(relister.due(), Some(now + Duration::from_secs(5)));
    }
}
