//! Threads: where they wait, and whether they ever run.

use std::path::Path;

use super::comm;
use super::stat::Stat;
use crate::collect::host::file::{line, text};
use crate::facts::host::Thread;

/// Of one process so many are looked at.
const MOST_LOOKED_AT: usize = 4096;

/// The kernel function that a task waits in.
pub(super) fn wchan(folder: &Path) -> Option<String> {
    let name = line(&folder.join("wchan")).ok()?;
    (!name.is_empty() && name != "0").then_some(name)
}

/// All threads, or those in uninterruptible sleep, and no more than `most`.
pub(super) fn of(folder: &Path, all: bool, most: usize) -> Vec<Thread> {
    let mut threads = Vec::new();
    for task in tasks(folder) {
        let folder = folder.join("task").join(task.to_string());
        let Some(stat) = Stat::read(&folder) else {
            continue;
        };
        if (all || stat.state == 'D') && threads.len() < most {
            threads.push(Thread {
                tid: task,
                comm: comm(&folder).unwrap_or(stat.comm),
                state: stat.state,
                wchan: wchan(&folder),
                ..Thread::default()
            });
        }
    }
    threads
}

fn tasks(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(folder.join("task"));
    let names = entries.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .take(MOST_LOOKED_AT)
}

/// How long all threads of a process waited for a processor, in nanoseconds.
pub(super) fn delay(folder: &Path) -> Option<u64> {
    let delays = tasks(folder).filter_map(|task| {
        let text = text(&folder.join(format!("task/{task}/schedstat"))).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    });
    delays.reduce(u64::saturating_add)
}

/// How often a thread gave up the processor, or lost it.
pub(super) fn switches(folder: &Path, tid: u32) -> Option<u64> {
    let status = text(&folder.join(format!("task/{tid}/status"))).ok()?;
    let counts = status.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        let counted = matches!(
            name,
            "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches"
        );
        counted.then(|| count.trim().parse::<u64>().ok())?
    });
    counts.reduce(u64::saturating_add)
}

/// Whether it is where it was, and has not run since.
pub(super) fn is_still(folder: &Path, thread: &Thread, before: u64) -> bool {
    let task = folder.join("task").join(thread.tid.to_string());
    let state = Stat::read(&task).map(|stat| stat.state);
    state == Some(thread.state) && switches(folder, thread.tid) == Some(before)
}
