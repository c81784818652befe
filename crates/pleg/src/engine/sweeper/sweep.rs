//! One sweep: which ids it requests, which answers it waits for, and what it has observed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use crate::engine::call::{Call, Key, List, Purpose, Request};
use crate::engine::limits::{
    MAX_LIST_OVERDUE, MAX_STATUS_OVERDUE, PARALLEL_CALLS, SLOW_AFTER, SLOW_PAUSE_DIVISOR,
    SWEEP_PACE,
};
use crate::engine::lists::PerList;
use crate::model::id::PodUid;
use crate::model::listed::ListedPod;
use crate::model::wall_time::Moment;
use crate::runtime::About;

/// The call of a sweep about one container or sandbox.
pub(super) type Target = (Call, About);

/// The call about an id of this pod; `None` for an id that only the host or the stream knows.
pub(super) fn target(request: Request, pod: Option<&ListedPod>) -> Target {
    let about = match pod {
        Some(pod) => request.about_in(pod),
        None => request.about(None, None),
    };
    let purpose = Purpose::Sweep(pod.map(|pod| pod.pod.uid.clone()));
    (Call { request, purpose }, about)
}

#[derive(Debug)]
pub(super) struct Sweep {
    begun: Moment,
    /// The time as of which the result holds: an id may have been requested before the sweep began.
    as_of: Instant,
    /// The lists that this sweep replaces.
    missing: PerList<bool>,
    targets: VecDeque<Target>,
    /// The requested ids, and when each was requested.
    waiting: BTreeMap<Key, Instant>,
    answered: usize,
    /// Whether the status of each sandbox is requested and contains its containers.
    requests_sandboxes: bool,
    /// The lists that were answered meanwhile.
    listed: PerList<bool>,
    /// The pods with an id that was answered.
    known: BTreeSet<PodUid>,
    /// The pods with an id that got its first `NotFound`.
    not_found: BTreeSet<PodUid>,
    /// The pods with an id whose call failed.
    failed: BTreeSet<PodUid>,
    /// When the next call may be sent.
    next: Instant,
    /// The pause between two calls: the shortest one, and the current one, which grows while
    /// answers are slow.
    shortest_pause: Duration,
    pause: Duration,
    /// The longest pause that leaves time for all ids.
    longest_pause: Duration,
    /// Whether its result was returned.
    is_reported: bool,
}

/// The result of a call about one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The status, or the second `NotFound`.
    Known,
    /// The first `NotFound`, which may be a mistake.
    FirstNotFound,
    /// An error, which shows nothing about the id.
    Failed,
}

/// The outstanding call about an id, which another component may have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherCall {
    None,
    /// It was sent at this time, and its answer serves the sweep too.
    Serves(Instant),
    /// Its answer does not show the state of the id: it is a call for a PID, for example.
    Unrelated,
    /// It is reported, and the sweep does not wait for it.
    Stuck,
}

impl OtherCall {
    fn of(key: &Key, ledger: &Ledger) -> Self {
        match ledger.wanted_since(key) {
            None => Self::None,
            Some(_) if ledger.is_stuck(key) => Self::Stuck,
            Some(since) if ledger.is_observation(key) => Self::Serves(since),
            Some(_) => Self::Unrelated,
        }
    }
}

/// The result of a complete sweep.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) begun: Moment,
    /// The pods with an id whose call failed or got its first `NotFound`.
    pub(crate) unobserved: BTreeSet<PodUid>,
    /// The unobserved pods with at least one answered id and no failed one.
    pub(crate) partly_observed: BTreeSet<PodUid>,
    /// Whether sandboxes were listed meanwhile, so that new pods were observed.
    pub(crate) sandboxes_listed: bool,
    /// Whether new containers were observed, in lists or in their sandboxes.
    pub(crate) sees_new_containers: bool,
}

impl Sweep {
    /// A sweep over these targets. It is paced more slowly if lists are answered but `slow` each
    /// time.
    pub(super) fn begin(
        missing: PerList<bool>,
        requests_sandboxes: bool,
        mut targets: VecDeque<Target>,
        slow: bool,
        ledger: &Ledger,
        now: Moment,
    ) -> Self {
        let mut waiting = BTreeMap::new();
        let mut failed = BTreeSet::new();
        targets.retain(|(call, about)| {
            let key = call.request.key();
            match OtherCall::of(&key, ledger) {
                OtherCall::None | OtherCall::Unrelated => true,
                OtherCall::Serves(since) => {
                    waiting.insert(key, since);
                    false
                }
                // The outstanding call may yet be answered, but with a state from before this
                // sweep.
                OtherCall::Stuck => {
                    failed.extend(about.pod.as_ref().map(|pod| pod.uid.clone()));
                    false
                }
            }
        });
        let shortest_pause = match slow {
            true => SWEEP_PACE * PARALLEL_CALLS as u32,
            false => SWEEP_PACE,
        };
        let all = u32::try_from(targets.len()).unwrap_or(u32::MAX).max(1);
        Self {
            begun: now,
            as_of: now.instant,
            missing,
            targets,
            waiting,
            answered: 0,
            requests_sandboxes,
            listed: PerList::default(),
            known: BTreeSet::new(),
            not_found: BTreeSet::new(),
            failed,
            next: now.instant,
            shortest_pause,
            pause: shortest_pause,
            longest_pause: (MAX_LIST_OVERDUE / all).clamp(shortest_pause, SLOW_AFTER),
            is_reported: false,
        }
    }

