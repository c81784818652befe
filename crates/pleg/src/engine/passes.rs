//! One round of seeing every pod: begun with good lists or a complete sweep, over once each
//! pod that differed was inspected, fails, or is named as stuck. A round by which somebody
//! was seen becomes the [`Pass`] that all else goes by.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::id::PodUid;
use crate::model::wall_time::Moment;
use crate::out::coverage::{Pass, PassKind};

/// The round under way, and what the completed ones amount to.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    current: Option<OpenPass>,
    /// The newest that was to begin meanwhile.
    next: Option<Next>,
    /// When the first was begun that no look covers since: it waited for another one to end, or ended
    /// without a look.
    owed: Option<Instant>,
    /// How many looks there were in which somebody was seen.
    completed: u64,
    last: Option<Pass>,
    /// When the lists were asked for that a look went by: what is new since may not be seen.
    listed: Option<Instant>,
}

/// A round that begins once the one before it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) begun: Moment,
    pub(crate) kind: PassKind,
    pub(crate) older: u64,
}

/// The pods that differ when a round begins.
pub(crate) struct Awaited {
    pub(crate) waiting: BTreeSet<PodUid>,
    /// Those that are named already.
    pub(crate) given_up: BTreeSet<PodUid>,
    /// All that are waited for have failed before.
    pub(crate) all_fail: bool,
}

#[derive(Debug)]
struct OpenPass {
    /// When it was begun to wait; what it goes by was asked for earlier.
    started: Instant,
    begun: Moment,
    kind: PassKind,
    waiting: BTreeSet<PodUid>,
    /// Those that are not waited for, because they are named: the look does not see them.
    given_up: BTreeSet<PodUid>,
    /// The newest inspection that was planned without knowing what the round began with.
    older: u64,
    /// How many were waited for, and whether any of them came to an end.
    of: usize,
    has_ended_one: bool,
    /// All of them had failed before.
    all_fail: bool,
}

/// How far the round under way has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) seen: usize,
    pub(crate) of: usize,
}

impl Passes {
    /// Begins a round; if one is under way, after it: otherwise what differs since would be waited for
    /// by none.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        begun: Moment,
        kind: PassKind,
        older: u64,
        pods: impl FnOnce() -> Awaited,
    ) {
        if self.current.is_some() {
            let is_newer = |next: &Next| next.begun.instant >= begun.instant;
            if !self.next.as_ref().is_some_and(is_newer) {
                self.next = Some(Next { begun, kind, older });
            }
            self.owed.get_or_insert(begun.instant);
        } else {
            let Awaited {
                waiting,
                given_up,
                all_fail,
            } = pods();
            self.current = Some(OpenPass {
                started: now,
                begun,
                kind,
                older,
                of: waiting.len(),
                all_fail,
                has_ended_one: false,
                waiting,
                given_up,
            });
        }
    }

    /// Whether the round has given up whomever it has waited for, and not only those that fail anyway.
    pub(crate) fn has_given_up_all(&self) -> bool {
        let pass = self.current.as_ref();
        pass.is_some_and(|pass| {
            let gave_up = pass.of > 0 && !pass.has_ended_one && pass.waiting.is_empty();
            gave_up && !pass.all_fail
        })
    }

    /// Those for whom the round has waited since then, or for longer.
    pub(crate) fn awaited_since(&self, time: Option<Instant>) -> Vec<PodUid> {
        let pass = self.current.as_ref();
        let pass = pass.filter(|pass| Some(pass.started) <= time);
        pass.map_or_else(Vec::new, |pass| pass.waiting.iter().cloned().collect())
    }

    /// When it has waited for so long.
    pub(crate) fn awaited_until(&self, time: Duration) -> Option<Instant> {
        let pass = self.current.as_ref()?;
        (!pass.waiting.is_empty()).then(|| pass.started + time)
    }

    /// The pod is named: nobody waits for its inspection, and the look does not see it.
    pub(crate) fn give_up(&mut self, uid: &PodUid) {
        if let Some(pass) = &mut self.current
            && pass.waiting.remove(uid)
        {
            pass.given_up.insert(uid.clone());
        }
    }

    /// The connection was lost: whoever has not answered yet is not seen by this round, which
    /// ends without a look.
    pub(crate) fn give_up_all(&mut self) {
        if let Some(pass) = self.current.take() {
            self.owed.get_or_insert(pass.begun.instant);
        }
        self.next = None;
    }

    /// The round that is to begin now.
    pub(crate) fn take_next(&mut self) -> Option<Next> {
        self.next.take_if(|_| self.current.is_none())
    }

    /// The pod was inspected, or is gone.
    pub(crate) fn ended(&mut self, uid: &PodUid) {
        if let Some(pass) = &mut self.current {
            pass.has_ended_one |= pass.waiting.remove(uid);
        }
    }

    /// Whether this inspection was planned knowing what the round began with.
    pub(crate) fn is_newer(&self, inspection: u64) -> bool {
        let pass = self.current.as_ref();
        pass.is_none_or(|pass| inspection > pass.older)
    }

    /// Ends the round if no pod is waited for any more. It is a look if somebody was `seen`, as of
    /// this moment at the latest.
    pub(crate) fn complete(&mut self, now: Instant, seen: Option<Moment>) -> Ended {
        let Some(open) = self.current.take_if(|open| open.waiting.is_empty()) else {
            return Ended::Nothing;
        };
        let Some(seen) = seen else {
            return Ended::Blind;
        };
        let begun = match seen.instant < open.begun.instant {
            true => seen,
            false => open.begun,
        };
        let mut pass = Pass {
            begun,
            took: now.duration_since(open.begun.instant),
            kind: open.kind,
        };
        match self.last {
            // Lists that were held up end after sweeps that were begun later.
            Some(last) if last.begun.instant > pass.begun.instant => pass.begun = last.begun,
            _ => self.last = Some(pass),
        }
        self.completed += 1;
        if open.kind == PassKind::List {
            self.owed.take_if(|owed| *owed <= begun.instant);
            self.listed = self.listed.max(Some(begun.instant));
        }
        Ended::Pass {
            pass,
            first: self.completed == 1,
            given_up: open.given_up,
        }
    }

    /// Whether a round is under way in which nobody is waited for any more.
    pub(crate) fn is_over(&self) -> bool {
        let pass = self.current.as_ref();
        pass.is_some_and(|pass| pass.waiting.is_empty())
    }

    /// What the round under way goes by.
    pub(crate) fn kind(&self) -> Option<PassKind> {
        self.current.as_ref().map(|pass| pass.kind)
    }

    /// Whether a round is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Whether there was a round that no look covers yet, or a sweep no lists: what differed or was
    /// new then may not be seen.
    pub(crate) fn owes_a_pass(&self) -> bool {
        self.owed.is_some() || self.swept_since_lists().is_some()
    }

    /// When the last sweep was begun, if that was after the lists that a look went by.
    pub(crate) fn swept_since_lists(&self) -> Option<Instant> {
        let last = self.last.map(|pass| pass.begun.instant);
        last.filter(|last| self.listed.is_none_or(|listed| *last > listed))
    }

    /// How far the round under way has come.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let pass = self.current.as_ref()?;
        Some(Progress {
            seen: pass.of - pass.waiting.len(),
            of: pass.of,
        })
    }

    /// How many looks there were.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// The last look.
    pub(crate) fn last(&self) -> Option<Pass> {
        self.last
    }
}

