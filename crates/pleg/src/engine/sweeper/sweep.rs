//! One sweep: whom it asks, for whom it waits, and what it has seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::super::limits::{LONGEST_LIST, LONGEST_STATUS, PACE, SIDE_BY_SIDE, SLOW, SLOW_PACE};
use crate::engine::call::{Call, Key, List, Purpose, Question};
use crate::engine::lists::Missing;
use crate::model::id::PodUid;
use crate::model::wall_time::Moment;
use crate::runtime::About;

/// A container or sandbox to ask for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Its pod; `None` for an id that only the host knows.
    pub(super) uid: Option<PodUid>,
    pub(super) question: Question,
    pub(super) about: About,
}

impl Target {
    pub(super) fn into_call(self) -> (Call, About) {
        let call = Call {
            question: self.question,
            purpose: Purpose::Sweep(self.uid),
        };
        (call, self.about)
    }
}

/// One sweep.
#[derive(Debug)]
pub(super) struct Sweep {
    begun: Moment,
    /// As of when all is that it heard: somebody may have been asked before it was begun.
    as_of: Instant,
    missing: Missing,
    targets: VecDeque<Target>,
    /// Asked for, and since when.
    waiting: BTreeMap<Key, Instant>,
    answered: usize,
    /// All sandboxes that may tell containers are asked for, as the runtime was known to tell them.
    asks_sandboxes: bool,
    /// How it is with the list that is asked for beside it.
    beside: Beside,
    /// The pods of which an id was answered well, was not found, or failed, or could not be asked
    /// for.
    known: BTreeSet<PodUid>,
    lost: BTreeSet<PodUid>,
    failed: BTreeSet<PodUid>,
    /// When the next may be asked for.
    next: Instant,
    /// The pause between two calls, and the present one, longer if answers are slow.
    usual: Duration,
    pace: Duration,
    /// The longest pause that leaves time for all.
    longest: Duration,
    /// It was complete, and that was told.
    told: bool,
}

/// What was heard of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Its status, or again that there is none.
    Known,
    /// That it does not exist, which may be a mistake.
    Lost,
    /// An error, which says nothing of it.
    Nothing,
}

/// How it is with an id that somebody else may be asking for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    NotAsked,
    /// That tells the sweep too; it is not asked again.
    Asked(Instant),
    /// For something that does not tell how it is, as its pid.
    AskedOther,
    /// It is named, and not waited for.
    Stuck,
}

impl Elsewhere {
    fn of(key: &Key, ledger: &Ledger) -> Self {
        match ledger.asked(key) {
            None => Self::NotAsked,
            Some(_) if ledger.is_stuck(key) => Self::Stuck,
            Some(since) if ledger.is_look(key) => Self::Asked(since),
            Some(_) => Self::AskedOther,
        }
    }
}

/// The list that is not missing, or that is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// None is asked for, or it failed again.
    None,
    /// It is to be asked for, once it is not being asked for by a relist.
    Due(List),
    /// It has not come yet.
    Asked(List),
    Listed(List),
}

/// A complete sweep.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) begun: Moment,
    /// The pods of which an id failed, or was not found for the first time.
    pub(crate) unseen: BTreeSet<PodUid>,
    /// Those of them of which nothing failed, and other ids are known.
    pub(crate) partly: BTreeSet<PodUid>,
    /// Whether sandboxes were listed meanwhile, so that new pods were seen.
    pub(crate) sandboxes_listed: bool,
    /// Whether new containers were seen, in lists or in their sandboxes.
    pub(crate) sees_new_containers: bool,
}

impl Sweep {
    /// One that asks for nobody yet, beside a list that is tried again or that is not missing.
    pub(super) fn begin(
        missing: Missing,
        beside: Option<List>,
        asks_sandboxes: bool,
        now: Moment,
    ) -> Self {
        Self {
            begun: now,
            as_of: now.instant,
            missing,
            targets: VecDeque::new(),
            waiting: BTreeMap::new(),
            answered: 0,
            asks_sandboxes,
            beside: beside.map_or(Beside::None, Beside::Due),
            known: BTreeSet::new(),
            lost: BTreeSet::new(),
            failed: BTreeSet::new(),
            next: now.instant,
            usual: PACE,
            pace: PACE,
            longest: SLOW,
            told: false,
        }
    }

