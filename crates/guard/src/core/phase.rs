//! What is done for lists now, and whom that is because of.

use std::sync::Arc;

use base::OutstandingCall;
use base::id::{Id, PodRef};
use tokio::time::Instant;

use super::lists::Lists;
use super::{Guard, Mode, Phase};
use crate::wire::Kind;

/// The label that a kubelet gives to all that is of a pod.
const POD_UID: &str = "io.kubernetes.pod.uid";

impl Guard {
    /// When a kubelet was last told lists of both kinds, by whomever.
    pub fn listed(&self) -> Option<Instant> {
        self.of_both_lists(|lists| lists.told.listed)
    }

    /// When a kubelet last asked for lists of both kinds, whether they were answered or not.
    pub fn asked(&self) -> Option<Instant> {
        self.of_both_lists(|lists| lists.told.asked)
    }

    fn of_both_lists(&self, time: impl Fn(&Lists) -> Option<Instant>) -> Option<Instant> {
        let [sandboxes, containers] = &self.lists;
        Some(time(sandboxes)?.min(time(containers)?))
    }

    /// What is done for lists now.
    pub fn phase(&self, now: Instant) -> Phase {
        match self.guarding_since() {
            _ if self.is_given_up() => Phase::GivenUp,
            Some(since) if self.is_silent(now) => Phase::Silent { since },
            Some(since) if self.lists.iter().any(Lists::refuses) => Phase::Refusing { since },
            Some(since) if self.has_answered(now) => Phase::Guarding { since },
            Some(since) => Phase::Waiting { since },
            None if self.refuses_unknown() => {
                let (since, _) = self.started;
                Phase::Refusing { since }
            }
            None => Phase::Passing,
        }
    }

    /// The statuses that are stuck, named as far as the rows tell. The names of an id never
    /// change: those of calls that are `known` are not read again.
    pub fn stuck(&self, known: &[OutstandingCall]) -> Vec<OutstandingCall> {
        let stuck = self.prober.ledger.stuck(|_| true);
        let named = stuck.filter(|call| call.about.id.is_some()).map(|call| {
            let mut known = known.iter();
            let known = known.find(|known| known.about.id == call.about.id);
            match known.filter(|known| known.since == call.since) {
                Some(known) => known.clone(),
                None => self.named(call),
            }
        });
        named.collect()
    }

    fn named(&self, mut call: OutstandingCall) -> OutstandingCall {
        let name = call.about.id.as_ref().and_then(|id| self.name_of(id));
        if let Some((container, pod)) = name {
            call.about.container = container;
            call.about.pod = Some(pod);
        }
        call
    }

    /// A container's name, if it is one's, and its pod.
    fn name_of(&self, id: &Id) -> Option<(Option<Arc<str>>, PodRef)> {
        let kinds = [Kind::Container, Kind::Sandbox].into_iter();
        let mut known = kinds.filter_map(|kind| Some((kind, &self.rows(kind).get(id)?.row)));
        let (kind, row) = known.next()?;
        let label = |key: &str| row.label(kind, key).map(Arc::from);
        let pod = PodRef {
            uid: row.label(kind, POD_UID)?.into(),
            namespace: label("io.kubernetes.pod.namespace")?,
            name: label("io.kubernetes.pod.name")?,
        };
        Some((label("io.kubernetes.container.name"), pod))
    }

    /// Since when a list is answered from the rows, if one is.
    pub(super) fn guarding_since(&self) -> Option<Instant> {
        let since = self.lists.iter().filter_map(Lists::guarding_since);
        since.min()
    }

    /// Whether no call at all has been answered for as long as a list may take.
    fn is_silent(&self, now: Instant) -> bool {
        let ledger = &self.prober.ledger;
        let lists = self.lists.iter().filter_map(Lists::oldest);
        let lists = lists.filter(|asked| !ledger.has_answered_since(*asked));
        let since = lists.chain(ledger.unresponsive_since()).min();
        let since = since.map(|since| since.max(ledger.last_answer()));
        let long = ledger.unresponsive_after(self.settings.list_overdue);
        since.is_some_and(|since| now >= since + long)
    }

    /// Whether the last list of a kind of which none was ever seen was refused.
    fn refuses_unknown(&self) -> bool {
        let mut kinds = [Kind::Sandbox, Kind::Container].into_iter();
        let is_refused = |kind: Kind| {
            let was_refused = self.lists[kind as usize].refuses_since_passed();
            self.rows(kind).complete_since().is_none() && was_refused
        };
        self.mode == Mode::Guard && kinds.any(is_refused)
    }

    /// Whether lists are answered from the rows: one was since this fault, and nobody waits for
    /// longer than that takes.
    fn has_answered(&self, now: Instant) -> bool {
        let mut lists = self.lists.iter();
        let keeps_waiting = |lists: &Lists| lists.keeps_waiting(&self.settings, now);
        lists.clone().any(Lists::has_answered) && !lists.any(keeps_waiting)
    }

    /// Whether one fault was guarded for longer than the limit: everything passes.
    pub(super) fn is_given_up(&self) -> bool {
        self.lists.iter().any(Lists::is_given_up)
    }
}
