//! How the guard handles lists now, and which stuck containers are the cause.

use std::sync::Arc;

use base::OutstandingCall;
use base::id::{Id, PodRef};
use tokio::time::Instant;

use super::lists::Lists;
use super::{Guard, Mode, Phase};
use crate::wire::Kind;

/// The label with the pod's UID, which a kubelet sets on each sandbox and container.
const POD_UID: &str = "io.kubernetes.pod.uid";

impl Guard {
    /// The time by which a kubelet had last received lists of both kinds, from the runtime or from the
    /// guard: the earlier of the times of the two kinds.
    pub fn listed(&self) -> Option<Instant> {
        self.of_both_lists(|lists| lists.served.listed)
    }

    /// When a kubelet last requested lists of both kinds, whether they were answered or not: the earlier
    /// of the times of the two kinds.
    pub fn last_requested(&self) -> Option<Instant> {
        self.of_both_lists(|lists| lists.served.requested)
    }

    fn of_both_lists(&self, time: impl Fn(&Lists) -> Option<Instant>) -> Option<Instant> {
        Some(time(&self.lists.sandboxes)?.min(time(&self.lists.containers)?))
    }

    /// How the guard handles lists now.
    pub fn phase(&self, now: Instant) -> Phase {
        match self.guarding_since() {
            _ if self.is_limit_reached() => Phase::LimitReached,
            Some(since) if self.is_unresponsive(now) => Phase::Unresponsive(since),
            Some(since) if self.lists.iter().any(|it| it.served.refuses()) => {
                Phase::Refusing(since)
            }
            Some(since) if self.has_answered(now) => Phase::Guarding(since),
            Some(since) => Phase::Waiting(since),
            None if self.refuses_unknown() => Phase::Refusing(self.started.0),
            None => Phase::Passing,
        }
    }

    /// The status calls that are stuck, with the names of pod and container if a row has them. The names
    /// of an id never change: a call that is in `known` is returned as it is there.
    pub fn stuck(&self, known: &[OutstandingCall]) -> Vec<OutstandingCall> {
        let stuck = self.prober.ledger.stuck(|_| true);
        let named = stuck.filter_map(|mut call| {
            let id = call.about.id.as_ref()?;
            let is_same =
                |it: &&OutstandingCall| it.about.id.as_ref() == Some(id) && it.since == call.since;
            if let Some(known) = known.iter().find(is_same) {
                return Some(known.clone());
            }
            if let Some((container, pod)) = self.name_of(id) {
                call.about.container = container;
                call.about.pod = Some(pod);
            }
            Some(call)
        });
        named.collect()
    }

    /// The pod of an id, and the container's name if the id is a container's.
    fn name_of(&self, id: &Id) -> Option<(Option<Arc<str>>, PodRef)> {
        let kinds = [Kind::Container, Kind::Sandbox].into_iter();
        let mut known = kinds.filter_map(|kind| Some((kind, &self.rows[kind].get(id)?.row)));
        let (kind, row) = known.next()?;
        let label = |key: &str| row.label(kind, key).map(Arc::from);
        let pod = PodRef {
            uid: row.label(kind, POD_UID)?.into(),
            namespace: label("io.kubernetes.pod.namespace")?,
            name: label("io.kubernetes.pod.name")?,
        };
        Some((label("io.kubernetes.container.name"), pod))
    }

    /// When the guard began to answer lists of at least one kind from the rows, if it still does.
    pub(super) fn guarding_since(&self) -> Option<Instant> {
        let lists = self.lists.iter();
        lists.filter_map(|lists| lists.state.guarding_since()).min()
    }

    /// Whether calls are outstanding, and none has been answered for so long that the ledger considers
    /// the runtime unresponsive.
    fn is_unresponsive(&self, now: Instant) -> bool {
        let ledger = &self.prober.ledger;
        let lists = self.lists.iter().filter_map(Lists::oldest);
        let lists = lists.filter(|requested| !ledger.has_answered_since(*requested));
        let since = lists.chain(ledger.unresponsive_since()).min();
        let since = since.map(|since| since.max(ledger.last_answer()));
        let limit = ledger.unresponsive_after(self.settings.list_overdue);
        since.is_some_and(|since| now >= since + limit)
    }

    /// Whether there has been no complete list of a kind yet, and the caller of its last list gave up.
    fn refuses_unknown(&self) -> bool {
        let mut kinds = Kind::BOTH.into_iter();
        let is_refused = |kind: Kind| {
            let was_refused = self.lists[kind].served.refuses_since_passed();
            self.rows[kind].complete_since().is_none() && was_refused
        };
        self.mode == Mode::Guard && kinds.any(is_refused)
    }

    /// Whether lists are answered from the rows: at least one was during this fault, and no caller has
    /// waited for longer than such an answer takes.
    fn has_answered(&self, now: Instant) -> bool {
        let mut lists = self.lists.iter();
        let keeps_waiting = |lists: &Lists| lists.keeps_waiting(&self.settings, now);
        lists.clone().any(Lists::has_answered) && !lists.any(keeps_waiting)
    }

    /// Whether the guard has answered during one fault for longer than the limit. If so, every call is
    /// passed on.
    pub(super) fn is_limit_reached(&self) -> bool {
        let mut lists = self.lists.iter();
        lists.any(|lists| lists.state.is_limit_reached())
    }
}
