//! The second sample, and what a few processes wait for, which a helper reads later.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use causes::finding::PodName;
use serde::{Deserialize, Serialize};

use super::stat::stat_by_worker;
use super::{MAX_THREADS, plugin, threads};
use crate::collect::helper::{Reads, read_all};
use crate::facts::Missing;
use crate::facts::host::process::is_stopped;
use crate::facts::host::{Gaps, Thread};

/// Tools that look at a process stop it for a moment.
const STOPPED_FOR: Duration = Duration::from_millis(100);
/// How many of those that are stopped are read again after that.
const MOST_WAITS: usize = 10;

/// What to read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::collect) struct LookAt {
    pub pid: u32,
    /// Whether to see how long it waited for a processor.
    pub delay: bool,
    /// Threads that were in uninterruptible sleep.
    pub threads: Vec<u32>,
}

/// The second sample.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct SecondSample {
    pub found: Vec<(u32, Now)>,
    pub gaps: Gaps,
}

/// A process in the second sample.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) enum Now {
    Gone,
    There(Again),
}

/// A process that is still there, if it is the same.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Again {
    pub start: u64,
    pub state: char,
    pub ticks: u64,
    pub delay: Option<u64>,
    pub threads: Vec<ThreadAgain>,
}

/// A thread of it.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct ThreadAgain {
    pub tid: u32,
    pub state: char,
    pub switches: u64,
}

/// What some processes wait for.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Waiters {
    pub found: Vec<(u32, Waiter)>,
    pub gaps: Gaps,
}

/// One of them.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Waiter {
    /// All its threads.
    pub threads: Vec<Thread>,
    /// The pod for which it was started, if it is a CNI plugin.
    pub pod: Option<PodName>,
}

/// Reads these again, within `limit`.
pub(in crate::collect) fn second_look(
    proc: PathBuf,
    at: Vec<LookAt>,
    limit: Duration,
) -> SecondSample {
    let until = Instant::now() + limit;
    let waits = AtomicUsize::new(0);
    let outcome = read_all(at, until, move |reads, at: &LookAt| {
        let folder = proc.join(at.pid.to_string());
        let mut stat = stat_by_worker(reads, &folder);
        if stat.as_ref().is_ok_and(|stat| is_stopped(stat.state))
            && waits.fetch_add(1, Ordering::Relaxed) < MOST_WAITS
        {
            std::thread::sleep(STOPPED_FOR);
            stat = stat_by_worker(reads, &folder);
        }
        let stat = match stat {
            Ok(stat) => stat,
            Err(Missing::Blocked(_) | Missing::Other(_)) => return None,
            Err(_) => return Some((at.pid, Now::Gone)),
        };
        let delay = at.delay.then(|| threads::delay(reads, &folder)).flatten();
        let threads = at.threads.iter().filter_map(|tid| {
            let task = folder.join("task").join(tid.to_string());
            Some(ThreadAgain {
                tid: *tid,
                state: stat_by_worker(reads, &task).ok()?.state,
                switches: threads::switches(reads, &folder, *tid)?,
            })
        });
        let again = Again {
            start: stat.start,
            state: stat.state,
            ticks: stat.ticks,
            delay,
            threads: threads.collect(),
        };
        Some((at.pid, Now::There(again)))
    });
    SecondSample {
        found: outcome.done,
        gaps: outcome.gaps,
    }
}

/// All threads of these, within `limit`.
pub(in crate::collect) fn threads_of(proc: PathBuf, of: Vec<u32>, limit: Duration) -> Waiters {
    let until = Instant::now() + limit;
    let outcome = read_all(of, until, move |reads: &Reads, pid: &u32| {
        let folder = proc.join(pid.to_string());
        let waiter = Waiter {
            threads: threads::of(reads, &folder, true, MAX_THREADS),
            pod: plugin::pod(reads, &folder),
        };
        Some((*pid, waiter))
    });
    Waiters {
        found: outcome.done,
        gaps: outcome.gaps,
    }
}