/// What became of a round.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// It goes on, or there was none.
    Nothing,
    /// Nobody was seen by it.
    Blind,
    /// It is a look, perhaps the first one.
    Pass {
        pass: Pass,
        first: bool,
        /// The pods that it does not see.
        given_up: BTreeSet<PodUid>,
    },
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
        let pods = || Awaited {
            waiting,
            given_up: BTreeSet::new(),
            all_fail: false,
        };
        passes.begin(begun.instant, begun, kind, 0, pods);
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
    fn of_the_rounds_that_are_to_begin_during_another_the_newest_comes_after_it() {
        let [first, second, third] = moments();
        let mut passes = Passes::default();
        begin(&mut passes, first, &["a"]);
        begin(&mut passes, third, &["b"]);
        begin(&mut passes, second, &["c"]);
        assert!(passes.take_next().is_none(), "one is under way");
        passes.ended(&"a".into());
        let ended = passes.complete(third.instant, Some(third));
        assert!(matches!(ended, Ended::Pass { .. }));
        assert!(passes.owes_a_pass());
        let next = passes.take_next().map(|next| next.begun);
        assert_eq!(next.map(|begun| begun.instant), Some(third.instant));
        assert!(passes.take_next().is_none());
        begin(&mut passes, third, &["b"]);
        passes.ended(&"b".into());
        passes.complete(third.instant, Some(third));
        assert!(!passes.owes_a_pass());
    }

    #[test]
    fn a_round_that_a_lost_connection_ends_is_missing_until_another_is_a_look() {
        let [first, second, third] = moments();
        let mut passes = Passes::default();
        passes.give_up_all();
        assert!(!passes.owes_a_pass(), "there was none");
        begin(&mut passes, first, &["a"]);
        passes.give_up_all();
        begin(&mut passes, second, &[]);
        assert!(matches!(
            passes.complete(second.instant, None),
            Ended::Blind
        ));
        assert!(passes.owes_a_pass());
        begin(&mut passes, third, &[]);
        assert!(matches!(
            passes.complete(third.instant, Some(third)),
            Ended::Pass { .. }
        ));
        assert!(!passes.owes_a_pass());
    }

    #[test]
    fn what_is_new_since_a_sweep_is_missing_until_lists_were_asked_for_after_it() {
        let [first, second, third] = moments();
        let mut passes = Passes::default();
        begin_as(PassKind::Sweep, &mut passes, second, &[]);
        passes.complete(third.instant, Some(third));
        assert!(passes.owes_a_pass());
        // These were held up.
        begin(&mut passes, first, &[]);
        passes.complete(third.instant, Some(third));
        assert!(passes.owes_a_pass());
        let seen = passes.last().map(|pass| pass.begun.instant);
        assert_eq!(seen, Some(second.instant), "it never becomes older");
        begin(&mut passes, third, &[]);
        passes.complete(third.instant, Some(third));
        assert!(!passes.owes_a_pass());
    }
}
