//! A sweep by id: while a list does not come, each known container (or sandbox) is asked
//! for by itself, gently.
//!
//! ```text
//!   targets --one at a time, 200 a second at most--> waiting --> answered | failed
//!                                                       \--> stuck: named, waited for no more
//!      nobody is left to be asked now, and the period has passed: the next sweep, beside those who
//!      are waited for
//! ```
//!
//! The one that holds the list up is the one that does not answer, so a sweep finds the
//! culprit too. Where nothing answers at all, no more than [`WINDOW`] calls are made: a
//! runtime that is down as a whole is not asked for everything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::call::Key;
use super::call::{Call, List, Purpose, Question};
use super::governor::Governor;
use super::relister::Missing;
use crate::model::id::{HostId, Id, Owner, PodRef, PodUid};
use crate::model::listed::{ListedPod, ListedSandbox, SandboxState};
use crate::model::wall_time::Moment;
use crate::runtime::About;

/// At most 200 calls a second.
const PACE: Duration = Duration::from_millis(5);

/// How many calls may be waited for at once.
const WINDOW: usize = 8;

/// One that takes longer gives its place in the window to others.
const SLOW: Duration = Duration::from_millis(250);

/// However slow a runtime is, it is asked often enough for a sweep to ask for all in so long.
const LONGEST: Duration = Duration::from_secs(30);

/// While lists are slow each time, at most 25 calls a second: the runtime has enough to do.
const SLOW_PACE: Duration = Duration::from_millis(40);

/// For so long a sweep is waited for that some have not answered: a list that takes longer is
/// missing itself by then, and who takes longer is named.
const TRAILING: Duration = Duration::from_secs(10);

/// For so long what did not exist is asked for again.
const LOST: Duration = Duration::from_secs(10);

/// How many ids without a pod are remembered for the next sweep.
const MOST_HINTED: usize = 256;

/// A container or sandbox to ask for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its pod; `None` for an id that only the host knows.
    uid: Option<PodUid>,
    question: Question,
    about: About,
}

impl Target {
    fn into_call(self) -> (Call, About) {
        let call = Call {
            question: self.question,
            purpose: Purpose::Sweep(self.uid),
        };
        (call, self.about)
    }
}

/// Sweeps, one after the other, for as long as a list does not come.
#[derive(Debug)]
pub(crate) struct Sweeper {
    period: Duration,
    /// The sweep under way, or the last one while the lists still do not come.
    sweep: Option<Sweep>,
    /// An earlier one, of which some have not answered yet, or are being asked something else:
    /// the others are asked anew meanwhile.
    trailing: Option<Sweep>,
    /// When the next one may begin.
    next: Instant,
    /// What the host knew of when it was last asked.
    host_ids: BTreeMap<Id, Option<Owner>>,
    asking_host: bool,
    /// Ids that the stream named, of which nobody knows whose they are, and when.
    hinted_ids: BTreeMap<Id, Instant>,
    /// What was known and did not exist when it was last asked for: it may, the next time.
    lost: BTreeMap<Key, (Question, Instant)>,
    /// Whether the runtime tells a sandbox's containers with its status, once that is known.
    fills_sandboxes: Option<bool>,
}

