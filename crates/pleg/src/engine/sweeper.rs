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
//! culprit too. Where nothing answers at all, no more than [`WINDOW`](sweep::WINDOW) calls are made: a
//! runtime that is down as a whole is not asked for everything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::call::{Call, Key, List, Question};
use super::limits::{MISSING, MOST_UNKNOWN};
use super::lists::Missing;
use crate::model::id::{HostId, Id, Owner, PodRef, PodUid};
use crate::model::listed::{ListedPod, ListedSandbox, SandboxState};
use crate::model::wall_time::Moment;
use crate::runtime::About;

mod sweep;

pub(crate) use sweep::{Heard, Swept};
use sweep::{Sweep, Target};

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
    pub(crate) fn is_due(&mut self, missing: Missing, ledger: &Ledger, now: Instant) -> bool {
        if !missing.any() {
            self.sweep = None;
            self.trailing = None;
            self.lost.clear();
            self.next = now;
            return false;
        }
        // A sweep in place of one list is of no use once the other one is missing too.
        let goes_on = |sweep: &Sweep| sweep.asks(ledger) && sweep.covers(missing);
        let goes_on = self.sweep.as_ref().is_some_and(goes_on);
        let due = !goes_on && now >= self.next && !self.asking_host;
        if due {
            self.asking_host = true;
            self.next = now + self.period;
        }
        due
    }

    /// The host said which ids it knows; `None` if it could not tell now, so that what it said
    /// before is the last that is known.
    pub(crate) fn on_host_ids(&mut self, ids: Option<Vec<HostId>>) {
        self.asking_host = false;
        if let Some(ids) = ids {
            self.host_ids = ids.into_iter().map(|it| (it.id, it.owner)).collect();
        }
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
        ledger: &Ledger,
        now: Moment,
    ) {
        let targets = self.targets(missing, listed, now.instant);
        self.trailing.take_if(|it| it.is_old(now.instant));
        match self.sweep.take() {
            None => tracing::info!("polling by id in place of lists: {}", missing.what()),
            // Of several that wait the first one ends first.
            Some(last) if self.trailing.is_none() && last.trails(ledger) => {
                self.trailing = Some(last);
            }
            Some(_) => {}
        }
        self.next = now.instant + self.period;
        let asks_sandboxes = self.fills_sandboxes == Some(true);
        let sweep = Sweep::begin(missing, beside, asks_sandboxes, now);
        self.sweep = Some(sweep.of(targets, slow, ledger));
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
            asked.contains(key) || now < *since + MISSING && !is_unknown
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
            // An owner without a container may be one whose name the host does not tell.
            let is_container = self.owner(&id).is_some_and(|it| it.container.is_some());
            let questions = [
                (
                    missing.sandboxes && !is_container,
                    Question::Sandbox(id.clone()),
                ),
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
    pub(crate) fn next_call(&mut self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        let sweep = self.sweep.as_mut()?;
        let trailing = self.trailing.as_mut();
        if let Some(target) = trailing.and_then(|it| it.take(ledger, now)) {
            // Both together keep to the pace.
            sweep.wait(now);
            return Some(target.into_call());
        }
        let target = sweep.take(ledger, now)?;
        self.next = self.next.max(now);
        Some(target.into_call())
    }

    /// An id that a sweep has asked for was answered, or failed.
    pub(crate) fn answered(&mut self, key: &Key, uid: Option<&PodUid>, heard: Heard, now: Instant) {
        for sweep in [&mut self.trailing, &mut self.sweep].into_iter().flatten() {
            sweep.ended(key, uid, heard, now);
        }
    }

    /// Somebody else asked for an id that a sweep may wait for.
    pub(crate) fn heard_elsewhere(&mut self, key: &Key, uid: &PodUid, heard: Heard) {
        for sweep in [&mut self.trailing, &mut self.sweep].into_iter().flatten() {
            sweep.heard_elsewhere(key, uid, heard);
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
        sweeps.map(Sweep::as_of).min()
    }

    /// It is there. Says whether it was lost before.
    pub(crate) fn found(&mut self, key: &Key) -> bool {
        self.lost.remove(key).is_some()
    }

    /// The other list, if it is to be asked for now.
    pub(crate) fn take_list(&mut self, ledger: &Ledger) -> Option<List> {
        self.sweep.as_mut()?.take_list(ledger)
    }

    /// Whether a relist that asks for the other list itself leaves no time to ask for it here.
    pub(crate) fn waits_for(&self, list: List) -> bool {
        self.sweep.as_ref().is_some_and(|it| it.is_to_ask_for(list))
    }

    /// The other list answered, which was asked for at `asked`, by whomever: the runtime is not
    /// down as a whole.
    pub(crate) fn list_answered(&mut self, list: List, asked: Instant) {
        for sweep in [&mut self.trailing, &mut self.sweep].into_iter().flatten() {
            sweep.list_answered(list, asked);
        }
    }

    /// The other list failed. One that had failed before is done without.
    pub(crate) fn list_failed(&mut self, list: List) {
        self.trailing.take_if(|it| it.has_asked_for(list));
        if let Some(sweep) = &mut self.sweep {
            sweep.list_failed();
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
            sweep.runtime_changed();
        }
    }

    /// Whether new containers are seen in their sandboxes.
    pub(crate) fn sees_new_containers(&self) -> bool {
        self.fills_sandboxes == Some(true)
    }

    /// Remembers an id that the stream named and nobody knows.
    pub(crate) fn remember(&mut self, id: Id, now: Instant) {
        if self.hinted_ids.len() < MOST_UNKNOWN {
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
    pub(crate) fn complete(&mut self, ledger: &Ledger) -> Option<Swept> {
        let trailing = self.trailing.take_if(|it| !it.waits(ledger));
        let swept = trailing.and_then(|mut it| it.complete(ledger));
        swept.or_else(|| self.sweep.as_mut()?.complete(ledger))
    }

    /// When the sweeps want to be woken.
    pub(crate) fn alarm(&self, ledger: &Ledger) -> Option<Instant> {
        let trailing = self.trailing.as_ref().and_then(|it| it.due(ledger));
        let next = match &self.sweep {
            Some(sweep) if sweep.asks(ledger) => sweep.due(ledger),
            _ if self.asking_host => None,
            _ => Some(self.next),
        };
        [trailing, next].into_iter().flatten().min()
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
