//! Decides which pod is synced when. It is pure: the time is an argument.
//!
//! ```text
//!   Set ----> Waiting for the end of another pod of its name
//!                |
//!                v
//!              Idle: due at ... --due, gate open--> Syncing --done--> Idle: due after a resync,
//!                ^  woken: due now                   woken: once more       a back-off, a failure
//!                |                                      |
//!                \--------------------------------------/           --ended--> gone
//! ```
//!
//! A pod has one sync at a time; if it is woken meanwhile, one more sync follows. A kubelet's pod
//! workers do the same. Source: Kubernetes 1.36, `pkg/kubelet/pod_workers.go`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use tokio::time::Instant;

use crate::gate::{self, Gate, Policy};
use crate::{Change, Goal, Outcome};

/// A kubelet's `syncFrequency`: a pod is synced this often even if nothing happens.
pub const RESYNC: Duration = Duration::from_secs(60);

/// How long a failed sync waits for the next.
pub const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// How long a sync that failed because of the runtime's network waits for the next.
pub const AFTER_NETWORK_FAILURE: Duration = Duration::from_secs(1);

/// Intervals are longer by a random part of up to this, so that not all pods are synced at once.
const JITTER: f64 = 0.5;

/// The core of a sync loop.
#[derive(Debug)]
pub struct SyncLoop<S> {
    policy: Policy,
    workers: BTreeMap<PodUid, Worker<S>>,
    /// The number of workers with the same name.
    names: BTreeMap<Name, usize>,
    gate: Gate,
    jitter: fastrand::Rng,
}

/// A namespace and a name.
type Name = (Arc<str>, Arc<str>);

/// An input of the core.
#[derive(Debug)]
pub enum Input<S> {
    /// A change of the source.
    Change(Change<S>),
    /// An event of a pod.
    Woken(PodUid),
    /// Events of unknown pods.
    AllWoken,
    /// The sync of a pod has ended.
    Ended(PodUid, Outcome),
    /// The reasons that stop all pods at this time; empty if there is none.
    Errors(Vec<String>),
    /// Time has passed.
    Time,
}

/// An action to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<S> {
    /// Sync this pod, with a status that is newer than its last sync with a change.
    Sync {
        /// The pod.
        pod: PodRef,
        /// The goal.
        goal: Goal<S>,
        /// When that sync ended.
        since: Option<Instant>,
    },
    /// Report that no sync is begun.
    Skip {
        /// The reasons.
        errors: Vec<String>,
        /// The time until they are checked again.
        pause: Duration,
    },
    /// Report that syncs continue.
    Opened {
        /// How long no sync was begun.
        closed_for: Duration,
    },
    /// Nothing is left of a pod.
    Gone(PodRef),
}

#[derive(Debug)]
struct Worker<S> {
    pod: PodRef,
    goal: Aim<S>,
    /// When the last sync ended that changed something, or may have.
    changed: Option<Instant>,
    state: State,
}

/// The goal of a worker, and the next one.
#[derive(Clone, Debug)]
enum Aim<S> {
    Run(S),
    /// The pod may have been wanted again since; a pod that ends is ended first.
    End {
        then: Option<S>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle { due: Instant },
    Syncing { again: bool },
}

impl<S: Clone> SyncLoop<S> {
    /// Creates a loop without pods. It is closed until the first input without errors.
    pub fn new(now: Instant, policy: Policy, jitter: fastrand::Rng) -> Self {
        Self {
            policy,
            workers: BTreeMap::new(),
            names: BTreeMap::new(),
            gate: Gate::at_start(now),
            jitter,
        }
    }

    /// Performs one step.
    pub fn step(&mut self, now: Instant, input: Input<S>) -> Vec<Action<S>> {
        let mut actions = Vec::new();
        match input {
            Input::Change(Change::Set(pod, spec)) => self.set(now, pod, spec),
            Input::Change(Change::Remove(pod)) => self.remove(now, pod),
            Input::Woken(uid) => self.wake(now, &uid),
            Input::AllWoken => self.workers.values_mut().for_each(|it| it.wake(now)),
            Input::Ended(uid, outcome) => actions.extend(self.ended(now, &uid, outcome)),
            Input::Errors(errors) => actions.extend(self.look_at_gate(now, errors)),
            Input::Time => {}
        }
        if self.gate == Gate::Open {
            self.begin_due(now, &mut actions);
        }
        actions
    }

    /// The next time at which a sync or a check of the gate is due.
    pub fn alarm(&self) -> Option<Instant> {
        let Gate::Open = self.gate else {
            return self.gate.alarm();
        };
        let workers = self.workers.values();
        let due = workers.filter_map(|it| match it.state {
            State::Idle { due } if !self.is_held(it) => Some(due),
            _ => None,
        });
        due.min()
    }

    /// Whether syncs are begun.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// The number of pods.
    pub fn pods(&self) -> usize {
        self.workers.len()
    }

