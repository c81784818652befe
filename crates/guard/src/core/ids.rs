//! Tracks whether every id that the runtime has is known.
//!
//! ```text
//!   host, stream --an id without a row--> requested as a container --found--> a row
//!                                             | not found
//!                                             v
//!                                         requested as a sandbox --found--> a row
//!                                             | not found
//!                                             v
//!                                         neither, as of then: a directory exists before its
//!                                         container does, so the id is requested again
//! ```
//!
//! While such an id is unresolved, no list is answered from the rows: it could omit a sandbox or a
//! container that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::id::Id;
use tokio::time::Instant;

use super::HostIds;
use super::known::Interval;
use super::per_kind::PerKind;
use super::rows::Rows;
use crate::wire::Kind;

/// How often the ids are read from the host.
const HOST_INTERVAL: Duration = Duration::from_secs(1);

/// How long the host's ids count as complete after they were read.
const HOST_IDS_VALID_FOR: Duration = Duration::from_secs(2);

/// An unresolved id is requested again after `RETRY_AFTER`, or after `RETRY_AFTER_PER_ID` times the number
/// of unresolved ids if that is longer: most ids are requested twice, as a container and as a sandbox.
const RETRY_AFTER: Duration = Duration::from_millis(500);
const RETRY_AFTER_PER_ID: Duration = Duration::from_millis(2);

/// The pause before the status of a container with an unknown sandbox is requested again: only a list
/// shows its sandbox.
const CONTAINER_RETRY_AFTER: Duration = Duration::from_secs(2);

/// How many ids may be unresolved at once.
const MAX_UNRESOLVED: usize = 1024;

/// The ids without a row, and whether there may be others.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    unresolved: BTreeMap<Id, Unresolved>,
    /// For each kind, the last time at which an id may have been created that no answer, event or host has
    /// shown. Only a complete list that is requested later clears it.
    unshown: PerKind<Option<Instant>>,
    host: Host,
}

/// An id without a row.
#[derive(Clone, Copy, Debug)]
struct Unresolved {
    identity: Identity,
    next_as: RequestAs,
    /// When its status is requested next.
    next: Instant,
}

/// What the runtime's answers show about an id.
#[derive(Clone, Copy, Debug)]
enum Identity {
    Unknown,
    /// It is a container, and its sandbox is not known.
    Container,
    /// The runtime had no container and no sandbox with this id. `requested` is the time of the earlier
    /// request, `took` the time until the later answer.
    Neither {
        requested: Instant,
        took: Duration,
    },
}

/// The kind as which the status of an id is requested.
#[derive(Clone, Copy, Debug)]
enum RequestAs {
    Container,
    /// The runtime had no container with this id as of `no_container`.
    Sandbox {
        no_container: Instant,
    },
}

impl RequestAs {
    fn kind(self) -> Kind {
        match self {
            Self::Container => Kind::Container,
            Self::Sandbox { .. } => Kind::Sandbox,
        }
    }
}

impl Unresolved {
    /// Whether a list that is answered from the rows now could lack this id although it exists. `Neither`
    /// expires, because the container or sandbox may have been created since.
    fn is_open(&self, retry_after: Duration, now: Instant) -> bool {
        match self.identity {
            Identity::Unknown | Identity::Container => true,
            Identity::Neither { requested, took } => {
                now >= requested + HOST_IDS_VALID_FOR.max((took + retry_after) * 2)
            }
        }
    }

    /// Whether its status is to be requested. An id that was neither a container nor a sandbox may be one
    /// now, which matters only if the request is urgent.
    fn needs_request(&self, is_urgent: bool) -> bool {
        is_urgent || !matches!(self.identity, Identity::Neither { .. })
    }
}

/// The requests for the host's ids.
#[derive(Clone, Debug)]
struct Host {
    pending: Option<Instant>,
    next: Instant,
    is_wanted: bool,
    state: HostIdsState,
}

/// What the host's ids show.
#[derive(Clone, Copy, Debug)]
enum HostIdsState {
    /// There is no answer yet.
    Pending,
    /// The host has shown all ids that existed at this time.
    Complete(Instant),
    /// The host has more ids than may be unresolved at once.
    TooMany,
    /// The host has no ids to read.
    Unavailable,
}

