//! The second sample, and the threads of a few processes, which are read later.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use causes::finding::PodName;
use serde::{Deserialize, Serialize};

use super::stat::stat_by_worker;
use super::{MAX_THREADS, plugin, threads};
use crate::collect::helper::{Outcome, Reads, read_all};
use crate::facts::Missing;
use crate::facts::host::Thread;
use crate::facts::host::process::is_stopped;

/// How long a tool such as a debugger may stop a process in order to inspect it.
const STOPPED_FOR: Duration = Duration::from_millis(100);
/// The maximum number of stopped processes that are read again after [`STOPPED_FOR`].
const MAX_WAITS: usize = 10;

/// A process to read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::collect) struct LookAt {
    pub pid: u32,
    /// Whether to read how long its threads waited for a CPU.
    pub delay: bool,
    /// Its threads that were in uninterruptible sleep in the first sample.
    pub threads: Vec<u32>,
}

/// A process in the second sample.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) enum Now {
    Gone,
    There(Again),
}

/// The values of a process in the second sample. The PID may have been reused, which `start` shows.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Again {
    pub start: u64,
    pub state: char,
    pub ticks: u64,
    pub delay: Option<u64>,
    /// How often each thread that is still in uninterruptible sleep has run.
    pub switches: HashMap<u32, u64>,
}

/// The facts that show what a process waits for.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Waiter {
    /// All its threads.
    pub threads: Vec<Thread>,
    /// The pod for which it was started, if it is a CNI plugin.
    pub pod: Option<PodName>,
}

/// Reads these processes again, within `limit`.
pub(in crate::collect) fn second_sample(
    proc: PathBuf,
    at: Vec<LookAt>,
    limit: Duration,
) -> Outcome<(u32, Now)> {
    let waits = AtomicUsize::new(0);
    read_all(at, Instant::now() + limit, move |reads, at: &LookAt| {
        let folder = proc.join(at.pid.to_string());
        let mut stat = stat_by_worker(reads, &folder);
        if stat.as_ref().is_ok_and(|stat| is_stopped(stat.state))
            && waits.fetch_add(1, Ordering::Relaxed) < MAX_WAITS
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
        let switches = at.threads.iter().filter_map(|tid| {
            let task = folder.join("task").join(tid.to_string());
            let is_asleep = stat_by_worker(reads, &task).ok()?.state == 'D';
            Some((*tid, threads::switches(reads, &folder, *tid)?)).filter(|_| is_asleep)
        });
        let again = Again {
            start: stat.start,
            state: stat.state,
            ticks: stat.ticks,
            delay,
            switches: switches.collect(),
        };
        Some((at.pid, Now::There(again)))
    })
}

/// All threads of these processes, read within `limit`.
pub(in crate::collect) fn threads_of(
    proc: PathBuf,
    of: Vec<u32>,
    limit: Duration,
) -> Outcome<(u32, Waiter)> {
    read_all(
        of,
        Instant::now() + limit,
        move |reads: &Reads, pid: &u32| {
            let folder = proc.join(pid.to_string());
            let waiter = Waiter {
                threads: threads::of(reads, &folder, true, MAX_THREADS),
                pod: plugin::pod(reads, &folder),
            };
            Some((*pid, waiter))
        },
    )
}