/// One sweep.
#[derive(Debug)]
struct Sweep {
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
    /// The pods of which an id failed, or could not be asked for.
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
    fn of(key: &Key, governor: &Governor) -> Self {
        match governor.asked(key) {
            None => Self::NotAsked,
            Some(_) if governor.is_stuck(key) => Self::Stuck,
            Some(since) if governor.is_look(key) => Self::Asked(since),
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
    /// The pods of which an id failed.
    pub(crate) failed: BTreeSet<PodUid>,
    /// Whether sandboxes were listed meanwhile, so that new pods were seen.
    pub(crate) sandboxes_listed: bool,
    /// Whether new containers were seen, in lists or in their sandboxes.
    pub(crate) sees_new_containers: bool,
}

impl Sweeper {
    pub(crate) fn new(period: Duration, now: Instant) -> Self {
        Self {
            period,
            sweep: None,
            trailing: None,
            next: now,
            host_ids: BTreeMap::new(),
            asking_host: false,
            hinted_ids: BTreeMap::new(),
            lost: BTreeMap::new(),
            fills_sandboxes: None,
        }
    }

    /// Lets time pass while lists are `missing`, or ends sweeping. Says whether the next
    /// sweep is due, which begins once the host has told which ids it knows.
    pub(crate) fn is_due(&mut self, missing: Missing, governor: &Governor, now: Instant) -> bool {
        if !missing.any() {
            self.sweep = None;
            self.trailing = None;
            self.lost.clear();
            self.next = now;
            return false;
        }
        // A sweep in place of one list is of no use once the other one is missing too.
        let goes_on = |sweep: &Sweep| sweep.asks(governor) && sweep.missing.covers(missing);
        let goes_on = self.sweep.as_ref().is_some_and(goes_on);
        let due = !goes_on && now >= self.next && !self.asking_host;
        if due {
            self.asking_host = true;
            self.next = now + self.period;
        }
        due
    }

    /// The host said which ids it knows.
    pub(crate) fn on_host_ids(&mut self, ids: Vec<HostId>) {
        self.asking_host = false;
        self.host_ids = ids.into_iter().map(|it| (it.id, it.owner)).collect();
    }

    /// Whether the host knew of this id when it was last asked.
    pub(crate) fn host_knows(&self, id: &Id) -> bool {
        self.host_ids.contains_key(id)
    }

    /// Whose an id is, by what the host said.
    pub(crate) fn owner(&self, id: &Id) -> Option<&Owner> {
        self.host_ids.get(id)?.as_ref()
    }

    /// Begins a sweep of what is listed, and of what the host and the stream know beyond
    /// that, with the list that may come `beside` it; at a gentler pace while lists come, but
    /// `slow` each time.
    pub(crate) fn begin<'a>(
        &mut self,
        missing: Missing,
        beside: Option<List>,
        listed: impl Iterator<Item = &'a ListedPod>,
        slow: bool,
        governor: &Governor,
        now: Moment,
    ) {
        let mut targets = self.targets(missing, listed, now.instant);
        self.trailing
            .take_if(|it| now.instant >= it.begun.instant + TRAILING);
        match self.sweep.take() {
            None => tracing::info!("polling by id in place of lists: {}", missing.what()),
            // Of several that wait the first one ends first.
            Some(last) if self.trailing.is_none() && last.trails(governor) => {
                self.trailing = Some(last);
            }
            Some(_) => {}
        }
        let mut waiting = BTreeMap::new();
        // A call that is stuck may yet be answered, with what was so before this was begun.
        let mut failed = BTreeSet::new();
        targets.retain(|target| {
            let key = target.question.key();
            match Elsewhere::of(&key, governor) {
                Elsewhere::NotAsked | Elsewhere::AskedOther => true,
                Elsewhere::Asked(since) => {
                    waiting.insert(key, since);
                    false
                }
                Elsewhere::Stuck => {
                    failed.extend(target.uid.clone());
                    false
                }
            }
        });
        let usual = if slow { SLOW_PACE } else { PACE };
        let all = u32::try_from(targets.len()).unwrap_or(u32::MAX).max(1);
        self.next = now.instant + self.period;
        self.sweep = Some(Sweep {
            begun: now,
            as_of: now.instant,
            targets,
            waiting,
            missing,
            answered: 0,
            asks_sandboxes: self.fills_sandboxes == Some(true),
            beside: beside.map_or(Beside::None, Beside::Due),
            failed,
            next: now.instant,
            usual,
            pace: usual,
            longest: (LONGEST / all).clamp(usual, SLOW),
            told: false,
        });
    }

    /// Everything that is known of what cannot be listed.
    fn targets<'a>(
        &mut self,
        missing: Missing,
        listed: impl Iterator<Item = &'a ListedPod>,
        now: Instant,
    ) -> VecDeque<Target> {
        let mut unknown: BTreeSet<Id> = self.host_ids.keys().cloned().collect();
        unknown.extend(std::mem::take(&mut self.hinted_ids).into_keys());
        let mut targets = VecDeque::new();
        // New containers are in the status of their sandbox, where the runtime puts them
        // there; one pod that has containers tells whether it does.
        let mut asked = false;
        let fills = self.fills_sandboxes;
        let mut asked_for_containers = |pod: &ListedPod, row: &ListedSandbox| {
            let ready = row.state == SandboxState::Ready;
            let one = !asked && ready && !pod.containers.is_empty();
            // One that has ended tells those that have begun and ended with it.
            let ask = fills.unwrap_or(one);
            asked |= ask;
            ask
        };
        for pod in listed {
            let target = |question: Question, container| Target {
                uid: Some(pod.pod.uid.clone()),
                about: about(&question, container, Some(&pod.pod)),
                question,
            };
            for row in &pod.sandboxes {
                unknown.remove(&row.id);
                let tells = missing.containers && asked_for_containers(pod, row);
                if missing.sandboxes || tells {
                    targets.push_back(target(Question::Sandbox(row.id.clone()), None));
                }
            }
            for row in &pod.containers {
                unknown.remove(&row.id);
                if missing.containers {
                    let question = Question::Container(row.id.clone());
                    targets.push_back(target(question, Some(&row.name)));
                }
            }
        }
        let asked = targets.iter().map(|target| target.question.key());
        let asked: BTreeSet<Key> = asked.filter(|key| self.lost.contains_key(key)).collect();
        self.lost.retain(|key, (_, since)| {
            let is_unknown = key.1.as_ref().is_some_and(|id| unknown.contains(id));
            asked.contains(key) || now < *since + LOST && !is_unknown
        });
        let lost = self.lost.iter();
        let lost = lost.filter(|(key, _)| !asked.contains(*key));
        for (_, (question, _)) in lost {
            targets.push_back(Target {
                uid: None,
                about: about(question, None, None),
                question: question.clone(),
            });
        }
        for id in unknown {
            let questions = [
                (missing.sandboxes, Question::Sandbox(id.clone())),
                (missing.containers, Question::Container(id.clone())),
            ];
            for (_, question) in questions.into_iter().filter(|(missing, _)| *missing) {
                targets.push_back(Target {
                    uid: None,
                    about: about(&question, None, None),
                    question,
                });
            }
        }
        targets
    }

