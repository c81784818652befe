//! The first of two samples of `/proc`: what is read of each process. [`Before`] is what the second sample is
//! compared with.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::host::{EndSignal, ProcessStatus};

use super::budget::Budget;
use super::stat::stat_by_worker;
use super::{Before, Census, cgroups, fds, threads};
use crate::collect::helper::{Reads, read_all};
use crate::collect::host::file::{printable, word};
use crate::collect::host::sockets::Holders;
use crate::facts::Fact;
use crate::facts::host::Process;
use crate::facts::host::process::{MAX_PROCESSES, RuncCommand};

/// The flag `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process in the first sample.
struct Seen {
    process: Process,
    before: Before,
    /// The inodes of the sockets that it has open.
    sockets: Vec<u32>,
}

/// All processes that can be read within `limit`.
pub(in crate::collect) fn first_sample(proc: &Path, limit: Duration) -> io::Result<Census> {
    let until = Instant::now() + limit;
    let names = std::fs::read_dir(proc)?.flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pids: Vec<u32> = pids.take(MAX_PROCESSES).collect();
    let uptime = word::<f64>(&proc.join("uptime"), 0);
    let uptime = uptime.value().copied().unwrap_or(0.0);
    let budget = Mutex::new(Budget::default());
    let proc = proc.to_owned();
    // A process that has ended since is left out.
    let outcome = read_all(pids, until, move |reads, pid| {
        see(reads, &proc, *pid, uptime, &budget)
    });
    let mut census = Census {
        processes: Vec::new(),
        before: Default::default(),
        holders: Holders::default(),
        gaps: outcome.gaps,
    };
    for seen in outcome.done {
        let pid = seen.process.pid;
        for inode in seen.sockets {
            census.holders.add(inode, pid);
        }
        census.before.insert(pid, seen.before);
        census.processes.push(seen.process);
    }
    census.processes.sort_by_key(|process| process.pid);
    cgroups::strip_root(&mut census.processes);
    Ok(census)
}

/// Reads one process. If a read does not return, this attempt is abandoned and the next one reads the whole
/// process again. So the budget is charged after all reads, and is never locked during one.
fn see(reads: &Reads, proc: &Path, pid: u32, uptime: f64, budget: &Mutex<Budget>) -> Option<Seen> {
    let budget = || budget.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = proc.join(pid.to_string());
    let stat = stat_by_worker(reads, &folder).ok()?;
    let kernel = stat.flags & KERNEL_THREAD != 0;
    let status = reads.text(&folder.join("status")).unwrap_or_default();
    let status = ProcessStatus::parse(&status);
    let started = stat.start as f64 / rustix::param::clock_ticks_per_second() as f64;
    // Once a process has begun to end, its status no longer shows the SIGKILL as pending, but its stat does.
    let killed = stat.is_killed.then_some(EndSignal::Kill);
    let mut process = Process {
        pid,
        ppid: stat.ppid,
        uid: status.uid.unwrap_or(0),
        comm: stat.comm,
        state: stat.state,
        wchan: threads::wchan(reads, &folder),
        age_seconds: (uptime - started).max(0.0),
        kernel,
        thread_count: stat.threads,
        pending: killed.or(status.pending),
        tracer: status.tracer,
        ..Process::default()
    };
    if process.is_daemon() {
        let page = rustix::param::page_size() as u64;
        process.resident_kib = stat.resident.map(|pages| pages * page / 1024);
    }
    if process.is_daemon() || pid == 1 {
        let link = folder.join("ns/net");
        let network = reads.at(&link, || std::fs::read_link(&link)).ok();
        process.network = network.map(|network| printable(&network.to_string_lossy()));
    }
    if process.is_runc() {
        let cmdline = reads.text(&folder.join("cmdline")).unwrap_or_default();
        process.runc = RuncCommand::parse(&cmdline);
    }
    let serves = process.serves_containers();
    let max_threads = budget().threads_left(serves);
    process.threads = threads::of(reads, &folder, serves, max_threads);
    let mut sockets = Vec::new();
    if !kernel {
        process.fds = fds::count(reads, &folder, |inode| sockets.push(inode));
    }
    let blocked = process.threads.iter().filter(|thread| thread.state == 'D');
    let switches = blocked.filter_map(|thread| {
        let switches = threads::switches(reads, &folder, thread.tid)?;
        Some((thread.tid, switches))
    });
    let before = Before {
        start: stat.start,
        ticks: stat.ticks,
        switches: switches.collect(),
        delay: serves.then(|| threads::delay(reads, &folder)).flatten(),
    };
    let cgroups = cgroups::of(reads, &folder);
    let mut budget = budget();
    budget.charge_threads(serves, process.threads.len());
    process.cgroups = budget.take_cgroups(cgroups);
    if let Fact::Known { value: fds, .. } = &mut process.fds {
        // A process of another kind or of another user is not a runtime, even if it has a runtime's
        // database open.
        let root = fds.root.take();
        fds.root = budget.take_root(root.filter(|_| serves && status.uid == Some(0)));
    }
    drop(budget);
    Some(Seen {
        process,
        before,
        sockets,
    })
}