impl Ids {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            unresolved: BTreeMap::new(),
            unshown: PerKind::default(),
            host: Host {
                pending: None,
                next: now,
                is_wanted: false,
                state: HostIdsState::Pending,
            },
        }
    }

    /// Records that there may be ids of this kind that no answer, event or host has shown.
    pub(super) fn note_unshown(&mut self, kind: Kind, now: Instant) {
        self.unshown[kind] = Some(now);
    }

    /// Records that there may be ids of both kinds that no answer, event or host has shown.
    pub(super) fn note_all_unshown(&mut self, now: Instant) {
        self.unshown = PerKind::new(|_| Some(now));
    }

    /// Whether there may be ids of this kind that no answer, event or host has shown.
    pub(super) fn has_unshown(&self, kind: Kind) -> bool {
        self.unshown[kind].is_some()
    }

    /// Records that a complete list that was requested at this time has been answered.
    pub(super) fn note_complete_list(&mut self, kind: Kind, requested: Instant) {
        self.unshown[kind].take_if(|since| requested >= *since);
    }

    /// Whether all ids of this kind are known. An id that another client of the runtime creates is known
    /// within seconds if the host's ids can be read.
    pub(super) fn are_all_known(&self, kind: Kind, now: Instant) -> bool {
        let unshown = self.unshown[kind];
        let is_host_complete = match self.host.state {
            HostIdsState::Unavailable => unshown.is_none(),
            HostIdsState::Complete(read) => {
                now < read + HOST_IDS_VALID_FOR && unshown.is_none_or(|it| read >= it)
            }
            HostIdsState::Pending | HostIdsState::TooMany => false,
        };
        let retry_after = self.retry_after();
        let mut unresolved = self.unresolved.values();
        is_host_complete && !unresolved.any(|it| it.is_open(retry_after, now))
    }

    fn retry_after(&self) -> Duration {
        let count = u32::try_from(self.unresolved.len()).unwrap_or(u32::MAX);
        RETRY_AFTER.max(RETRY_AFTER_PER_ID.saturating_mul(count))
    }

    /// Removes this id: it has a row now.
    pub(super) fn note_row(&mut self, id: &Id) {
        self.unresolved.remove(id);
    }

    /// Removes the ids that have rows now.
    pub(super) fn note_rows(&mut self, rows: &Rows) {
        self.unresolved.retain(|id, _| rows.get(id).is_none());
    }

    /// Records that this id is a container, and that its sandbox is not known.
    pub(super) fn note_container_without_sandbox(&mut self, id: &Id, now: Instant) {
        self.resolve(id, now);
        if let Some(unresolved) = self.unresolved.get_mut(id) {
            unresolved.identity = Identity::Container;
            unresolved.next_as = RequestAs::Container;
        }
    }

    /// Records that the runtime has nothing of this kind with this id. The part of an answer's delay
    /// beyond `overdue` is due to a fault, and does not extend the time for which the id counts as
    /// neither.
    pub(super) fn note_not_found(
        &mut self,
        kind: Kind,
        id: &Id,
        (requested, answered): Interval,
        overdue: Duration,
    ) {
        let Some(unresolved) = self.unresolved.get_mut(id) else {
            return;
        };
        match (unresolved.next_as, kind) {
            // It was a container: a single answer is not enough to say that it is not.
            (RequestAs::Container, Kind::Container)
                if matches!(unresolved.identity, Identity::Container) =>
            {
                unresolved.identity = Identity::Unknown;
                unresolved.next = answered + RETRY_AFTER;
            }
            (RequestAs::Container, Kind::Container) => {
                let no_container = requested;
                unresolved.next_as = RequestAs::Sandbox { no_container };
                unresolved.next = answered;
            }
            (RequestAs::Sandbox { no_container }, Kind::Sandbox) => {
                // A client may have requested the status of the container before.
                let requested = requested.min(no_container);
                let took = answered.saturating_duration_since(requested).min(overdue);
                unresolved.identity = Identity::Neither { requested, took };
                unresolved.next_as = RequestAs::Container;
                // Without the host's ids, this one is from an event: it existed, and is gone.
                if matches!(self.host.state, HostIdsState::Unavailable) {
                    self.note_row(id);
                }
            }
            (RequestAs::Container, Kind::Sandbox)
            | (RequestAs::Sandbox { .. }, Kind::Container) => {}
        }
    }

    /// Adds an id that an event or a call named, unless it is known.
    pub(super) fn on_id_named(&mut self, id: &Id, rows: &PerKind<Rows>, now: Instant) {
        if !is_known(id, rows) && !self.resolve(id, now) {
            self.note_all_unshown(now);
        }
    }

    /// Applies the host's ids, or the fact that they could not be read.
    pub(super) fn on_host_ids(&mut self, host_ids: HostIds, rows: &PerKind<Rows>, now: Instant) {
        let Some(requested) = self.host.pending.take() else {
            return;
        };
        let ids = match (host_ids, self.host.state) {
            (HostIds::All(ids), _) => ids,
            // The ids could be read before: there are none now.
            (HostIds::Unavailable, HostIdsState::Complete(_) | HostIdsState::TooMany) => Vec::new(),
            (HostIds::Unavailable, HostIdsState::Pending | HostIdsState::Unavailable) => {
                self.host.state = HostIdsState::Unavailable;
                return;
            }
            (HostIds::Unread, _) => return,
        };
        self.host.state = HostIdsState::Complete(requested);
        let ids: BTreeSet<Id> = ids.into_iter().collect();
        self.unresolved
            .retain(|id, it| ids.contains(id) || !matches!(it.identity, Identity::Neither { .. }));
        for id in &ids {
            if !is_known(id, rows) && !self.resolve(id, now) {
                self.host.state = HostIdsState::TooMany;
            }
        }
    }

    /// Adds an id without a row. Returns false if there are too many: then a list or the host's next ids
    /// show it.
    fn resolve(&mut self, id: &Id, now: Instant) -> bool {
        if self.unresolved.len() >= MAX_UNRESOLVED {
            return self.unresolved.contains_key(id);
        }
        let unresolved = self.unresolved.entry(id.clone());
        unresolved.or_insert(Unresolved {
            identity: Identity::Unknown,
            next_as: RequestAs::Container,
            next: now,
        });
        true
    }

    pub(super) fn request_host_ids_soon(&mut self) {
        self.host.is_wanted = true;
    }

    /// Whether the ids must be completed now: lists need them, or there may be ids that nothing has shown.
    fn is_urgent(&self, lists_need_it: bool) -> bool {
        lists_need_it || self.unshown.iter().any(Option::is_some)
    }

    /// Whether to request the host's ids now. If so, the request counts as sent.
    pub(super) fn needs_host_ids(&mut self, lists_need_it: bool, now: Instant) -> bool {
        let is_urgent = self.is_urgent(lists_need_it);
        let host = &mut self.host;
        host.is_wanted |= is_urgent;
        let is_due = host.is_wanted && host.pending.is_none() && now >= host.next;
        if is_due {
            host.pending = Some(now);
            host.next = now + HOST_INTERVAL;
            host.is_wanted = false;
        }
        is_due
    }

    /// Whether this id is unresolved.
    pub(super) fn has(&self, id: &Id) -> bool {
        self.unresolved.contains_key(id)
    }

    /// The ids whose status is to be requested now, and as which kind.
    pub(super) fn due(&self, lists_need_it: bool, now: Instant) -> Vec<(Id, Kind)> {
        let is_urgent = self.is_urgent(lists_need_it);
        let unresolved = self.unresolved.iter();
        let due = unresolved.filter(|(_, it)| now >= it.next && it.needs_request(is_urgent));
        due.map(|(id, it)| (id.clone(), it.next_as.kind()))
            .collect()
    }

    /// Records that the status of this id is requested now. Sets the time of the next request, whatever
    /// the answer.
    pub(super) fn note_request(&mut self, id: &Id, now: Instant) {
        let retry_after = self.retry_after();
        if let Some(unresolved) = self.unresolved.get_mut(id) {
            unresolved.next = now
                + match unresolved.identity {
                    Identity::Container => retry_after.max(CONTAINER_RETRY_AFTER),
                    Identity::Unknown | Identity::Neither { .. } => retry_after,
                };
        }
    }

    /// The times at which something is due. Status requests count only if calls may be sent.
    pub(super) fn alarm(&self, may_call: bool) -> impl Iterator<Item = Instant> {
        let host = self.host.is_wanted && self.host.pending.is_none();
        let unresolved = self.unresolved.values();
        let unresolved = unresolved.filter(move |it| may_call && it.needs_request(false));
        let host = host.then_some(self.host.next);
        host.into_iter().chain(unresolved.map(|it| it.next))
    }
}