    /// The next call to be made, if it is time.
    pub(crate) fn next_call(&mut self, governor: &Governor, now: Instant) -> Option<(Call, About)> {
        let sweep = self.sweep.as_mut()?;
        let trailing = self.trailing.as_mut();
        if let Some(target) = trailing.and_then(|it| it.take(governor, now)) {
            // Both together keep to the pace.
            sweep.next = sweep.next.max(now) + sweep.pace;
            return Some(target.into_call());
        }
        let target = sweep.take(governor, now)?;
        self.next = self.next.max(now);
        Some(target.into_call())
    }

    /// An id answered, or failed, in which case nothing was seen by it.
    pub(crate) fn answered(&mut self, key: &Key, uid: Option<&PodUid>, good: bool, now: Instant) {
        for sweep in [&mut self.trailing, &mut self.sweep].into_iter().flatten() {
            sweep.ended(key, uid, good, now);
        }
    }

    /// Somebody else asked for an id that a sweep waits for, and nothing was seen by it.
    pub(crate) fn failed_elsewhere(&mut self, key: &Key, uid: &PodUid) {
        for sweep in [&mut self.trailing, &mut self.sweep].into_iter().flatten() {
            if sweep.waiting.remove(key).is_some() {
                sweep.failed.insert(uid.clone());
            }
        }
    }

    /// An id that was known does not exist. Nobody but a list says so for good: it is asked
    /// for again by the next sweeps, for a while. Says whether this is the first time. Only what
    /// is known is remembered, however much that is: whoever had no place would be gone at once.
    pub(crate) fn lost(&mut self, question: &Question, now: Instant) -> bool {
        let lost = (question.clone(), now);
        self.lost.insert(question.key(), lost).is_none()
    }

    /// The beginning of the oldest sweep under way.
    pub(crate) fn begun(&self) -> Option<Instant> {
        let sweeps = [&self.trailing, &self.sweep].into_iter().flatten();
        sweeps
            .map(|sweep| sweep.as_of.min(sweep.begun.instant))
            .min()
    }

