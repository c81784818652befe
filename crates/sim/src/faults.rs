//! What goes wrong with calls: to one id, or to all of a kind.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use pleg::id::Id;
use pleg::runtime::{Call, CallError};
use tokio::sync::watch;
use tokio::time::sleep;

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It takes this long.
    Slow(Duration),
    /// It does not return until the fault is lifted.
    Hang,
    /// It fails.
    Fail(CallError),
}

/// The faults in force, by call and id; without an id, for all calls of the kind.
#[derive(Debug)]
pub struct Faults {
    faults: BTreeMap<(Call, Option<Id>), Fault>,
    lifted: watch::Sender<()>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            faults: BTreeMap::new(),
            lifted: watch::Sender::new(()),
        }
    }
}

impl Faults {
    /// Puts a fault in force, in place of another for the same.
    pub fn set(&mut self, call: Call, id: Option<Id>, fault: Fault) {
        self.faults.insert((call, id), fault);
        self.lifted.send_replace(());
    }

    /// Lifts a fault; calls that hang by it go on.
    pub fn lift(&mut self, call: Call, id: Option<Id>) {
        self.faults.remove(&(call, id));
        self.lifted.send_replace(());
    }

    /// Lifts all faults.
    pub fn lift_all(&mut self) {
        self.faults.clear();
        self.lifted.send_replace(());
    }

    /// The fault for a call: its own, else that of its kind.
    fn of(&self, call: Call, id: Option<&Id>) -> Option<&Fault> {
        let own = id.and_then(|id| self.faults.get(&(call, Some(id.clone()))));
        own.or_else(|| self.faults.get(&(call, None)))
    }
}

/// What a call has to do next.
enum Trial {
    Through(Result<(), CallError>),
    Sleep(Duration),
    Wait(watch::Receiver<()>),
}

impl Faults {
    fn trial(&self, call: Call, id: Option<&Id>) -> Trial {
        match self.of(call, id) {
            None => Trial::Through(Ok(())),
            Some(Fault::Fail(error)) => Trial::Through(Err(error.clone())),
            Some(Fault::Slow(time)) => Trial::Sleep(*time),
            Some(Fault::Hang) => Trial::Wait(self.lifted.subscribe()),
        }
    }
}

/// Goes through whatever is in force for a call, asking `faults` anew after it hung.
pub(crate) async fn suffer(
    faults: &Mutex<Faults>,
    call: Call,
    id: Option<&Id>,
) -> Result<(), CallError> {
    loop {
        let trial = faults
            .lock()
            .expect("no panic while it is held")
            .trial(call, id);
        match trial {
            Trial::Through(result) => return result,
            Trial::Sleep(time) => {
                sleep(time).await;
                return Ok(());
            }
            // The sender lives as long as the faults do.
            Trial::Wait(mut lifted) => {
                let _ = lifted.changed().await;
            }
        }
    }
}
