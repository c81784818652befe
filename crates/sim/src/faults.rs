//! Faults of calls. A fault affects one id or all calls of a method. A held status lock, a stop and
//! a restart of the runtime affect several methods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cri::Rpc;
use fastrand::Rng;
use pleg::model::id::Id;
use pleg::runtime::{CallError, NoConnection};
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call takes this long.
    Slow(Duration),
    /// The call takes a random time between these two. The times are the same in each run.
    Jitter(Duration, Duration),
    /// The call does not return until the fault is lifted.
    Hang,
    /// The call fails.
    Fail(CallError),
    /// The call crashes the runtime, which is then unreachable for this long.
    Crash(Duration),
    /// The answer is larger than the 16 MiB that a kubelet receives.
    Oversize,
    /// The answer does not conform to CRI.
    Malformed(Malformation),
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformation {
    /// The bytes are not a message.
    Garbage,
    /// The message lacks the requested status.
    WithoutStatus,
    /// The status, including its id, is that of another object.
    OfAnother,
}

/// The form of the answer to a call that does not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Correct,
    Oversize,
    Malformed(Malformation),
}

/// Which object the status in an answer describes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusOf {
    Requested,
    Another,
}

/// The current faults. A fault without an id affects all calls of its method.
#[derive(Debug)]
pub struct Faults {
    faults: BTreeMap<(Rpc, Option<Id>), Fault>,
    /// Containers whose status lock is held.
    locked: BTreeSet<Id>,
    /// The time until which the runtime is unreachable after a restart.
    down: Option<Instant>,
    /// The number of calls that crashed the runtime.
    crashes: usize,
    /// Whether the runtime answers no call.
    stopped: bool,
    random: Rng,
    /// Notifies waiting calls of each change. Unlike a watch channel, it wakes the waiting tasks in the
    /// order in which they began to wait, so each run takes the same course.
    changed: Arc<Notify>,
    restarted: watch::Sender<()>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            faults: BTreeMap::new(),
            locked: BTreeSet::new(),
            down: None,
            crashes: 0,
            stopped: false,
            random: Rng::with_seed(0),
            changed: Arc::default(),
            restarted: watch::Sender::new(()),
        }
    }
}

impl Faults {
    /// Sets the fault of a method and an id, or of all calls of the method. It replaces the previous fault.
    pub fn set(&mut self, call: Rpc, id: Option<Id>, fault: Fault) {
        self.faults.insert((call, id), fault);
        self.changed.notify_waiters();
    }

    /// Lifts a fault. Calls that hang because of it continue.
    pub fn lift(&mut self, call: Rpc, id: Option<Id>) {
        self.faults.remove(&(call, id));
        self.changed.notify_waiters();
    }

    /// Lifts all faults.
    pub fn lift_all(&mut self) {
        self.faults.clear();
        self.locked.clear();
        self.down = None;
        self.stopped = false;
        self.changed.notify_waiters();
    }

    /// Takes the status lock of a container.
    pub fn lock(&mut self, id: Id) {
        self.locked.insert(id);
        self.changed.notify_waiters();
    }

    /// Releases the status lock of a container.
    pub fn unlock(&mut self, id: &Id) {
        self.locked.remove(id);
        self.changed.notify_waiters();
    }

    /// Whether any container's status lock is held.
    pub fn is_locked(&self) -> bool {
        !self.locked.is_empty()
    }

