//! Two samples of changing values, and the difference between them.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::resources::{CpuTicks, MemoryCounts};
use super::storage::{DiskCounts, FuseCounts};
use super::{Host, resources, storage};
use crate::facts::host::{CgroupFacts, HostFacts, MemoryLimit, PressureFacts, Process, Throttling};
use crate::facts::{Fact, Missing};

/// The first sample.
pub(super) struct First {
    disks: Fact<HashMap<String, DiskCounts>>,
    fuse: Fact<FuseCounts>,
    cpu: Fact<CpuTicks>,
    memory: Fact<MemoryCounts>,
    /// The processes whose control groups are read.
    daemons: Vec<Process>,
    throttling: Vec<Throttling>,
    memory_limits: Vec<MemoryLimit>,
}

pub(super) fn first(host: &Host, daemons: Vec<Process>) -> First {
    First {
        disks: storage::disk_counts(host),
        fuse: storage::fuse_counts(host),
        cpu: resources::cpu_ticks(host),
        memory: resources::memory_counts(host),
        throttling: resources::throttling(host, &daemons),
        memory_limits: resources::memory_limits(host, &daemons),
        daemons,
    }
}

/// The time between the samples, which is never zero.
pub(super) fn seconds(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64().max(0.001)
}

/// The facts that follow from both samples. The control groups are those of daemons.
pub(super) fn second(host: &Host, first: First, elapsed: Duration) -> HostFacts {
    let seconds = seconds(elapsed);
    let later = resources::throttling(host, &first.daemons);
    let groups = host.sys.join("fs/cgroup").display().to_string();
    let throttled = resources::throttled_between(&first.throttling, later);
    let (disks, fuse) = (storage::disk_counts(host), storage::fuse_counts(host));
    let (cpu, memory) = (resources::cpu_ticks(host), resources::memory_counts(host));
    HostFacts {
        uptime_seconds: super::file::word(&host.proc.join("uptime"), 0),
        disks: both(first.disks, disks, |before, after| {
            storage::disks_between(&before, after, seconds)
        }),
        fuse: both(first.fuse, fuse, storage::fuse_between),
        cpu: both(first.cpu, cpu, CpuTicks::until),
        memory: both(first.memory, memory, |before, after| {
            before.until(after, seconds)
        }),
        pressure: resources::pressure(host),
        cgroups: CgroupFacts {
            throttled: Fact::known(throttled, &groups),
            memory_limits: Fact::known(first.memory_limits, groups),
            ..CgroupFacts::default()
        },
        ..HostFacts::default()
    }
}

/// The facts of [`second`] as missing, because a sample could not be read.
pub(super) fn missing(why: &Missing, proc: &Path) -> HostFacts {
    let source = proc.display().to_string();
    let resource = || Fact::missing(why, &source);
    HostFacts {
        uptime_seconds: Fact::missing(why, &source),
        disks: Fact::missing(why, &source),
        fuse: Fact::missing(why, &source),
        cpu: Fact::missing(why, &source),
        memory: Fact::missing(why, &source),
        pressure: PressureFacts {
            cpu: resource(),
            io: resource(),
            memory: resource(),
        },
        cgroups: CgroupFacts {
            throttled: Fact::missing(why, &source),
            memory_limits: Fact::missing(why, &source),
            ..CgroupFacts::default()
        },
        ..HostFacts::default()
    }
}

fn both<T, U>(before: Fact<T>, after: Fact<T>, change: impl FnOnce(T, T) -> U) -> Fact<U> {
    match (before, after) {
        (Fact::Known { value, source }, Fact::Known { value: later, .. }) => {
            Fact::known(change(value, later), source)
        }
        (Fact::Missing { why, source }, _) | (_, Fact::Missing { why, source }) => {
            Fact::missing(why, source)
        }
    }
}
