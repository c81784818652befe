//! Passes over all pods. A pass begins with good lists or a complete sweep. It is over once each
//! pod that differed has been inspected, fails, or is stuck. A pass that observed at least one pod
//! becomes the [`Pass`] on which coverage rests.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::id::PodUid;
use crate::model::wall_time::Moment;
use crate::out::coverage::{Pass, PassKind};

/// The open pass, and what the completed ones observed.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    current: Option<OpenPass>,
    /// The newest of the passes that were requested while one was open.
    next: Option<Basis>,
    /// The beginning of the first pass that no completed pass by lists covers yet: it had to wait
    /// for the open pass, or it was abandoned.
    needed_since: Option<Instant>,
    /// How many passes observed at least one pod.
    completed: u64,
    last: Option<Pass>,
    /// The newest time as of which a pass by lists has completed. What is newer may be unobserved.
    listed: Option<Instant>,
}

/// What a pass rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    /// When the lists or the sweep were begun.
    pub(crate) begun: Moment,
    pub(crate) kind: PassKind,
    /// The newest inspection that was planned before the lists or the sweep were taken in.
    pub(crate) last_ticket_before: u64,
}

/// The pods that differ when a pass begins.
#[derive(Debug)]
pub(crate) struct Awaited {
    /// The pods that the pass still waits for.
    pub(crate) waiting: BTreeSet<PodUid>,
    /// The pods that the pass does not wait for, because they are reported. The pass does not
    /// observe them.
    pub(crate) given_up: BTreeSet<PodUid>,
}

#[derive(Debug)]
struct OpenPass {
    basis: Basis,
    /// When the pass began to wait. Its lists were requested earlier.
    started: Instant,
    pods: Awaited,
    /// How many pods the pass waited for at first, and whether one of them has been inspected or
    /// removed.
    awaited: usize,
    has_ended_one: bool,
}

/// How many of the pods that differ the open pass has observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) observed: usize,
    pub(crate) awaited: usize,
}

impl Passes {
    /// Begins a pass now, or after the open one. Replacing the open pass would be wrong: no pass
    /// would wait for the pods that differ in it.
    pub(crate) fn begin(&mut self, basis: Basis, now: Instant, pods: Awaited) {
        if self.current.is_some() {
            let is_newer = |next: Basis| next.begun.instant >= basis.begun.instant;
            if !self.next.is_some_and(is_newer) {
                self.next = Some(basis);
            }
            self.needed_since.get_or_insert(basis.begun.instant);
        } else {
            self.current = Some(OpenPass {
                basis,
                started: now,
                awaited: pods.waiting.len(),
                pods,
                has_ended_one: false,
            });
        }
    }

    /// Whether the open pass has given up each pod that it waited for.
    pub(crate) fn has_given_up_all(&self) -> bool {
        let pass = self.current.as_ref();
        pass.is_some_and(|pass| {
            pass.awaited > 0 && !pass.has_ended_one && pass.pods.waiting.is_empty()
        })
    }

    /// Whether the open pass has been waiting for this pod since `time` or longer.
    pub(crate) fn has_awaited(&self, uid: &PodUid, time: Option<Instant>) -> bool {
        let pass = self.current.as_ref();
        pass.is_some_and(|pass| Some(pass.started) <= time && pass.pods.waiting.contains(uid))
    }

    /// When the open pass will have waited for `duration`.
    pub(crate) fn waited_at(&self, duration: Duration) -> Option<Instant> {
        let pass = self.current.as_ref()?;
        (!pass.pods.waiting.is_empty()).then(|| pass.started + duration)
    }

    /// Gives up a pod that is reported: the open pass neither waits for it nor observes it.
    pub(crate) fn give_up(&mut self, uid: &PodUid) {
        if let Some(pass) = &mut self.current
            && pass.pods.waiting.remove(uid)
        {
            pass.pods.given_up.insert(uid.clone());
        }
    }

    /// The connection was lost: ends the open pass without an observation, and drops the next one.
    pub(crate) fn abandon(&mut self) {
        if let Some(pass) = self.current.take() {
            self.needed_since.get_or_insert(pass.basis.begun.instant);
        }
        self.next = None;
    }

    /// The next pass, if none is open.
    pub(crate) fn take_next(&mut self) -> Option<Basis> {
        self.next.take_if(|_| self.current.is_none())
    }

    /// Stops waiting for a pod that was inspected or removed.
    pub(crate) fn ended(&mut self, uid: &PodUid) {
        if let Some(pass) = &mut self.current {
            pass.has_ended_one |= pass.pods.waiting.remove(uid);
        }
    }

    /// Whether this inspection was planned after the lists of the open pass were taken in.
    pub(crate) fn is_newer(&self, ticket: u64) -> bool {
        let pass = self.current.as_ref();
        pass.is_none_or(|pass| ticket > pass.basis.last_ticket_before)
    }

