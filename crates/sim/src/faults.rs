//! What goes wrong with calls: to one id, or to all of a kind; by a status lock; by a stop
//! and by a restart of the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
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
    /// It takes this long.
    Slow(Duration),
    /// It takes a random time between these two, the same ones in each run.
    Jitter(Duration, Duration),
    /// It does not return until the fault is lifted.
    Hang,
    /// It fails.
    Fail(CallError),
    /// The runtime goes away when it is called, for this long.
    Crash(Duration),
    /// Its answer is larger than the 16 MiB that a kubelet receives.
    Oversize,
    /// Its answer is not what CRI says that it is.
    Malformed(Malformation),
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformation {
    /// Its bytes are no message.
    Garbage,
    /// It is a message that lacks the status that was asked for.
    WithoutStatus,
    /// It is the status of something else than was asked for, id and all.
    OfAnother,
}

/// How the answer to a call is to be made that got through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Well,
    Oversize,
    Malformed(Malformation),
}

/// The faults in force, by method and id; without an id, for all calls of the kind.
#[derive(Debug)]
pub struct Faults {
    faults: BTreeMap<(Rpc, Option<Id>), Fault>,
    /// Containers whose status lock is held.
    locked: BTreeSet<Id>,
    /// Until when nobody answers, after a restart.
    down: Option<Instant>,
    /// How often a call has made the runtime go away.
    crashes: usize,
    /// Nobody answers anything.
    stopped: bool,
    random: Rng,
    /// Unlike a watch channel it wakes those who wait in their order, so that a world goes
    /// the same way each time.
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
    /// Puts a fault in force, in place of another for the same.
    pub fn set(&mut self, call: Rpc, id: Option<Id>, fault: Fault) {
        self.faults.insert((call, id), fault);
        self.changed.notify_waiters();
    }

    /// Lifts a fault; calls that hang by it go on.
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

    /// Takes a container's status lock for something that does not end.
    pub fn lock(&mut self, id: Id) {
        self.locked.insert(id);
        self.changed.notify_waiters();
    }

    /// Gives it back.
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

    /// Lets it go on.
    pub fn go_on(&mut self) {
        self.stopped = false;
        self.changed.notify_waiters();
    }

    /// Whether the runtime is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Fails all calls under way, and all new ones until then.
    pub fn restart(&mut self, down: Instant) {
        self.down = Some(down);
        self.restarted.send_replace(());
    }

    /// How often a call has made the runtime go away.
    pub fn crashes(&self) -> usize {
        self.crashes
    }

    /// Until when nobody answers.
    pub(crate) fn down(&self) -> Option<Instant> {
        self.down.filter(|until| *until > Instant::now())
    }

    /// Is told when the runtime restarts.
    pub(crate) fn restarts(&self) -> watch::Receiver<()> {
        self.restarted.subscribe()
    }

    /// What was measured of containerd 1.7.24: whatever goes through all containers waits
    /// for the lock, creating and starting too, and of the statuses that one alone.
    fn waits_for_a_lock(&self, rpc: Rpc, id: Option<&Id>) -> bool {
        match rpc {
            Rpc::ListContainers | Rpc::CreateContainer | Rpc::StartContainer => self.is_locked(),
            Rpc::ContainerStatus => id.is_some_and(|id| self.locked.contains(id)),
            _ => false,
        }
    }

    /// The fault for a call: its own, else that of its kind.
    fn of(&self, rpc: Rpc, id: Option<&Id>) -> Option<&Fault> {
        let own = self.own(rpc, id);
        own.or_else(|| self.faults.get(&(rpc, None)))
    }

    fn own(&self, rpc: Rpc, id: Option<&Id>) -> Option<&Fault> {
        id.and_then(|id| self.faults.get(&(rpc, Some(id.clone()))))
    }

    fn trial(&mut self, rpc: Rpc, id: Option<&Id>) -> Trial {
        if self.down().is_some() {
            return Trial::Over(Err(CallError::connection_refused()));
        }
        let waits_alone = self.waits_for_a_lock(rpc, id) && id.is_some();
        let by = match self.own(rpc, id) {
            Some(Fault::Hang | Fault::Slow(_) | Fault::Jitter(..)) => HeldBy::ItsOwn,
            _ if waits_alone => HeldBy::ItsOwn,
            _ => HeldBy::All,
        };
        if self.stopped || self.waits_for_a_lock(rpc, id) {
            return Trial::Wait(by, self.changed.clone().notified_owned());
        }
        match self.of(rpc, id).cloned() {
            None => Trial::Over(Ok(Passed::Well)),
            Some(Fault::Fail(error)) => Trial::Over(Err(error)),
            Some(Fault::Crash(down)) => {
                self.crashes += 1;
                self.restart(Instant::now() + down);
                Trial::Over(Err(lost()))
            }
            Some(Fault::Oversize) => Trial::Over(Ok(Passed::Oversize)),
            Some(Fault::Malformed(how)) => Trial::Over(Ok(Passed::Malformed(how))),
            Some(Fault::Slow(time)) => Trial::Sleep(by, time),
            Some(Fault::Jitter(least, most)) => {
                let more = most.saturating_sub(least).mul_f64(self.random.f64());
                Trial::Sleep(by, least + more)
            }
            Some(Fault::Hang) => Trial::Wait(by, self.changed.clone().notified_owned()),
        }
    }

    /// What ends once the runtime goes on, if it is stopped.
    fn stop_ends(&self) -> Option<OwnedNotified> {
        self.stopped.then(|| self.changed.clone().notified_owned())
    }
}

/// What holds up a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBy {
    /// A fault of its id alone.
    ItsOwn,
    /// What holds up others too.
    All,
}

/// What a call has to do next.
enum Trial {
    Over(Result<Passed, CallError>),
    Sleep(HeldBy, Duration),
    Wait(HeldBy, OwnedNotified),
}

/// Goes through whatever is in force for a call, asking `faults` anew after it hung, and
/// notes what holds it up. A restart of the runtime ends it.
pub(crate) async fn suffer(
    faults: &Mutex<Faults>,
    rpc: Rpc,
    id: Option<&Id>,
    held: impl Fn(HeldBy),
) -> Result<Passed, CallError> {
    let mut restarted = of(faults, |faults| faults.restarts());
    tokio::select! {
        biased;
        _ = restarted.changed() => Err(lost()),
        passed = pass(faults, rpc, id, held) => passed,
    }
}

fn lost() -> CallError {
    CallError::unavailable(NoConnection::Lost, "connection reset by peer")
}

async fn pass(
    faults: &Mutex<Faults>,
    rpc: Rpc,
    id: Option<&Id>,
    held: impl Fn(HeldBy),
) -> Result<Passed, CallError> {
    loop {
        match of(faults, |faults| faults.trial(rpc, id)) {
            Trial::Over(result) => return result,
            Trial::Sleep(by, time) => {
                held(by);
                sleep(time).await;
                while let Some(changed) = of(faults, |faults| faults.stop_ends()) {
                    changed.await;
                }
                return Ok(Passed::Well);
            }
            Trial::Wait(by, changed) => {
                held(by);
                changed.await;
            }
        }
    }
}

fn of<T>(faults: &Mutex<Faults>, ask: impl FnOnce(&mut Faults) -> T) -> T {
    ask(&mut faults.lock().expect("no panic while it is held"))
}