/// Whether there is a row for this id, or the id was removed. An id that is only missing from answers may
/// still exist.
fn is_known(id: &Id, rows: &PerKind<Rows>) -> bool {
    rows.iter()
        .any(|rows| rows.get(id).is_some() || rows.is_removed(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_host_ids_than_may_be_unresolved_do_not_count_as_complete() {
        let now = Instant::now();
        let rows = PerKind::new(Rows::new);
        let is_complete = |count: usize| {
            let mut ids = Ids::new(now);
            assert!(ids.needs_host_ids(true, now));
            let host_ids = (0..count).map(|id| Id::from(id.to_string())).collect();
            ids.on_host_ids(HostIds::All(host_ids), &rows, now);
            // The ids for which there was room get rows.
            for id in 0..MAX_UNRESOLVED {
                ids.note_row(&Id::from(id.to_string()));
            }
            ids.are_all_known(Kind::Container, now)
        };
        assert!(is_complete(10));
        assert!(!is_complete(2 * MAX_UNRESOLVED));
    }

    #[test]
    fn one_not_found_answer_does_not_override_that_an_id_is_a_container() {
        let now = Instant::now();
        let mut ids = Ids::new(now);
        let id = Id::from("it");
        ids.note_container_without_sandbox(&id, now);
        let not_found =
            |ids: &mut Ids, kind| ids.note_not_found(kind, &id, (now, now), HOST_IDS_VALID_FOR);
        not_found(&mut ids, Kind::Container);
        not_found(&mut ids, Kind::Sandbox);
        assert!(ids.unresolved[&id].is_open(RETRY_AFTER, now));
        not_found(&mut ids, Kind::Container);
        not_found(&mut ids, Kind::Sandbox);
        assert!(!ids.unresolved[&id].is_open(RETRY_AFTER, now));
    }

    #[test]
    fn an_id_that_is_neither_stays_resolved_for_the_time_that_a_slow_runtime_takes_to_answer_again()
    {
        let start = Instant::now();
        let mut ids = Ids::new(start);
        let id = Id::from("it");
        assert!(ids.resolve(&id, start));
        // Each call takes 1.5 s.
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let overdue = Duration::from_secs(5);
        ids.note_not_found(Kind::Container, &id, (at(0.0), at(1.5)), overdue);
        ids.note_not_found(Kind::Sandbox, &id, (at(1.5), at(3.0)), overdue);
        assert!(!ids.unresolved[&id].is_open(RETRY_AFTER, at(6.5)));
        assert!(ids.unresolved[&id].is_open(RETRY_AFTER, at(7.5)));
    }

    #[test]
    fn an_answer_that_was_delayed_by_a_fault_does_not_resolve_an_id() {
        let start = Instant::now();
        let mut ids = Ids::new(start);
        let id = Id::from("it");
        assert!(ids.resolve(&id, start));
        let at = |seconds| start + Duration::from_secs(seconds);
        let overdue = Duration::from_secs(5);
        ids.note_not_found(Kind::Container, &id, (at(0), at(0)), overdue);
        ids.note_not_found(Kind::Sandbox, &id, (at(0), at(14)), overdue);
        assert!(ids.unresolved[&id].is_open(RETRY_AFTER, at(14)));
    }
}
