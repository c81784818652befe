//! Decides which pod is synced when. It is pure: the time is an argument.
//!
//! ```text
//!   Set --> blocked until another pod with its name has ended
//!              |
//!              v
//!            Idle { due } --due, gate open--> Syncing --ended--> removed
//!              ^  woken: due now              |  woken: one more sync
//!              |                              |
//!              \--due after the resync interval, a back-off or a retry
//! ```
//!
//! A pod has one sync at a time. If it is woken during a sync, one more sync follows. Source:
//! Kubernetes 1.36, `pkg/kubelet/pod_workers.go`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use tokio::time::Instant;

use crate::gate::{Check, Gate, Policy};
use crate::{Change, Goal, Outcome};

/// The longest time between two syncs of a pod, without jitter: the kubelet's `syncFrequency`.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60);

/// The time from a failed sync to the next one, without jitter.
const RETRY_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The time from a sync that failed because of the runtime's network to the next one, without
/// jitter.
const RETRY_AFTER_NETWORK_FAILURE: Duration = Duration::from_secs(1);

/// The largest fraction of an interval by which it is extended at random, so that not all pods are
/// synced at once.
const MAX_JITTER: f64 = 0.5;

/// The workers of all pods and the gate in front of them.
#[derive(Debug)]
pub(crate) struct Scheduler<S> {
    policy: Policy,
    workers: BTreeMap<PodUid, Worker<S>>,
    /// The number of workers for each name.
    names: BTreeMap<Name, usize>,
    gate: Gate,
    jitter: fastrand::Rng,
}

/// A namespace and a name.
type Name = (Arc<str>, Arc<str>);

/// An input of the scheduler.
#[derive(Debug)]
pub(crate) enum Input<S> {
    /// A change of the source.
    Change(Change<S>),
    /// A pod needs a sync, because of an event.
    Woken(PodUid),
    /// All pods need a sync, because events were lost.
    AllWoken,
    /// The sync of a pod has ended.
    Ended(PodUid, Outcome),
    /// The errors that pause all pods now; empty if there are none.
    Errors(Vec<String>),
    /// The time of [`Scheduler::alarm`] has been reached.
    Time,
}

/// An action to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action<S> {
    /// Sync this pod with a status as of `since` or later.
    Sync {
        pod: PodRef,
        goal: Goal<S>,
        /// When the last sync that changed something, or may have, ended.
        since: Option<Instant>,
    },
    /// Report that the gate is closed.
    Skip { errors: Vec<String> },
    /// Report that the gate has opened.
    Opened { closed_for: Duration },
    /// Report that everything that belongs to a pod is removed.
    Gone(PodRef),
}

#[derive(Debug)]
struct Worker<S> {
    pod: PodRef,
    goal: WorkerGoal<S>,
    /// When the last sync that changed something, or may have, ended.
    changed_at: Option<Instant>,
    state: State,
}

/// The goal of a worker, and the next one, if there is one.
#[derive(Clone, Debug)]
enum WorkerGoal<S> {
    Run(S),
    /// If the pod is wanted again, it ends first and then runs by `then`.
    End {
        then: Option<S>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle { due: Instant },
    Syncing { again: bool },
}

impl<S: Clone> Scheduler<S> {
    /// A scheduler without pods. Its gate is closed until the first [`Input::Errors`] without
    /// errors.
    pub(crate) fn new(now: Instant, policy: Policy, jitter: fastrand::Rng) -> Self {
        Self {
            policy,
            workers: BTreeMap::new(),
            names: BTreeMap::new(),
            gate: Gate::at_start(now),
            jitter,
        }
    }

    /// Applies an input, and returns the actions to perform.
    pub(crate) fn step(&mut self, now: Instant, input: Input<S>) -> Vec<Action<S>> {
        let mut actions = Vec::new();
        match input {
            Input::Change(Change::Set(pod, spec)) => self.set(now, pod, spec),
            Input::Change(Change::Remove(pod)) => self.remove(now, pod),
            Input::Woken(uid) => {
                if let Some(worker) = self.workers.get_mut(&uid) {
                    worker.wake(now);
                }
            }
            Input::AllWoken => self.workers.values_mut().for_each(|it| it.wake(now)),
            Input::Ended(uid, outcome) => actions.extend(self.ended(now, &uid, outcome)),
            Input::Errors(errors) => actions.extend(self.check_gate(now, errors)),
            Input::Time => {}
        }
        if self.gate == Gate::Open {
            self.begin_due(now, &mut actions);
        }
        actions
    }