    /// Ends the open pass if it [is over](Self::is_over). It observed pods as of its beginning, but
    /// no later than `observed`. Returns `None` if it observed no pod.
    pub(crate) fn complete(&mut self, now: Instant, observed: Option<Moment>) -> Option<Completed> {
        let open = self.current.take_if(|open| open.pods.waiting.is_empty())?;
        let observed = observed?;
        let Basis { begun, kind, .. } = open.basis;
        let took = now.duration_since(begun.instant);
        let begun = match observed.instant < begun.instant {
            true => observed,
            false => begun,
        };
        let mut pass = Pass { begun, took, kind };
        match self.last {
            // Lists that were delayed may complete after sweeps that began later. The time of the
            // last pass never decreases.
            Some(last) if last.begun.instant > pass.begun.instant => pass.begun = last.begun,
            _ => self.last = Some(pass),
        }
        self.completed += 1;
        if kind == PassKind::List {
            self.needed_since
                .take_if(|needed_since| *needed_since <= begun.instant);
            self.listed = self.listed.max(Some(begun.instant));
        }
        Some(Completed {
            pass,
            is_first: self.completed == 1,
            given_up: open.pods.given_up,
        })
    }

    /// Whether the open pass waits for no pod any more.
    pub(crate) fn is_over(&self) -> bool {
        let pass = self.current.as_ref();
        pass.is_some_and(|pass| pass.pods.waiting.is_empty())
    }

    /// Whether the open pass rests on lists or on a sweep.
    pub(crate) fn kind(&self) -> Option<PassKind> {
        self.current.as_ref().map(|pass| pass.basis.kind)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a pass is needed: an earlier pass is not covered by a completed one, or a sweep is
    /// not covered by later lists. What differed or was new then may be unobserved.
    pub(crate) fn needs_pass(&self) -> bool {
        self.needed_since.is_some() || self.swept_since_lists().is_some()
    }

    /// When the last sweep began, if that was after the newest lists by which a pass completed.
    pub(crate) fn swept_since_lists(&self) -> Option<Instant> {
        let last = self.last.map(|pass| pass.begun.instant);
        last.filter(|last| self.listed.is_none_or(|listed| *last > listed))
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        let pass = self.current.as_ref()?;
        Some(Progress {
            observed: pass.awaited - pass.pods.waiting.len(),
            awaited: pass.awaited,
        })
    }

    /// How many passes observed at least one pod.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// The last pass that observed at least one pod.
    pub(crate) fn last(&self) -> Option<Pass> {
        self.last
    }
}

/// A pass that is over and observed at least one pod.
#[derive(Clone, Debug)]
pub(crate) struct Completed {
    pub(crate) pass: Pass,
    pub(crate) is_first: bool,
    /// The pods that it did not observe.
    pub(crate) given_up: BTreeSet<PodUid>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wall_time::WallTime;

    fn begin(passes: &mut Passes, begun: Moment, waiting: &[&str]) {
        begin_as(PassKind::List, passes, begun, waiting);
    }

    fn begin_as(kind: PassKind, passes: &mut Passes, begun: Moment, waiting: &[&str]) {
        let waiting: BTreeSet<_> = waiting.iter().map(|uid| PodUid::from(*uid)).collect();
        let pods = Awaited {
            waiting,
            given_up: BTreeSet::new(),
        };
        let basis = Basis {
            begun,
            kind,
            last_ticket_before: 0,
        };
        passes.begin(basis, begun.instant, pods);
    }

    fn moments() -> [Moment; 3] {
        let first = Moment {
            instant: Instant::now(),
            wall: WallTime::from_unix_nanos(1_000_000_000).expect("a time"),
        };
        let after = |seconds| Moment {
            instant: first.instant + Duration::from_secs(seconds),
            ..first
        };
        [first, after(1), after(2)]
    }

    #[test]
    fn the_newest_pass_that_was_requested_during_another_follows_it() {
        let [first, second, third] = moments();
        let mut passes = Passes::default();
        begin(&mut passes, first, &["a"]);
        begin(&mut passes, third, &["b"]);
        begin(&mut passes, second, &["c"]);
        assert!(passes.take_next().is_none(), "one is open");
        passes.ended(&"a".into());
        let ended = passes.complete(third.instant, Some(third));
        assert!(ended.is_some());
        assert!(passes.needs_pass());
        let next = passes.take_next().map(|next| next.begun);
        assert_eq!(next.map(|begun| begun.instant), Some(third.instant));
        assert!(passes.take_next().is_none());
        begin(&mut passes, third, &["b"]);
        passes.ended(&"b".into());
        passes.complete(third.instant, Some(third));
        assert!(!passes.needs_pass());
    }

    #[test]
    fn a_pass_that_ended_with_the_connection_is_needed_until_another_completes() {
        let [first, second, third] = moments();
        let mut passes = Passes::default();
        passes.abandon();
        assert!(!passes.needs_pass(), "there was none");
        begin(&mut passes, first, &["a"]);
        passes.abandon();
        begin(&mut passes, second, &[]);
        assert!(passes.complete(second.instant, None).is_none());
        assert!(passes.needs_pass());
        begin(&mut passes, third, &[]);
        assert!(passes.complete(third.instant, Some(third)).is_some());
        assert!(!passes.needs_pass());
    }

    #[test]
    fn after_a_sweep_a_pass_is_needed_until_later_lists_complete_one() {
        let [first, second, third] = moments();
        let mut passes = Passes::default();
        begin_as(PassKind::Sweep, &mut passes, second, &[]);
        passes.complete(third.instant, Some(third));
        assert!(passes.needs_pass());
        // These lists were delayed.
        begin(&mut passes, first, &[]);
        passes.complete(third.instant, Some(third));
        assert!(passes.needs_pass());
        let last = passes.last().map(|pass| pass.begun.instant);
        assert_eq!(last, Some(second.instant), "it never becomes earlier");
        begin(&mut passes, third, &[]);
        passes.complete(third.instant, Some(third));
        assert!(!passes.needs_pass());
    }
}
