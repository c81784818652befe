//! Symptoms: what this machine shows although all calls are answered. A runc or a CNI plugin does not
//! return, a container does not end, or its shim or conmon is stopped or gone; or no file can be written
//! where runtimes keep their state. In each case, a change that a kubelet has requested is not completed.
//! The doctor finds out why. If the runtime does not answer calls for statistics, that is a symptom as
//! well, which follows from reports and not from a scan.
//!
//! ```text
//!   every 15 s: new PIDs in /proc --> scan (pure) --> commands:   runcs and CNI plugins that are overdue
//!                                              \----> containers: processes that do not end, keepers
//! ```
//!
//! Reading one process takes 5 to 10 µs, and reading all PIDs took 0.3 ms with 630 processes. So processes
//! are read only if a symptom is possible. With 100 pods of two containers each, that is six a second, even
//! if processes start all the time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use pleg::kernel::Blocking;
use tokio::sync::watch;
use tokio::time::sleep;

use self::proc::Proc;
use self::scan::{PERIOD, Scan};

mod commands;
mod containers;
mod proc;
mod scan;
#[cfg(test)]
mod world;

/// A symptom. It is over when the process has ended, or the file system has room again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Symptom {
    /// A process that does not return, does not end, or does not serve its container.
    Process {
        pid: u32,
        /// When the process started, as time since boot. It distinguishes processes that reuse a PID.
        started: Duration,
    },
    /// A deletion of a container that is never completed: containerd ends the runc after ten seconds and,
    /// after growing pauses of up to five minutes, starts another one.
    Deletion {
        container: String,
        /// When the first runc was started.
        started: Duration,
    },
    /// The runtime does not answer statistics, as a guard shows.
    Statistics,
    /// The file system of this directory has no space, or no inodes.
    Full(&'static str),
}

impl Symptom {
    /// The process that shows the symptom, if it is a symptom of a single process.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Process { pid, .. } => Some(*pid),
            Self::Deletion { .. } | Self::Statistics | Self::Full(_) => None,
        }
    }
}

#[cfg(test)]
impl Symptom {
    pub(crate) fn of_test(pid: u32) -> Self {
        Self::Process {
            pid,
            started: Duration::ZERO,
        }
    }
}

/// How long one scan may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Keeps `symptoms` up to date.
pub(crate) async fn watch(
    proc: PathBuf,
    symptoms: &watch::Sender<BTreeSet<Symptom>>,
) -> Infallible {
    let blocking = Blocking::one_at_a_time();
    let new = || (Scan::default(), Proc::at(proc.clone()));
    let mut state = new();
    loop {
        let step = move || {
            let (mut scan, mut proc) = state;
            let next = scan.scan(&mut proc);
            ((scan, proc), next)
        };
        let next;
        (state, next) = match blocking.run(DEADLINE, step).await {
            Some((state, next)) => {
                let found = state.0.symptoms();
                symptoms.send_if_modified(|known| {
                    let is_new = *known != found;
                    *known = found;
                    is_new
                });
                (state, next)
            }
            // The scan did not return in time. Perhaps it reads a process with a symptom, so the last
            // result stays.
            None => (new(), PERIOD),
        };
        sleep(next).await;
    }
}