    /// It is there. Says whether it was lost before.
    pub(crate) fn found(&mut self, key: &Key) -> bool {
        self.lost.remove(key).is_some()
    }

    /// The other list, if it is to be asked for now.
    pub(crate) fn take_list(&mut self, governor: &Governor) -> Option<List> {
        let sweep = self.sweep.as_mut()?;
        let Beside::Due(list) = sweep.beside else {
            return None;
        };
        let is_free = governor.node_call(list.rpc()).is_none();
        is_free.then(|| {
            sweep.beside = Beside::Asked(list);
            list
        })
    }

    /// Whether a relist that asks for the other list itself leaves no time to ask for it here.
    pub(crate) fn waits_for(&self, list: List) -> bool {
        let sweep = self.sweep.as_ref();
        sweep.is_some_and(|sweep| sweep.beside == Beside::Due(list))
    }

    /// The other list answered, which was asked for at `asked`, by whomever: the runtime is not
    /// down as a whole.
    pub(crate) fn list_answered(&mut self, list: List, asked: Instant) {
        for sweep in [&mut self.trailing, &mut self.sweep].into_iter().flatten() {
            sweep.answered += 1;
            let is_its = [Beside::Asked(list), Beside::Due(list)].contains(&sweep.beside);
            if is_its {
                sweep.beside = Beside::Listed(list);
                sweep.as_of = asked.min(sweep.as_of);
            }
        }
    }

    /// The other list failed. One that had failed before is done without.
    pub(crate) fn list_failed(&mut self, list: List) {
        self.trailing.take_if(|it| it.beside == Beside::Asked(list));
        if let Some(sweep) = &mut self.sweep
            && sweep.missing.sandboxes
            && sweep.missing.containers
        {
            sweep.beside = Beside::None;
        }
    }

    /// A sandbox's status told containers, or told none although it has some.
    pub(crate) fn sandbox_told_containers(&mut self, told: bool, has_some: bool) {
        if told {
            self.fills_sandboxes = Some(true);
        } else if has_some {
            self.fills_sandboxes.get_or_insert(false);
        }
    }

    /// The runtime may be another one.
    pub(crate) fn runtime_changed(&mut self) {
        self.fills_sandboxes = None;
        for sweep in [&mut self.trailing, &mut self.sweep].into_iter().flatten() {
            sweep.asks_sandboxes = false;
        }
    }

    /// Whether new containers are seen in their sandboxes.
    pub(crate) fn sees_new_containers(&self) -> bool {
        self.fills_sandboxes == Some(true)
    }

    /// Remembers an id that the stream named and nobody knows.
    pub(crate) fn remember(&mut self, id: Id, now: Instant) {
        if self.hinted_ids.len() < MOST_HINTED {
            self.hinted_ids.insert(id, now);
        }
    }

    /// Lists that were begun then came, and with them whatever was named before.
    pub(crate) fn forget_before(&mut self, begun: Instant) {
        self.hinted_ids.retain(|_, named| *named >= begun);
    }

    /// Whether known ids are being asked for in place of a list.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// Whether there is anything to sweep by.
    pub(crate) fn knows_ids(&self) -> bool {
        !self.host_ids.is_empty()
    }

    /// The sweep, once it is complete: all were asked for, the list beside it has come, and
    /// nobody is waited for who may still answer. One in which nobody answered has seen nothing.
    pub(crate) fn complete(&mut self, governor: &Governor) -> Option<Swept> {
        let trailing = self.trailing.take_if(|it| !it.waits(governor));
        let swept = trailing.and_then(|mut it| it.complete(governor));
        swept.or_else(|| self.sweep.as_mut()?.complete(governor))
    }

    /// When the sweeps want to be woken.
    pub(crate) fn alarm(&self, governor: &Governor) -> Option<Instant> {
        let trailing = self.trailing.as_ref().and_then(|it| it.due(governor));
        let next = match &self.sweep {
            Some(sweep) if sweep.asks(governor) => sweep.due(governor),
            _ if self.asking_host => None,
            _ => Some(self.next),
        };
        [trailing, next].into_iter().flatten().min()
    }
}