    /// The same of these; at a gentler pace while lists come, but `slow` each time.
    pub(super) fn of(mut self, mut targets: VecDeque<Target>, slow: bool, ledger: &Ledger) -> Self {
        targets.retain(|target| {
            let key = target.question.key();
            match Elsewhere::of(&key, ledger) {
                Elsewhere::NotAsked | Elsewhere::AskedOther => true,
                Elsewhere::Asked(since) => {
                    self.waiting.insert(key, since);
                    false
                }
                // It may yet be answered, with what was so before this was begun.
                Elsewhere::Stuck => {
                    self.failed.extend(target.uid.clone());
                    false
                }
            }
        });
        self.usual = if slow { SLOW_PACE } else { PACE };
        self.pace = self.usual;
        let all = u32::try_from(targets.len()).unwrap_or(u32::MAX).max(1);
        self.longest = (LONGEST_LIST / all).clamp(self.usual, SLOW);
        self.targets = targets;
        self
    }

    /// Whether it is in place of all lists that are missing.
    pub(super) fn covers(&self, missing: Missing) -> bool {
        self.missing.covers(missing)
    }

    /// Whether it is waited for no longer.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now >= self.begun.instant + LONGEST_STATUS
    }

    /// As of when all is that it has seen.
    pub(super) fn as_of(&self) -> Instant {
        self.as_of.min(self.begun.instant)
    }

    /// Another sweep has made a call in its place.
    pub(super) fn wait(&mut self, now: Instant) {
        self.next = self.next.max(now) + self.pace;
    }

    /// Somebody else asked for an id that it waits for.
    pub(super) fn heard_elsewhere(&mut self, key: &Key, uid: &PodUid, heard: Heard) {
        if self.waiting.contains_key(key) {
            self.note(uid, heard);
            // What others have heard counts as of when they asked, which `complete` looks up.
            if heard != Heard::Known {
                self.waiting.remove(key);
            }
        }
    }

    fn note(&mut self, uid: &PodUid, heard: Heard) {
        let pods = match heard {
            Heard::Known => &mut self.known,
            Heard::Lost => &mut self.lost,
            Heard::Nothing => &mut self.failed,
        };
        pods.insert(uid.clone());
    }

    /// The list beside it, if it is to be asked for now.
    pub(super) fn take_list(&mut self, ledger: &Ledger) -> Option<List> {
        let Beside::Due(list) = self.beside else {
            return None;
        };
        let is_free = ledger.node_call(list.rpc()).is_none();
        is_free.then(|| {
            self.beside = Beside::Asked(list);
            list
        })
    }

    pub(super) fn is_to_ask_for(&self, list: List) -> bool {
        self.beside == Beside::Due(list)
    }

    pub(super) fn has_asked_for(&self, list: List) -> bool {
        self.beside == Beside::Asked(list)
    }

    /// A list answered, by whomever it was asked for.
    pub(super) fn list_answered(&mut self, list: List, asked: Instant) {
        self.answered += 1;
        if self.is_to_ask_for(list) || self.has_asked_for(list) {
            self.beside = Beside::Listed(list);
            self.as_of = asked.min(self.as_of);
        }
    }

    /// A list that had failed before is done without.
    pub(super) fn list_failed(&mut self) {
        if self.missing.sandboxes && self.missing.containers {
            self.beside = Beside::None;
        }
    }

    /// It may be another runtime now, which does not tell a sandbox's containers.
    pub(super) fn runtime_changed(&mut self) {
        self.asks_sandboxes = false;
    }

    /// When the next is to be asked for; `None` while that waits for an answer.
    pub(super) fn due(&self, ledger: &Ledger) -> Option<Instant> {
        // Without room for one more call it is an answer that goes on, and not time.
        if self.next_target(ledger).is_none() || !ledger.has_room() {
            return None;
        }
        let mut asked: Vec<Instant> = self.waiting.values().copied().collect();
        asked.sort_unstable();
        match asked.len().checked_sub(SIDE_BY_SIDE) {
            None => Some(self.next),
            Some(_) if self.answered == 0 && !ledger.has_answered_since(self.begun.instant) => None,
            // The window is free once all but so many of the younger ones are slow.
            Some(slow) => Some(self.next.max(asked[slow] + self.slow())),
        }
    }

    /// After how long one gives its place in the window to others.
    fn slow(&self) -> Duration {
        SLOW.min(self.longest * SIDE_BY_SIDE as u32)
    }

    /// The first of which nobody is asking something else: it comes after the answer to that.
    fn next_target(&self, ledger: &Ledger) -> Option<usize> {
        let mut targets = self.targets.iter();
        targets.position(|target| {
            let elsewhere = Elsewhere::of(&target.question.key(), ledger);
            elsewhere != Elsewhere::AskedOther
        })
    }

    pub(super) fn take(&mut self, ledger: &Ledger, now: Instant) -> Option<Target> {
        while self.due(ledger).is_some_and(|due| now >= due) {
            let target = self.targets.remove(self.next_target(ledger)?)?;
            let key = target.question.key();
            // Somebody else may have asked for it since.
            match Elsewhere::of(&key, ledger) {
                Elsewhere::NotAsked => {
                    self.next = now + self.pace;
                    self.waiting.insert(key, now);
                    return Some(target);
                }
                Elsewhere::Asked(since) => {
                    self.waiting.insert(key, since);
                }
                Elsewhere::Stuck => self.failed.extend(target.uid),
                Elsewhere::AskedOther => {}
            }
        }
        None
    }

    /// A runtime that takes longer is asked less often.
    pub(super) fn ended(&mut self, key: &Key, uid: Option<&PodUid>, heard: Heard, now: Instant) {
        let asked = self.waiting.remove(key);
        if let Some(uid) = uid {
            self.note(uid, heard);
        }
        if heard != Heard::Known {
            return;
        }
        self.answered += 1;
        if let Some(asked) = asked {
            self.as_of = asked.min(self.as_of);
            let quarter = now.duration_since(asked) / 4;
            self.pace = quarter.clamp(self.usual, self.longest);
        }
    }

    /// Whether somebody is left to be asked now. Of the others somebody asks something else, and
    /// a call that never ends would hold up all sweeps.
    pub(super) fn asks(&self, ledger: &Ledger) -> bool {
        self.next_target(ledger).is_some()
    }

    /// Whether somebody is still to be asked, the other list is waited for, or somebody who may
    /// still answer.
    pub(super) fn waits(&self, ledger: &Ledger) -> bool {
        let mut waiting = self.waiting.iter();
        !self.targets.is_empty()
            || self.waits_for_a_list()
            || waiting
                .any(|(key, asked)| ledger.asked(key) == Some(*asked) && !ledger.is_stuck(key))
    }

    /// One that is tried again although it is missing comes, or does not.
    fn waits_for_a_list(&self) -> bool {
        let is_missing = self.missing.sandboxes && self.missing.containers;
        !is_missing && matches!(self.beside, Beside::Due(_) | Beside::Asked(_))
    }

    /// Whether it waits only for those who were asked and may answer, or whom somebody asks
    /// something else.
    pub(super) fn trails(&self, ledger: &Ledger) -> bool {
        !self.told && !self.asks(ledger) && self.waits(ledger)
    }

    pub(super) fn complete(&mut self, ledger: &Ledger) -> Option<Swept> {
        if self.told || self.waits(ledger) || self.answered == 0 {
            return None;
        }
        self.told = true;
        // Those who have answered somebody else, as of when that one asked.
        let elsewhere = self.waiting.iter();
        let elsewhere = elsewhere.filter(|(key, _)| !ledger.is_stuck(key));
        let as_of = elsewhere
            .map(|(_, asked)| *asked)
            .fold(self.as_of, Instant::min);
        let failed = std::mem::take(&mut self.failed);
        let lost = std::mem::take(&mut self.lost);
        let partly = &(&lost & &self.known) - &failed;
        Some(Swept {
            begun: self.begun.back_at(as_of),
            unseen: &failed | &lost,
            partly,
            sandboxes_listed: self.beside == Beside::Listed(List::Sandboxes),
            sees_new_containers: !self.missing.containers || self.asks_sandboxes,
        })
    }
}
