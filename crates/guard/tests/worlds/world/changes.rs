//! What changes in a world: faults begin and end, containers exit, another client creates pods, and the
//! guard is restarted.

use std::time::Duration;

use guard::Kind;
use guard::core::{Guard, Outcome, RuntimeCallId};

use super::{Event, World, settings, short};
use crate::runtime::{EXITED, RUNNING, Thing};

/// The guard saves a change within this time.
const SAVED_WITHIN: Duration = Duration::from_millis(600);

impl World {
    pub(super) fn make_pod(&mut self, is_foreign: bool) {
        let number = self.rng.u32(..);
        let mut uid = format!("uid-{number}");
        // Another client may create a second sandbox of a pod, but not of a pod of an acting kubelet.
        let known: Vec<String> = self.runtime.alive().map(|(_, of)| of.uid.clone()).collect();
        if self.acting.is_none()
            && self.rng.bool()
            && let Some(of) = self.rng.choice(&known)
        {
            uid.clone_from(of);
        }
        let thing = |kind, name: &str, sandbox: String, state| Thing {
            kind,
            sandbox,
            uid: uid.clone(),
            name: name.to_owned(),
            attempt: 0,
            states: vec![(self.now, state)],
            removed: None,
            is_foreign,
        };
        let sandbox = thing(Kind::Sandbox, "pod", String::new(), 0);
        let containers = self.rng.u32(0..3);
        let sandbox = self.runtime.make(sandbox);
        for _ in 0..containers {
            let state = self.rng.i32(0..3);
            let name = format!("app{}", self.rng.u8(0..3));
            let container = thing(Kind::Container, &name, sandbox.clone(), state);
            self.runtime.make(container);
        }
    }

    /// Lets a fault begin or end, a container exit, or another client change something.
    pub(super) fn change(&mut self) {
        let pause = self.rng.f64() * 3.0;
        self.at(pause, Event::Changes);
        if let Some(acting) = &mut self.acting {
            match self.rng.u8(0..4) {
                0 => acting.wants_pod(),
                1 => acting.deletes_pod(self.rng.usize(0..3)),
                _ => {}
            }
        }
        let ids: Vec<String> = self.runtime.alive().map(|(id, _)| id.clone()).collect();
        let one = self.rng.choice(&ids).cloned();
        if self.is_ordinary {
            return self.change_what_is_usual(one);
        }
        if self.rng.bool()
            && let Some(id) = &one
        {
            self.faults.begin(id, self.rng.bool());
        }
        match self.rng.u8(0..22) {
            21 => {
                let kind = match self.rng.bool() {
                    true => Kind::Container,
                    false => Kind::Sandbox,
                };
                self.note(|| format!("every status of {kind:?} hangs"));
                self.runtime.kinds_hang.insert(kind);
                self.runtime.lists_hang.insert(kind);
            }
            20 => {
                self.note(|| "creations fail".to_owned());
                self.runtime.refuses_creations = true;
            }
            0..5 => {
                let kind = match self.rng.u8(0..4) {
                    0 => Kind::Sandbox,
                    _ => Kind::Container,
                };
                self.note(|| format!("the lists of {kind:?} hang"));
                self.runtime.lists_hang.insert(kind);
            }
            5..8 => {
                self.note(|| format!("{one:?} hangs"));
                self.runtime.statuses_hang.extend(one);
            }
            8..10 => {
                self.note(|| "changes are not answered".to_owned());
                self.runtime.answers_hang = true;
            }
            10 => {
                self.note(|| "the runtime is stopped".to_owned());
                self.runtime.is_stopped = true;
            }
            11..14 => {
                self.note(|| "all faults end".to_owned());
                self.went_on = self.now;
                self.runtime.recover();
                let runtime_calls: Vec<RuntimeCallId> = self.outstanding.keys().copied().collect();
                for runtime_call in runtime_calls {
                    let delay = self.rng.f64() * 0.02;
                    match self.outstanding[&runtime_call].answer {
                        Some(_) => self.at(delay, Event::Answers(runtime_call)),
                        None => self.at(delay, Event::TakesUp(runtime_call)),
                    }
                }
            }
            14 => {
                self.note(|| "the runtime is restarted".to_owned());
                self.went_on = self.now;
                self.runtime.recover();
                let lost = std::mem::take(&mut self.outstanding).into_keys();
                self.end(
                    lost.map(|runtime_call| (runtime_call, Outcome::Lost))
                        .collect(),
                );
            }
            15..18 => {
                let now = self.now;
                if let Some(thing) = one.as_ref().and_then(|id| self.runtime.alive_mut(id))
                    && thing.kind == Kind::Container
                    && thing.state() == RUNNING
                    && !self.runtime.is_stopped
                {
                    self.note(|| format!("{} exits", short(&one.clone().unwrap())));
                    let thing = self.runtime.alive_mut(&one.unwrap()).unwrap();
                    thing.states.push((now, EXITED));
                }
            }
            19 => self.restart_guard(),
            18 if !self.runtime.is_stopped => {
                self.note(|| "another client creates a pod".to_owned());
                self.make_pod(true);
            }
            _ => {}
        }
    }

    /// Makes a random change of an ordinary world: one container gets stuck or exits, another client
    /// creates a pod, creations begin or cease to fail, or the guard is restarted.
    fn change_what_is_usual(&mut self, one: Option<String>) {
        // A restarted guard does not know that a container is running if that was not saved.
        let saved = self.now.checked_sub(SAVED_WITHIN).unwrap_or(self.now);
        let runs = |id: &String| {
            let thing = &self.runtime.things[id];
            let is_running = thing.kind == Kind::Container && thing.state() == RUNNING;
            let there = self
                .kubelet
                .reported
                .get(id)
                .and_then(|reported| reported.there);
            let is_saved = thing.states.iter().all(|(since, _)| *since < saved);
            is_running && is_saved && there.is_some_and(|there| there < saved)
        };
        let running = one.filter(runs);
        match (self.rng.u8(0..6), running) {
            (0 | 1, Some(id)) if self.runtime.statuses_hang.is_empty() => {
                self.note(|| format!("{} is stuck", short(&id)));
                self.runtime.statuses_hang.insert(id);
                self.runtime.lists_hang.insert(Kind::Container);
                self.runtime.answers_hang = true;
            }
            (2, Some(id)) if !self.runtime.statuses_hang.contains(&id) => {
                let now = self.now;
                self.note(|| format!("{} exits", short(&id)));
                if let Some(thing) = self.runtime.alive_mut(&id) {
                    thing.states.push((now, EXITED));
                }
            }
            (3, _) => {
                self.note(|| "another client creates a pod".to_owned());
                self.make_pod(true);
            }
            (4, _) => self.runtime.refuses_creations ^= true,
            (5, _) => self.restart_guard(),
            _ => {}
        }
    }

    /// Kills the guard, and restarts it.
    fn restart_guard(&mut self) {
        self.note(|| "the guard is restarted".to_owned());
        self.calls.clear();
        if let Some(acting) = &mut self.acting {
            acting.lost_all(self.now);
        }
        self.outstanding.clear();
        self.faults.forget();
        self.alarm = None;
        self.restarted = self.now;
        let unix_nanos = self.runtime.unix_nanos(self.now);
        self.guard = Guard::new(settings(), self.mode, self.now, unix_nanos);
        let is_kept = self.rng.u8(0..4) > 0 || self.is_ordinary;
        if let Some(saved) = self.saved.clone().filter(|_| is_kept) {
            assert!(self.guard.restore(saved, self.now));
        }
    }
}