impl Sweep {
    /// When the next is to be asked for; `None` while that waits for an answer.
    fn due(&self, governor: &Governor) -> Option<Instant> {
        // Without room for one more call it is an answer that goes on, and not time.
        if self.next_target(governor).is_none() || !governor.has_room() {
            return None;
        }
        let mut asked: Vec<Instant> = self.waiting.values().copied().collect();
        asked.sort_unstable();
        match asked.len().checked_sub(WINDOW) {
            None => Some(self.next),
            Some(_) if self.answered == 0 && !governor.has_answered_since(self.begun.instant) => {
                None
            }
            // The window is free once all but so many of the younger ones are slow.
            Some(slow) => Some(self.next.max(asked[slow] + self.slow())),
        }
    }

    /// After how long one gives its place in the window to others.
    fn slow(&self) -> Duration {
        SLOW.min(self.longest * WINDOW as u32)
    }

    /// The first of which nobody is asking something else: it comes after the answer to that.
    fn next_target(&self, governor: &Governor) -> Option<usize> {
        let mut targets = self.targets.iter();
        targets.position(|target| {
            let elsewhere = Elsewhere::of(&target.question.key(), governor);
            elsewhere != Elsewhere::AskedOther
        })
    }

    fn take(&mut self, governor: &Governor, now: Instant) -> Option<Target> {
        while self.due(governor).is_some_and(|due| now >= due) {
            let target = self.targets.remove(self.next_target(governor)?)?;
            let key = target.question.key();
            // Somebody else may have asked for it since.
            match Elsewhere::of(&key, governor) {
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
    fn ended(&mut self, key: &Key, uid: Option<&PodUid>, good: bool, now: Instant) {
        let asked = self.waiting.remove(key);
        if !good {
            self.failed.extend(uid.cloned());
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
    fn asks(&self, governor: &Governor) -> bool {
        self.next_target(governor).is_some()
    }

    /// Whether somebody is still to be asked, the other list is waited for, or somebody who may
    /// still answer.
    fn waits(&self, governor: &Governor) -> bool {
        let mut waiting = self.waiting.iter();
        !self.targets.is_empty()
            || self.waits_for_a_list()
            || waiting
                .any(|(key, asked)| governor.asked(key) == Some(*asked) && !governor.is_stuck(key))
    }

    /// One that is tried again although it is missing comes, or does not.
    fn waits_for_a_list(&self) -> bool {
        let is_missing = self.missing.sandboxes && self.missing.containers;
        !is_missing && matches!(self.beside, Beside::Due(_) | Beside::Asked(_))
    }

    /// Whether it waits only for those who were asked and may answer, or whom somebody asks
    /// something else.
    fn trails(&self, governor: &Governor) -> bool {
        !self.told && !self.asks(governor) && self.waits(governor)
    }

    fn complete(&mut self, governor: &Governor) -> Option<Swept> {
        if self.told || self.waits(governor) || self.answered == 0 {
            return None;
        }
        self.told = true;
        // Those who have answered somebody else, as of when that one asked.
        let elsewhere = self.waiting.iter();
        let elsewhere = elsewhere.filter(|(key, _)| !governor.is_stuck(key));
        let as_of = elsewhere
            .map(|(_, asked)| *asked)
            .fold(self.as_of, Instant::min);
        Some(Swept {
            begun: self.begun.back_at(as_of),
            failed: std::mem::take(&mut self.failed),
            sandboxes_listed: self.beside == Beside::Listed(List::Sandboxes),
            sees_new_containers: !self.missing.containers || self.asks_sandboxes,
        })
    }
}

/// What a question about one id is for.
pub(super) fn about(
    question: &Question,
    container: Option<&Arc<str>>,
    pod: Option<&PodRef>,
) -> About {
    let (call, id) = question.key();
    About {
        call,
        id,
        // One that was only met by its id has no name yet.
        container: container.filter(|name| !name.is_empty()).cloned(),
        pod: pod.cloned(),
    }
}

#[cfg(test)]
mod tests;