    /// Whether it replaces all lists that are missing.
    pub(super) fn covers(&self, missing: PerList<bool>) -> bool {
        self.missing.covers(missing)
    }

    /// Whether it has waited long enough for the last answers.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now >= self.begun.instant + MAX_STATUS_OVERDUE
    }

    /// A list that was requested at `requested` was answered. One that was requested before the sweep
    /// does not show what is new.
    pub(super) fn list_answered(&mut self, list: List, requested: Instant) {
        if requested >= self.begun.instant {
            self.answered += 1;
            self.listed[list] = true;
        }
    }

    /// The runtime may be another one: from now on, sandboxes are not relied on to show their
    /// containers.
    pub(super) fn runtime_changed(&mut self) {
        self.requests_sandboxes = false;
    }

    /// When the next call is due. `None` until an answer arrives: no target can be requested now, the
    /// ledger has no room, or nothing is answered.
    pub(super) fn due(&self, ledger: &Ledger) -> Option<Instant> {
        if self.next_target(ledger).is_none() || !ledger.has_room() {
            return None;
        }
        let mut requested: Vec<Instant> = self.waiting.values().copied().collect();
        requested.sort_unstable();
        match requested.len().checked_sub(PARALLEL_CALLS) {
            None => Some(self.next),
            Some(_) if self.answered == 0 && !ledger.has_answered_since(self.begun.instant) => None,
            // Slow calls give up their place. The next call may be sent once fewer than
            // `PARALLEL_CALLS` calls are not slow.
            Some(slow) => Some(self.next.max(requested[slow] + self.slow_after())),
        }
    }

    /// The time after which a call gives up its place.
    fn slow_after(&self) -> Duration {
        SLOW_AFTER.min(self.longest_pause * PARALLEL_CALLS as u32)
    }

    /// The first target that can be requested now. A target is skipped while an unrelated call about its
    /// id is outstanding, and is requested after that call ends.
    fn next_target(&self, ledger: &Ledger) -> Option<usize> {
        let mut targets = self.targets.iter();
        targets.position(|(call, _)| {
            OtherCall::of(&call.request.key(), ledger) != OtherCall::Unrelated
        })
    }

    pub(super) fn take(&mut self, ledger: &Ledger, now: Instant) -> Option<Target> {
        while self.due(ledger).is_some_and(|due| now >= due) {
            let (call, about) = self.targets.remove(self.next_target(ledger)?)?;
            let key = call.request.key();
            // Another component may have requested it meanwhile.
            match OtherCall::of(&key, ledger) {
                OtherCall::None => {
                    self.next = now + self.pause;
                    self.waiting.insert(key, now);
                    return Some((call, about));
                }
                OtherCall::Serves(since) => {
                    self.waiting.insert(key, since);
                }
                OtherCall::Stuck => self.failed.extend(about.pod.map(|pod| pod.uid)),
                OtherCall::Unrelated => {}
            }
        }
        None
    }

    /// A call that this sweep may be waiting for has ended, whichever component had sent it. The pace
    /// follows the time that the answer took.
    pub(super) fn ended(
        &mut self,
        key: &Key,
        uid: Option<&PodUid>,
        outcome: Outcome,
        now: Instant,
    ) {
        let Some(requested) = self.waiting.remove(key) else {
            return;
        };
        let pods = match outcome {
            Outcome::Known => &mut self.known,
            Outcome::FirstNotFound => &mut self.not_found,
            Outcome::Failed => &mut self.failed,
        };
        pods.extend(uid.cloned());
        if outcome == Outcome::Known {
            self.answered += 1;
            self.as_of = requested.min(self.as_of);
            let pause = now.duration_since(requested) / SLOW_PAUSE_DIVISOR;
            self.pause = pause.clamp(self.shortest_pause, self.longest_pause);
        }
    }

    /// Whether a target can be requested now. A target that waits for another call does not count,
    /// because a stuck call would then block all sweeps.
    pub(super) fn has_target(&self, ledger: &Ledger) -> bool {
        self.next_target(ledger).is_some()
    }

    /// Whether targets are left, the other list is awaited, or a call may still be answered.
    pub(super) fn is_waiting(&self, ledger: &Ledger) -> bool {
        !self.targets.is_empty()
            || List::BOTH.into_iter().any(|list| self.is_waiting_for(list))
            || self.waiting.keys().any(|key| !ledger.is_stuck(key))
    }

    /// Whether it waits for this list, which was not missing when it began.
    pub(super) fn is_waiting_for(&self, list: List) -> bool {
        self.missing.of_the_other().single() == Some(list) && !self.listed[list]
    }

    pub(super) fn complete(&mut self, ledger: &Ledger) -> Option<Swept> {
        if self.is_reported || self.is_waiting(ledger) || self.answered == 0 {
            return None;
        }
        self.is_reported = true;
        let failed = std::mem::take(&mut self.failed);
        let not_found = std::mem::take(&mut self.not_found);
        let partly_observed = &(&not_found & &self.known) - &failed;
        Some(Swept {
            begun: self.begun.back_at(self.as_of),
            unobserved: &failed | &not_found,
            partly_observed,
            sandboxes_listed: self.listed.sandboxes,
            sees_new_containers: !self.missing.containers || self.requests_sandboxes,
        })
    }
}
