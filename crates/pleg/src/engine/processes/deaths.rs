//! Processes that have ended, and whether the runtime reports their end.

use base::ledger::Ledger;
use tokio::time::Instant;

use super::{Processes, State};
use crate::engine::call::{Call, Purpose, Request};
use crate::engine::limits::{MAX_STATUS_OVERDUE, SETTLED_AFTER, SLOW_AFTER};
use crate::model::id::{Id, PodRef, PodUid};
use crate::out::coverage::Failing;
use crate::out::failure::InspectError;
use crate::runtime::About;

impl Processes {
    /// The next status call after an exit, if one is due.
    pub(crate) fn next_death(&self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        if !ledger.has_room() {
            return None;
        }
        self.dead.iter().find_map(|id| {
            let watch = self.watches.get(id)?;
            let request = Request::Container(id.clone());
            let is_due = matches!(watch.state, State::Dead { next, .. } if now >= next);
            let is_free = || !ledger.is_outstanding(&request.key());
            (is_due && is_free()).then(|| watch.call(request, Purpose::Death))
        })
    }

    /// Takes in the end of the process of a container. Returns the pod if the runtime no longer lists the
    /// container.
    pub(crate) fn on_death(&mut self, id: &Id, now: Instant) -> Option<PodUid> {
        if self.unlisted.contains_key(id) {
            let pod = self.watches.get(id).map(|watch| watch.pod.uid.clone());
            self.forget(id);
            return pod;
        }
        if let Some(&State::Live { pid }) = self.state(id) {
            self.enter(id, State::dead(pid, now));
        }
        None
    }

    /// Takes in the answer to a status call after an exit. `runs` is whether it shows the container as
    /// running; `None` if the call failed. Returns the pod once the runtime reports the exit.
    pub(crate) fn on_death_status(
        &mut self,
        id: &Id,
        runs: Option<bool>,
        now: Instant,
    ) -> Option<PodRef> {
        let watch = self.watches.get_mut(id)?;
        let State::Dead {
            since,
            next,
            pause,
            is_denied,
            ..
        } = &mut watch.state
        else {
            return None;
        };
        if runs == Some(false) {
            let pod = watch.pod.clone();
            self.forget(id);
            return Some(pod);
        }
        *is_denied |= runs == Some(true);
        let contradicts = now >= *since + SETTLED_AFTER;
        *pause = match contradicts {
            true => MAX_STATUS_OVERDUE,
            false => (*pause * 3 / 2).min(SLOW_AFTER),
        };
        *next = now + *pause;
        if contradicts && runs == Some(true) {
            self.wanted.insert((now, id.clone()));
        }
        None
    }

    /// Whether the process of the container had ended by this time, so that a runtime that reports it
    /// as running contradicts the kernel.
    pub(crate) fn was_dead(&self, id: &Id, time: Instant) -> bool {
        matches!(self.state(id), Some(State::Dead { since, .. }) if *since < time)
    }

    /// The containers whose process has been dead for [`SETTLED_AFTER`] although the runtime reports
    /// them as running.
    pub(crate) fn contradictions(&self, now: Instant) -> impl Iterator<Item = Failing> {
        let dead = self.dead.iter();
        let dead = dead.filter_map(|id| Some((id, self.watches.get(id)?)));
        dead.filter_map(move |(id, watch)| match watch.state {
            State::Dead {
                since,
                is_denied: true,
                ..
            } if now >= since + SETTLED_AFTER => {
                let error = InspectError::Contradicted { id: id.clone() };
                Some(watch.failing(id, error, since))
            }
            _ => None,
        })
    }

    /// The containers whose process has run for [`SETTLED_AFTER`] although the runtime does not list
    /// them.
    pub(crate) fn unlisted(&self, now: Instant) -> impl Iterator<Item = Failing> {
        let unlisted = self.unlisted.iter();
        let unlisted = unlisted.filter(move |(_, since)| now >= **since + SETTLED_AFTER);
        unlisted.filter_map(|(id, since)| {
            let error = InspectError::Unlisted { id: id.clone() };
            Some(self.watches.get(id)?.failing(id, error, *since))
        })
    }

    /// The containers whose process has ended although the runtime does not report it, with their
    /// pods.
    pub(crate) fn dead(&self) -> impl Iterator<Item = (&Id, &PodRef)> {
        let dead = self.dead.iter();
        dead.filter_map(|id| Some((id, &self.watches.get(id)?.pod)))
    }
}