    fn set(&mut self, now: Instant, pod: PodRef, spec: S) {
        if self.names.contains_key(&name(&pod)) {
            let others = self.workers.values_mut();
            for other in others.filter(|it| is_namesake(&it.pod, &pod)) {
                other.end(now);
            }
        }
        match self.workers.get_mut(&pod.uid) {
            Some(worker) => worker.run(now, spec),
            None => self.add(now, pod, Aim::Run(spec)),
        }
    }

    fn remove(&mut self, now: Instant, pod: PodRef) {
        match self.workers.get_mut(&pod.uid) {
            Some(worker) => worker.end(now),
            None => self.add(now, pod, Aim::End { then: None }),
        }
    }

    fn add(&mut self, now: Instant, pod: PodRef, goal: Aim<S>) {
        *self.names.entry(name(&pod)).or_default() += 1;
        let worker = Worker::new(now, pod.clone(), goal);
        self.workers.insert(pod.uid, worker);
    }

    fn take(&mut self, uid: &PodUid) -> Option<PodRef> {
        let Worker { pod, .. } = self.workers.remove(uid)?;
        if let Entry::Occupied(mut count) = self.names.entry(name(&pod)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(pod)
    }

    fn wake(&mut self, now: Instant, uid: &PodUid) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.wake(now);
        }
    }

    fn ended(&mut self, now: Instant, uid: &PodUid, outcome: Outcome) -> Option<Action<S>> {
        let worker = self.workers.get_mut(uid)?;
        let State::Syncing { again } = worker.state else {
            return None;
        };
        if !matches!(outcome, Outcome::Done { changed: false, .. }) {
            worker.changed = Some(now);
        }
        let resync = jittered(&mut self.jitter, RESYNC);
        let pause = match outcome {
            Outcome::Done { again_in, .. } => again_in.map_or(resync, |soon| soon.min(resync)),
            Outcome::Failed(_) => jittered(&mut self.jitter, AFTER_FAILURE),
            Outcome::NetworkNotReady => jittered(&mut self.jitter, AFTER_NETWORK_FAILURE),
            Outcome::Ended => {
                // Only a pod that was to end can have ended.
                if let Aim::End { then } = &mut worker.goal {
                    match then.take() {
                        Some(spec) => worker.goal = Aim::Run(spec),
                        None => return self.take(uid).map(Action::Gone),
                    }
                }
                Duration::ZERO
            }
        };
        let pause = if again { Duration::ZERO } else { pause };
        worker.state = State::Idle { due: now + pause };
        None
    }

    fn look_at_gate(&mut self, now: Instant, errors: Vec<String>) -> Option<Action<S>> {
        match self.gate.look(now, self.policy, errors.is_empty()) {
            gate::Turn::Nothing => None,
            gate::Turn::Skips(pause) => Some(Action::Skip { errors, pause }),
            gate::Turn::Opened(closed_for) => Some(Action::Opened { closed_for }),
        }
    }

    fn begin_due(&mut self, now: Instant, actions: &mut Vec<Action<S>>) {
        let workers = self.workers.values();
        let due = workers.filter(|it| it.is_due(now) && !self.is_held(it));
        let due: Vec<PodUid> = due.map(|it| it.pod.uid.clone()).collect();
        for uid in due {
            if let Some(worker) = self.workers.get_mut(&uid) {
                actions.push(worker.begin());
            }
        }
    }

    /// Whether a pod waits for the end of another one of its name.
    fn is_held(&self, worker: &Worker<S>) -> bool {
        let runs = matches!(worker.goal, Aim::Run(_));
        runs && self
            .names
            .get(&name(&worker.pod))
            .is_some_and(|of_name| *of_name > 1)
    }
}

impl<S: Clone> Worker<S> {
    fn new(now: Instant, pod: PodRef, goal: Aim<S>) -> Self {
        Self {
            pod,
            goal,
            changed: None,
            state: State::Idle { due: now },
        }
    }

    fn run(&mut self, now: Instant, spec: S) {
        match &mut self.goal {
            Aim::Run(old) => *old = spec,
            Aim::End { then } => *then = Some(spec),
        }
        self.wake(now);
    }

    fn end(&mut self, now: Instant) {
        self.goal = Aim::End { then: None };
        self.wake(now);
    }

    fn wake(&mut self, now: Instant) {
        match &mut self.state {
            State::Idle { due } => *due = now.min(*due),
            State::Syncing { again } => *again = true,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        matches!(self.state, State::Idle { due } if now >= due)
    }

    fn begin(&mut self) -> Action<S> {
        self.state = State::Syncing { again: false };
        Action::Sync {
            pod: self.pod.clone(),
            goal: match &self.goal {
                Aim::Run(spec) => Goal::Run(spec.clone()),
                Aim::End { .. } => Goal::End,
            },
            since: self.changed,
        }
    }
}

fn name(pod: &PodRef) -> Name {
    (pod.namespace.clone(), pod.name.clone())
}

fn is_namesake(one: &PodRef, other: &PodRef) -> bool {
    one.uid != other.uid && name(one) == name(other)
}

fn jittered(random: &mut fastrand::Rng, time: Duration) -> Duration {
    time.mul_f64(1.0 + random.f64() * JITTER)
}

#[cfg(test)]
mod tests;
