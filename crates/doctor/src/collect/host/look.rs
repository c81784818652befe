//! Two looks at what moves, and what happened between them.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use super::process::Census;
use super::resources::{CpuTicks, MemoryCounts};
use super::sockets::Holders;
use super::storage::{DiskCounts, FuseCounts};
use super::{Host, process, resources, storage};
use crate::facts::Fact;
use crate::facts::host::{
    CpuTimes, Disk, FuseConnection, HostFacts, Memory, PressureFacts, Process, Throttling,
};

/// What the first look keeps.
pub(super) struct First {
    census: Fact<Census>,
    disks: Fact<HashMap<String, DiskCounts>>,
    fuse: Fact<FuseCounts>,
    cpu: Fact<CpuTicks>,
    memory: Fact<MemoryCounts>,
    throttling: Vec<Throttling>,
}

impl First {
    /// What ran.
    pub(super) fn processes(&self) -> &[Process] {
        self.census.value().map_or(&[], Census::processes)
    }
}

pub(super) fn first(host: &Host) -> First {
    let census = process::census(host);
    let throttling = census
        .value()
        .map(|census| resources::throttling(host, census.processes()))
        .unwrap_or_default();
    First {
        disks: storage::disk_counts(host),
        fuse: storage::fuse_counts(host),
        cpu: resources::cpu_ticks(host),
        memory: resources::memory_counts(host),
        throttling,
        census,
    }
}

/// What both looks say.
pub(super) struct Both {
    uptime: Fact<f64>,
    processes: Fact<Vec<Process>>,
    disks: Fact<Vec<Disk>>,
    fuse: Fact<Vec<FuseConnection>>,
    cpu: Fact<CpuTimes>,
    memory: Fact<Memory>,
    pressure: PressureFacts,
    throttled: Fact<Vec<Throttling>>,
    holders: Holders,
}

pub(super) fn second(host: &Host, mut first: First, elapsed: Duration) -> Both {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let throttled = first.census.value().map_or_else(
        || {
            Fact::missing(
                "the processes are not known",
                host.proc.display().to_string(),
            )
        },
        |census| {
            let later = resources::throttling(host, census.processes());
            Fact::known(
                resources::throttled_between(&first.throttling, later),
                host.sys.join("fs/cgroup").display().to_string(),
            )
        },
    );
    let holders = match &mut first.census {
        Fact::Known { value, .. } => value.take_holders(),
        Fact::Missing { .. } => Holders::default(),
    };
    Both {
        holders,
        uptime: super::file::word(&host.proc.join("uptime"), 0),
        processes: map(first.census, |census| census.look_again(host, seconds)),
        disks: both(first.disks, storage::disk_counts(host), |before, after| {
            storage::disks_between(&before, after, seconds)
        }),
        fuse: both(
            first.fuse,
            storage::fuse_counts(host),
            storage::fuse_between,
        ),
        cpu: both(first.cpu, resources::cpu_ticks(host), |before, after| {
            before.until(after)
        }),
        memory: both(
            first.memory,
            resources::memory_counts(host),
            |before, after| before.until(after, seconds),
        ),
        pressure: resources::pressure(host),
        throttled,
    }
}

impl Both {
    /// Neither look can be used.
    pub(super) fn missing(why: &impl Display, proc: &Path) -> Self {
        let source = proc.display().to_string();
        let resource = || Fact::missing(why, &source);
        Self {
            uptime: Fact::missing(why, &source),
            processes: Fact::missing(why, &source),
            disks: Fact::missing(why, &source),
            fuse: Fact::missing(why, &source),
            cpu: Fact::missing(why, &source),
            memory: Fact::missing(why, &source),
            pressure: PressureFacts {
                cpu: resource(),
                io: resource(),
                memory: resource(),
            },
            throttled: Fact::missing(why, &source),
            holders: Holders::default(),
        }
    }

    /// Keeps what was seen; gives who has which socket open, which only the collection needs.
    pub(super) fn write(self, facts: &mut HostFacts) -> Holders {
        facts.uptime_seconds = self.uptime;
        facts.processes = self.processes;
        facts.disks = self.disks;
        facts.fuse = self.fuse;
        facts.cpu = self.cpu;
        facts.memory = self.memory;
        facts.pressure = self.pressure;
        facts.cgroups.throttled = self.throttled;
        self.holders
    }
}

fn map<T, U>(fact: Fact<T>, change: impl FnOnce(T) -> U) -> Fact<U> {
    match fact {
        Fact::Known { value, source } => Fact::known(change(value), source),
        Fact::Missing { why, source } => Fact::missing(why, source),
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
