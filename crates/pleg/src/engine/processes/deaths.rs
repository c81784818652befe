//! Processes that are dead, and what the runtime says of them.

use std::sync::Arc;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::{Processes, State, waited_for};
use crate::engine::call::{Call, Purpose, Question};
use crate::engine::limits::{CONTRADICTED, SETTLED, SIDE_BY_SIDE, SLOW};
use crate::model::id::{Id, PodRef};
use crate::runtime::About;

/// A container whose process is dead and which the runtime says is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub(crate) id: Id,
    pub(crate) container: Arc<str>,
    pub(crate) pod: PodRef,
    pub(crate) since: Instant,
}

impl Processes {
    pub(super) fn next_death(&mut self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        if waited_for(&self.asking_deaths, ledger) >= SIDE_BY_SIDE {
            return None;
        }
        for id in &self.dead {
            let Some(watch) = self.watches.get_mut(id) else {
                continue;
            };
            let State::Dead { next, asking, .. } = &mut watch.state else {
                continue;
            };
            let question = Question::Container(id.clone());
            if *asking || now < *next || ledger.is_outstanding(&question.key()) {
                continue;
            }
            *asking = true;
            self.asking_deaths.insert(id.clone());
            return Some(watch.call(question, Purpose::Death));
        }
        None
    }

    /// The kernel says that the process died.
    pub(crate) fn on_death(&mut self, id: &Id, now: Instant) {
        let watch = self.watches.get(id);
        let Some(State::Live { pid }) = watch.map(|watch| &watch.state) else {
            return;
        };
        let dead = State::dead(*pid, now);
        self.enter(id, dead);
    }

    /// The runtime was asked about a death: `runs` is what it said; one that cannot be asked
    /// says nothing new. Gives the pod once the runtime knows.
    pub(crate) fn on_asked(&mut self, id: &Id, runs: Option<bool>, now: Instant) -> Option<PodRef> {
        self.asking_deaths.remove(id);
        let watch = self.watches.get_mut(id)?;
        let State::Dead {
            since,
            next,
            pause,
            asking,
            denied,
            ..
        } = &mut watch.state
        else {
            return None;
        };
        *asking = false;
        if runs == Some(false) {
            self.dead.remove(id);
            self.wanted.remove(id);
            self.unwatched.remove(id);
            return self.watches.remove(id).map(|watch| watch.pod);
        }
        *denied |= runs == Some(true);
        let contradicts = now >= *since + SETTLED;
        *pause = match contradicts {
            true => CONTRADICTED,
            false => (*pause * 3 / 2).min(SLOW),
        };
        *next = now + *pause;
        if contradicts && runs == Some(true) {
            self.wanted.insert(id.clone());
        }
        None
    }

    /// A look that was begun then found a container running; says whether its process was dead by
    /// then, so that the runtime denies what the kernel has told.
    pub(crate) fn found_running(&mut self, id: &Id, begun: Instant) -> bool {
        let state = self.watches.get_mut(id).map(|watch| &mut watch.state);
        let Some(State::Dead { since, denied, .. }) = state else {
            return false;
        };
        let was_dead = *since < begun;
        *denied |= was_dead;
        was_dead
    }

    /// The containers of which the kernel and the runtime have told different things for seconds.
    pub(crate) fn contradictions(&self, now: Instant) -> impl Iterator<Item = Contradiction> {
        let dead = self.dead.iter();
        let dead = dead.filter_map(|id| Some((id, self.watches.get(id)?)));
        dead.filter_map(move |(id, watch)| match watch.state {
            State::Dead {
                since,
                denied: true,
                ..
            } if now >= since + SETTLED => Some(Contradiction {
                id: id.clone(),
                container: watch.name.clone(),
                pod: watch.pod.clone(),
                since,
            }),
            _ => None,
        })
    }

    /// The containers whose process is dead, which the runtime does not say, with their pods.
    pub(crate) fn dead(&self) -> impl Iterator<Item = (&Id, &PodRef)> {
        let dead = self.dead.iter();
        dead.filter_map(|id| Some((id, &self.watches.get(id)?.pod)))
    }
}
