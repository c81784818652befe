//! Who is synced when: pure, told the time.
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
//! One sync of a pod at a time; whatever wakes it meanwhile is one more sync. A kubelet's pod
//! workers do the same. Source: Kubernetes 1.36, `pkg/kubelet/pod_workers.go`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use tokio::time::Instant;

use crate::gate::{self, Gate, Policy};
use crate::{Change, Goal, Outcome};

/// A kubelet's `syncFrequency`: a pod is synced this often, whatever happens.
pub const RESYNC: Duration = Duration::from_secs(60);

/// After a failure.
pub const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// After one that the runtime's network caused.
pub const AFTER_NETWORK_FAILURE: Duration = Duration::from_secs(1);

/// Times are up to this much longer, each time by another part of it, so that not all pods are
/// synced at once.
const JITTER: f64 = 0.5;

/// The core of a sync loop.
#[derive(Debug)]
pub struct SyncLoop<S> {
    policy: Policy,
    workers: BTreeMap<PodUid, Worker<S>>,
    /// How many of them have one name.
    names: BTreeMap<Name, usize>,
    gate: Gate,
    jitter: fastrand::Rng,
}

/// A namespace and a name in it.
type Name = (Arc<str>, Arc<str>);

/// What happens to it.
#[derive(Debug)]
pub enum Input<S> {
    /// A source told this.
    Change(Change<S>),
    /// Something happened to a pod.
    Woken(PodUid),
    /// Something happened, and nobody knows to whom.
    AllWoken,
    /// The sync of a pod has ended.
    Ended(PodUid, Outcome),
    /// What stops all pods at this time; nothing, if it is empty.
    Errors(Vec<String>),
    /// Time has passed.
    Time,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<S> {
    /// Sync this pod, by a status that is newer than its last sync that changed something.
    Sync {
        /// Which.
        pod: PodRef,
        /// To what end.
        goal: Goal<S>,
        /// When that one ended.
        since: Option<Instant>,
    },
    /// Say that nothing is begun.
    Skip {
        /// Why.
        errors: Vec<String>,
        /// When this is looked at again.
        pause: Duration,
    },
    /// Say that work goes on.
    Opened {
        /// How long nothing was begun.
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

/// What is to become of a pod, and what then.
#[derive(Clone, Debug)]
enum Aim<S> {
    Run(S),
    /// It may have been wanted again since: a pod that ends is ended first.
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
    /// A loop without pods. It is closed until it was told that there is nothing that stops all
    /// pods.
    pub fn new(now: Instant, policy: Policy, jitter: fastrand::Rng) -> Self {
        Self {
            policy,
            workers: BTreeMap::new(),
            names: BTreeMap::new(),
            gate: Gate::at_start(now),
            jitter,
        }
    }

    /// One step.
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

    /// When there is something to do by then; of the gate, that it has to be looked at.
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

    /// Whether anything is begun.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// How many pods there are.
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
                // Whether it ended or not is known of a pod that was to end.
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

    /// Whether a pod has to wait for the end of another one of its name.
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
