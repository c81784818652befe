//! Threads: the kernel functions that they wait in, and how often they have run.

use std::path::Path;

use super::stat::stat_by_worker;
use crate::collect::helper::Reads;
use crate::collect::host::file::printable;
use crate::facts::host::Thread;

/// How many threads of one process are read.
const MAX_READ: usize = 4096;

/// The kernel function that a task waits in.
pub(super) fn wchan(reads: &Reads, folder: &Path) -> Option<String> {
    let name = line(reads, &folder.join("wchan"))?;
    (!name.is_empty() && name != "0").then_some(name)
}

/// All threads, or only those in uninterruptible sleep; at most `max`.
pub(super) fn of(reads: &Reads, folder: &Path, all: bool, max: usize) -> Vec<Thread> {
    let mut threads = Vec::new();
    for task in tasks(reads, folder) {
        let folder = folder.join("task").join(task.to_string());
        let Ok(stat) = stat_by_worker(reads, &folder) else {
            continue;
        };
        if (all || stat.state == 'D') && threads.len() < max {
            threads.push(Thread {
                tid: task,
                comm: line(reads, &folder.join("comm")).unwrap_or(stat.comm),
                state: stat.state,
                wchan: wchan(reads, &folder),
                ..Thread::default()
            });
        }
    }
    threads
}

fn line(reads: &Reads, path: &Path) -> Option<String> {
    Some(printable(reads.text(path).ok()?.trim_end()))
}

fn tasks(reads: &Reads, folder: &Path) -> Vec<u32> {
    let folder = folder.join("task");
    let tasks = reads.at(&folder, || {
        let names = std::fs::read_dir(&folder)?.flatten();
        let tasks = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Ok(tasks.take(MAX_READ).collect())
    });
    tasks.unwrap_or_default()
}

/// How long all threads of a process together have waited for a CPU, in nanoseconds.
pub(super) fn delay(reads: &Reads, folder: &Path) -> Option<u64> {
    let delays = tasks(reads, folder).into_iter().filter_map(|task| {
        let text = reads
            .text(&folder.join(format!("task/{task}/schedstat")))
            .ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    });
    delays.reduce(u64::saturating_add)
}

/// How many context switches a thread has had.
pub(super) fn switches(reads: &Reads, folder: &Path, tid: u32) -> Option<u64> {
    let status = reads
        .text(&folder.join(format!("task/{tid}/status")))
        .ok()?;
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
