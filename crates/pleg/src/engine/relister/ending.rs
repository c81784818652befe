//! How a relist ends, and when the next one is due.

use std::time::Duration;

use tokio::time::Instant;

use super::open_relist::OpenRelist;
use super::{Listed, Relisted, Relister, State};
use crate::engine::call::List;
use crate::engine::limits::{CRASH_WITHIN, MAX_RETRY_PAUSE, SLOW_PAUSE_DIVISOR};
use crate::engine::list_history::{Pace, is_of_the_list};
use crate::out::kubelet_view::REQUEST_TIMEOUT;
use crate::runtime::grpc::MAX_MESSAGE_SIZE;
use crate::runtime::{CallError, NoConnection};

impl Relister {
    /// Ends the relist if both lists have ended. `is_lost` means that the connection of the last
    /// one was lost.
    pub(super) fn end(&mut self, is_lost: bool, now: Instant) -> Option<Relisted> {
        let State::OpenRelist(OpenRelist {
            begun,
            sandboxes: Some(sandboxes),
            containers: Some(containers),
            largest,
        }) = &self.state
        else {
            return None;
        };
        let (begun, largest) = (*begun, *largest);
        let (sandboxes, containers) = match (&sandboxes.rows, &containers.rows) {
            (Ok(sandboxes), Ok(containers)) => (sandboxes, containers),
            (one, other) => {
                // A list that has arrived beside a sweep does not fail any more.
                let failing = self.history.failing();
                let one = one.as_ref().err();
                let one = one.filter(|error| failing.sandboxes || !is_of_the_list(error));
                let other = other.as_ref().err();
                let other = other.filter(|error| failing.containers || !is_of_the_list(error));
                let errors = [one, other].into_iter().flatten().cloned();
                let (lost, others): (Vec<_>, Vec<_>) =
                    errors.partition(|error| matches!(error, CallError::Unavailable(_)));
                if lost.is_empty() {
                    self.losses.forget();
                }
                // What ended last is the current state.
                let (last, earlier) = match is_lost {
                    true => (lost, others),
                    false => (others, lost),
                };
                return match (last.first(), earlier.first()) {
                    (Some(error), _) => Some(self.failed(error.clone(), now)),
                    // The other list has shown since that there is a connection again.
                    (None, Some(_)) if !self.has_lost_one && self.losses.is_none() => {
                        Some(self.retry_lost_list(now))
                    }
                    (None, Some(error)) => Some(self.failed(error.clone(), now)),
                    (None, None) => Some(self.retry_at(now + self.period, now)),
                };
            }
        };
        let snapshot = self.grouping.update(begun.instant, sandboxes, containers);
        if snapshot.orphaned > self.orphaned {
            let orphaned = snapshot.orphaned;
            tracing::warn!("{orphaned} listed sandboxes or containers belong to no pod");
        }
        self.orphaned = snapshot.orphaned;
        self.no_runtime = None;
        self.has_lost_one = false;
        self.losses.forget();
        self.good.counts = snapshot.counts;
        self.good.before = self.good.last.replace(begun.instant);
        for list in [List::Sandboxes, List::Containers] {
            self.history.taken_in_as_of(list, begun.instant);
        }
        if largest <= MAX_MESSAGE_SIZE && self.history.longest() < REQUEST_TIMEOUT {
            self.good.for_kubelet = self.good.last;
        }
        Some(Relisted::Good(Listed {
            snapshot,
            begun,
            are_late: self.history.slowest().is_some(),
        }))
    }

    /// One list arrived after the connection of the other one was lost: both are requested again.
    pub(super) fn retry_lost_list(&mut self, now: Instant) -> Relisted {
        self.has_lost_one = true;
        self.forget_version();
        self.retry_at(now, now)
    }

    /// Ends a failed relist without judging the lists: the relist at `next` will show their state.
    pub(super) fn retry_at(&mut self, next: Instant, now: Instant) -> Relisted {
        let took = self.relist_took(now);
        self.no_runtime = None;
        self.wait_until(next, None);
        Relisted::Failed(took)
    }

    pub(super) fn relist_took(&self, now: Instant) -> Duration {
        match &self.state {
            State::OpenRelist(open_relist) => now.duration_since(open_relist.begun.instant),
            State::Waiting { .. } | State::AwaitingVersion => Duration::ZERO,
        }
    }

    pub(super) fn failed(&mut self, error: CallError, now: Instant) -> Relisted {
        let error = self.count_lost(error, now);
        // The next answer may be from another runtime.
        if matches!(
            error,
            CallError::Unavailable(_) | CallError::Unimplemented(_)
        ) {
            self.forget_version();
        }
        let mut pause = match error {
            // The runtime would produce it for nothing each time, at a high cost.
            CallError::TooLarge(_) => MAX_RETRY_PAUSE.max(self.period),
            _ => self.period.max(self.losses.pause()),
        };
        let is_of_a_list = is_of_the_list(&error) && !matches!(self.state, State::AwaitingVersion);
        if is_of_a_list {
            // The other list may have arrived, and late.
            self.history.relist_ended();
            pause = pause.max(self.history.slowest().unwrap_or_default() / SLOW_PAUSE_DIVISOR);
        }
        if !is_of_a_list && self.no_runtime.as_ref() != Some(&error) {
            tracing::debug!("unable to list: {error}");
        }
        self.no_runtime = (!is_of_a_list).then_some(error);
        self.failed_at = Some(now);
        let took = self.relist_took(now);
        self.wait_until(now + pause, None);
        Relisted::Failed(took)
    }

    /// Counts consecutive relists that soon lost their connection. If it cannot be chance, the
    /// error says which calls preceded the loss instead of how the connection ended.
    pub(super) fn count_lost(&mut self, error: CallError, now: Instant) -> CallError {
        let CallError::Unavailable(why) = &error else {
            return error;
        };
        if why.cause != NoConnection::Lost || self.relist_took(now) >= CRASH_WITHIN {
            return error;
        }
        self.losses.count();
        if !self.losses.is_no_chance() {
            return error;
        }
        let why = match self.state {
            State::AwaitingVersion => "the connection is lost each time Version is requested",
            State::Waiting { .. } | State::OpenRelist(_) => {
                "the connection is lost each time lists are requested"
            }
        };
        CallError::unavailable(NoConnection::Lost, why)
    }

    /// A good relist has been taken in. `period` is the usual pause before the next one.
    pub(crate) fn taken_in(&mut self, listed: &Listed, period: Duration, now: Instant) {
        let pause = match (self.history.slowest(), self.history.pace()) {
            (None, _) if !listed.are_late => period,
            // What happened while the lists were late is requested at once, but only one time.
            (None, _) | (Some(_), Pace::Quick) => Duration::ZERO,
            // With a trusted stream `period` may be long, but a slow list is retried after its own
            // duration.
            (Some(took), Pace::Late | Pace::Slow) => period
                .min(self.period.max(took))
                .max(took / SLOW_PAUSE_DIVISOR),
        };
        self.history.relist_ended();
        self.wait_until(now + pause, Some(listed.begun.instant));
    }

    pub(super) fn wait_until(&mut self, next: Instant, begun: Option<Instant>) {
        let requested = self.requested.take();
        let requested = requested.filter(|after| begun.is_none_or(|begun| *after > begun));
        let wanted = [Some(next), requested, self.hurried.take()];
        let due = wanted.into_iter().flatten().min().unwrap_or(next);
        self.state = State::Waiting { due };
    }
}