    /// The next time at which a sync or a check of the gate is due.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let Gate::Open = self.gate else {
            return self.gate.alarm();
        };
        let workers = self.workers.values();
        let due = workers.filter_map(|it| match it.state {
            State::Idle { due } if !self.is_blocked(it) => Some(due),
            _ => None,
        });
        due.min()
    }

    /// The state of the gate.
    pub(crate) fn gate(&self) -> Gate {
        self.gate
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
            None => self.add(now, pod, WorkerGoal::Run(spec)),
        }
    }

    fn remove(&mut self, now: Instant, pod: PodRef) {
        match self.workers.get_mut(&pod.uid) {
            Some(worker) => worker.end(now),
            None => self.add(now, pod, WorkerGoal::End { then: None }),
        }
    }

    fn add(&mut self, now: Instant, pod: PodRef, goal: WorkerGoal<S>) {
        *self.names.entry(name(&pod)).or_default() += 1;
        let worker = Worker {
            pod: pod.clone(),
            goal,
            changed_at: None,
            state: State::Idle { due: now },
        };
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

    fn ended(&mut self, now: Instant, uid: &PodUid, outcome: Outcome) -> Option<Action<S>> {
        let worker = self.workers.get_mut(uid)?;
        let State::Syncing { again } = worker.state else {
            return None;
        };
        if !matches!(outcome, Outcome::Done { changed: false, .. }) {
            worker.changed_at = Some(now);
        }
        let resync = jittered(&mut self.jitter, RESYNC_INTERVAL);
        let pause = match outcome {
            Outcome::Done { again_in, .. } => again_in.map_or(resync, |soon| soon.min(resync)),
            Outcome::Failed(_) => jittered(&mut self.jitter, RETRY_AFTER_FAILURE),
            Outcome::NetworkNotReady => jittered(&mut self.jitter, RETRY_AFTER_NETWORK_FAILURE),
            Outcome::Ended => {
                // If the pod must run, `Ended` is only a reason to sync again.
                if let WorkerGoal::End { then } = &mut worker.goal {
                    match then.take() {
                        Some(spec) => worker.goal = WorkerGoal::Run(spec),
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

    fn check_gate(&mut self, now: Instant, errors: Vec<String>) -> Option<Action<S>> {
        match self.gate.check(now, self.policy, errors.is_empty()) {
            Check::Unchanged => None,
            Check::Skip => Some(Action::Skip { errors }),
            Check::Opened(closed_for) => Some(Action::Opened { closed_for }),
        }
    }

    fn begin_due(&mut self, now: Instant, actions: &mut Vec<Action<S>>) {
        let workers = self.workers.values();
        let due = workers.filter(|it| it.is_due(now) && !self.is_blocked(it));
        let due: Vec<PodUid> = due.map(|it| it.pod.uid.clone()).collect();
        for uid in due {
            if let Some(worker) = self.workers.get_mut(&uid) {
                actions.push(worker.begin());
            }
        }
    }

    /// Whether a pod must wait until another pod with its name has ended.
    fn is_blocked(&self, worker: &Worker<S>) -> bool {
        let has_namesake = || self.names.get(&name(&worker.pod)) > Some(&1);
        matches!(worker.goal, WorkerGoal::Run(_)) && has_namesake()
    }
}

impl<S: Clone> Worker<S> {
    fn run(&mut self, now: Instant, spec: S) {
        match &mut self.goal {
            WorkerGoal::Run(old) => *old = spec,
            WorkerGoal::End { then } => *then = Some(spec),
        }
        self.wake(now);
    }

    fn end(&mut self, now: Instant) {
        self.goal = WorkerGoal::End { then: None };
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
                WorkerGoal::Run(spec) => Goal::Run(spec.clone()),
                WorkerGoal::End { .. } => Goal::End,
            },
            since: self.changed_at,
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
    time.mul_f64(1.0 + random.f64() * MAX_JITTER)
}

#[cfg(test)]
mod tests;