    /// Stops the runtime: no call returns.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.changed.notify_waiters();
    }

    /// Continues a stopped runtime.
    pub fn resume(&mut self) {
        self.stopped = false;
        self.changed.notify_waiters();
    }

    /// Whether the runtime is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Fails all outstanding calls, and all new ones until the time `down`.
    pub fn restart(&mut self, down: Instant) {
        self.down = Some(down);
        self.restarted.send_replace(());
    }

    /// The number of calls that crashed the runtime.
    pub fn crashes(&self) -> usize {
        self.crashes
    }

    /// The time until which the runtime is unreachable, if it is unreachable now.
    pub(crate) fn down(&self) -> Option<Instant> {
        self.down.filter(|until| *until > Instant::now())
    }

    /// A receiver that is notified of each restart of the runtime.
    pub(crate) fn restarts(&self) -> watch::Receiver<()> {
        self.restarted.subscribe()
    }

    /// Whether a call waits for a status lock. As measured with containerd 1.7.24, calls that read all
    /// containers wait, and so do calls that create or start a container. Of the status calls, only those
    /// of the locked container wait.
    fn waits_for_a_lock(&self, rpc: Rpc, id: Option<&Id>) -> bool {
        match rpc {
            Rpc::ListContainers | Rpc::CreateContainer | Rpc::StartContainer => self.is_locked(),
            Rpc::ContainerStatus => id.is_some_and(|id| self.locked.contains(id)),
            _ => false,
        }
    }

    /// The fault that was set for this method and id.
    fn own(&self, rpc: Rpc, id: Option<&Id>) -> Option<&Fault> {
        id.and_then(|id| self.faults.get(&(rpc, Some(id.clone()))))
    }

    /// The next thing that happens to a call.
    fn step(&mut self, rpc: Rpc, id: Option<&Id>) -> CallStep {
        if self.down().is_some() {
            return CallStep::Done(Err(CallError::connection_refused()));
        }
        let is_locked = self.waits_for_a_lock(rpc, id);
        let own = self.own(rpc, id);
        let cause = match own {
            Some(Fault::Hang | Fault::Slow(_) | Fault::Jitter(..)) => DelayCause::OwnFault,
            _ if is_locked && id.is_some() => DelayCause::OwnFault,
            _ => DelayCause::SharedFault,
        };
        if self.stopped || is_locked {
            return CallStep::Wait(cause, self.changed.clone().notified_owned());
        }
        let fault = own.or_else(|| self.faults.get(&(rpc, None)));
        match fault.cloned() {
            None => CallStep::Done(Ok(AnswerForm::Correct)),
            Some(Fault::Fail(error)) => CallStep::Done(Err(error)),
            Some(Fault::Crash(down)) => {
                self.crashes += 1;
                self.restart(Instant::now() + down);
                CallStep::Done(Err(lost()))
            }
            Some(Fault::Oversize) => CallStep::Done(Ok(AnswerForm::Oversize)),
            Some(Fault::Malformed(how)) => CallStep::Done(Ok(AnswerForm::Malformed(how))),
            Some(Fault::Slow(time)) => CallStep::Sleep(cause, time),
            Some(Fault::Jitter(min, max)) => {
                let more = max.saturating_sub(min).mul_f64(self.random.f64());
                CallStep::Sleep(cause, min + more)
            }
            Some(Fault::Hang) => CallStep::Wait(cause, self.changed.clone().notified_owned()),
        }
    }

    /// If the runtime is stopped: a future that ends after the next change of the faults.
    fn change_after_stop(&self) -> Option<OwnedNotified> {
        self.stopped.then(|| self.changed.clone().notified_owned())
    }
}

/// What delays a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayCause {
    /// A fault of the call's id.
    OwnFault,
    /// A fault that delays other calls too.
    SharedFault,
}

/// The next thing that happens to a call.
enum CallStep {
    Done(Result<AnswerForm, CallError>),
    Sleep(DelayCause, Duration),
    Wait(DelayCause, OwnedNotified),
}

/// Applies the faults of a call, and reports what delays it to `delayed_by`. A restart of the runtime
/// ends the call.
pub(crate) async fn pass_faults(
    faults: &Mutex<Faults>,
    rpc: Rpc,
    id: Option<&Id>,
    delayed_by: impl Fn(DelayCause),
) -> Result<AnswerForm, CallError> {
    let mut restarts = locked(faults).restarts();
    tokio::select! {
        biased;
        _ = restarts.changed() => Err(lost()),
        answer = wait_for_answer(faults, rpc, id, delayed_by) => answer,
    }
}

fn lost() -> CallError {
    CallError::unavailable(NoConnection::Lost, "connection reset by peer")
}

async fn wait_for_answer(
    faults: &Mutex<Faults>,
    rpc: Rpc,
    id: Option<&Id>,
    delayed_by: impl Fn(DelayCause),
) -> Result<AnswerForm, CallError> {
    loop {
        let step = locked(faults).step(rpc, id);
        match step {
            CallStep::Done(result) => return result,
            CallStep::Sleep(cause, time) => {
                delayed_by(cause);
                sleep(time).await;
                loop {
                    let changed = locked(faults).change_after_stop();
                    match changed {
                        Some(changed) => changed.await,
                        None => return Ok(AnswerForm::Correct),
                    }
                }
            }
            CallStep::Wait(cause, changed) => {
                delayed_by(cause);
                changed.await;
            }
        }
    }
}

fn locked(faults: &Mutex<Faults>) -> MutexGuard<'_, Faults> {
    faults.lock().expect("no panic while it is held")
}
