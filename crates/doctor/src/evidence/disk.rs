//! Whether the runtime itself waits for its disk.

use analyze::kernel::cause_of_function;
use causes::Cause;

use super::known;
use super::phrases::MAX_EXAMPLES;
use super::waits::blocked_in;
use crate::facts::NodeFacts;
use crate::facts::host::{Disk, HostFacts, Process, RootMount, Thread};

/// The runtime's threads that wait for a disk in the kernel.
pub(crate) struct DiskWait<'a> {
    host: &'a HostFacts,
    pub(crate) runtime: &'a Process,
    /// The waiting threads, each with the kernel function that it waits in.
    threads: Vec<(&'a Thread, &'a str)>,
    /// The runtime's root directory.
    root: &'a str,
    /// The disk of that directory.
    disk: Option<&'a Disk>,
}

/// Threads of the runtime in state D, in a function of a file system or a block device.
pub(crate) fn runtime_waits_for_disk(facts: &NodeFacts) -> Option<DiskWait<'_>> {
    let host = &facts.host;
    let runtime = facts.runtime_process()?;
    let is_of_disk = |function: &&str| {
        let cause = cause_of_function(function).map(|(cause, _)| cause);
        matches!(
            cause,
            Some(Cause::StorageUnresponsive | Cause::DiskSaturated)
        )
    };
    let blocked = runtime.threads.iter().filter(|thread| thread.state == 'D');
    let threads: Vec<_> = blocked
        .filter_map(|thread| Some((thread, thread.functions().find(is_of_disk)?)))
        .collect();
    if threads.is_empty() {
        return None;
    }
    let opened = runtime.fds.value().and_then(|fds| fds.root.as_deref());
    let root = opened.unwrap_or("/var/lib/containerd");
    let mount = roots(host).iter().find(|mount| mount.root == root);
    let mut disks = known(&host.disks).iter();
    Some(DiskWait {
        host,
        runtime,
        threads,
        root,
        disk: disks.find(|disk| mount.is_some_and(|mount| mount.device == disk.device)),
    })
}

impl DiskWait<'_> {
    /// The disk, by its name or, if that is not known, by a directory on it.
    pub(crate) fn disk(&self) -> String {
        match self.disk {
            Some(disk) => format!("the disk {}", disk.name),
            None => format!("the disk below {}", self.root),
        }
    }

    /// Whether a thread did not run between the two samples.
    pub(crate) fn is_blocked(&self) -> bool {
        self.threads.iter().any(|(thread, _)| thread.still)
    }

    /// The evidence.
    pub(crate) fn says(&self) -> impl Iterator<Item = String> {
        let threads = self.threads.iter().take(MAX_EXAMPLES);
        let threads = threads.map(|(thread, function)| {
            let name = format!("{}, thread {}", self.runtime.label(), thread.tid);
            match thread.still {
                true => blocked_in(&name, function),
                false => format!("{name} was in state D in {function}"),
            }
        });
        threads.chain(self.disk.map(|disk| describe(self.host, disk)))
    }

    /// What to do.
    pub(crate) fn advice(&self) -> String {
        format!(
            "before any process is killed, find out why {} is slow or does not respond (`iostat -x \
             1`, `dmesg`, its limits in requests and bytes per second), and reduce its load",
            self.disk()
        )
    }
}

/// The directories that the runtime and the kubelet use, with their devices.
fn roots(host: &HostFacts) -> &[RootMount] {
    host.mounts.value().map_or(&[], |mounts| &mounts.roots)
}

/// What a disk did between the two samples, and which roots are on it.
pub(crate) fn describe(host: &HostFacts, disk: &Disk) -> String {
    let held = roots(host).iter().filter(|root| root.device == disk.device);
    let held: Vec<&str> = held.map(|root| root.root.as_str()).collect();
    let holds = match held.is_empty() {
        true => String::new(),
        false => format!(" (holds {})", held.join(", ")),
    };
    let wait = match disk.wait_milliseconds {
        Some(wait) => format!("{wait:.0} ms per request"),
        None => "none completed".to_owned(),
    };
    format!(
        "{}{holds} was busy {:.0} % of the time: {:.0} requests per second, {wait}, {} in flight",
        disk.name,
        disk.busy * 100.0,
        disk.completed_per_second,
        disk.in_flight
    )
}
