//! The use of CPU and memory, and how long tasks wait for them.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use super::Host;
use super::file::{fact, rest_of_line, text, value};
use crate::facts::Fact;
use crate::facts::host::{
    CpuTimes, Memory, MemoryLimit, Pressure, PressureFacts, Process, Stalls, Throttling,
};

pub(super) fn pressure(host: &Host) -> PressureFacts {
    let of = |name: &str| fact(&host.proc.join("pressure").join(name), parse_pressure);
    PressureFacts {
        cpu: of("cpu"),
        io: of("io"),
        memory: of("memory"),
    }
}

/// Parses lines such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn parse_pressure(text: &str) -> Option<Pressure> {
    let stalls = |which: &str| {
        let line = rest_of_line(text, which)?;
        let value = |name: &str| {
            let mut words = line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.parse().ok())
        };
        Some(Stalls {
            avg10: value("avg10=")?,
            avg60: value("avg60=")?,
            avg300: value("avg300=")?,
        })
    };
    Some(Pressure {
        some: stalls("some ")?,
        full: stalls("full "),
    })
}

/// The ticks of all CPUs.
#[derive(Clone, Copy)]
pub(super) struct CpuTicks {
    all: u64,
    idle: u64,
    io_wait: u64,
    steal: u64,
}

/// The ticks of all CPUs together, from the line
/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`.
pub(super) fn cpu_ticks(host: &Host) -> Fact<CpuTicks> {
    fact(&host.proc.join("stat"), |text| {
        let words = rest_of_line(text, "cpu ")?.split_ascii_whitespace();
        let ticks = words.map(|tick| tick.parse().ok());
        let ticks = ticks.take(8).collect::<Option<Vec<u64>>>()?;
        Some(CpuTicks {
            all: ticks.iter().sum(),
            idle: *ticks.get(3)?,
            io_wait: *ticks.get(4)?,
            steal: ticks.get(7).copied().unwrap_or(0),
        })
    })
}

impl CpuTicks {
    pub(super) fn until(self, later: Self) -> CpuTimes {
        let all = later.all.saturating_sub(self.all);
        if all == 0 {
            return CpuTimes::default();
        }
        let share = |before: u64, after: u64| after.saturating_sub(before) as f64 / all as f64;
        let io_wait = share(self.io_wait, later.io_wait);
        CpuTimes {
            busy: (1.0 - share(self.idle, later.idle) - io_wait).max(0.0),
            steal: share(self.steal, later.steal),
            io_wait,
        }
    }
}

/// The counters of memory in one sample.
#[derive(Clone, Copy)]
pub(super) struct MemoryCounts {
    total: u64,
    available: u64,
    dirty: u64,
    refaults: u64,
    major_faults: u64,
}

pub(super) fn memory_counts(host: &Host) -> Fact<MemoryCounts> {
    let events = text(&host.proc.join("vmstat")).unwrap_or_default();
    // Since Linux 5.9, refaults of files and of anonymous pages are counted separately.
    let sum = |prefix: &str| {
        let values = events.lines().filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            name.starts_with(prefix)
                .then(|| value.parse::<u64>().ok())?
        });
        values.sum()
    };
    fact(&host.proc.join("meminfo"), |text| {
        let value = |name| value::<u64>(text, name);
        Some(MemoryCounts {
            total: value("MemTotal:")?,
            available: value("MemAvailable:").or_else(|| value("MemFree:"))?,
            dirty: value("Dirty:").unwrap_or(0) + value("Writeback:").unwrap_or(0),
            refaults: sum("workingset_refault"),
            major_faults: sum("pgmajfault"),
        })
    })
}

impl MemoryCounts {
    pub(super) fn until(self, later: Self, seconds: f64) -> Memory {
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        Memory {
            total_kib: later.total,
            available_kib: later.available,
            dirty_kib: later.dirty,
            refaults_per_second: rate(self.refaults, later.refaults),
            major_faults_per_second: rate(self.major_faults, later.major_faults),
        }
    }
}

/// The maximum number of control groups that are read. A node has a kubelet and one or two runtimes.
const MAX_GROUPS: usize = 64;

/// The counters of the daemons' control groups.
pub(super) fn throttling(host: &Host, processes: &[Process]) -> Vec<Throttling> {
    let base = host.sys.join("fs/cgroup");
    let mut seen = HashSet::new();
    let daemons = processes.iter().filter(|process| process.is_daemon());
    let groups = daemons.filter_map(|process| {
        let path = process.cgroup("cpu")?;
        if !seen.insert(path.to_owned()) {
            return None;
        }
        let inner = path.trim_start_matches('/');
        let hierarchies = ["cpu,cpuacct", "cpu", "", "unified"].into_iter();
        let mut files = hierarchies.map(|name| base.join(name).join(inner).join("cpu.stat"));
        let stat = files.find_map(|file| text(&file).ok())?;
        Some(Throttling {
            path: path.to_owned(),
            process: process.comm.clone(),
            pid: process.pid,
            periods: value(&stat, "nr_periods ")?,
            throttled: value(&stat, "nr_throttled ")?,
        })
    });
    groups.take(MAX_GROUPS).collect()
}

/// The memory limits of the daemons' control groups and of their ancestors.
pub(super) fn memory_limits(host: &Host, daemons: &[Process]) -> Vec<MemoryLimit> {
    let base = host.sys.join("fs/cgroup");
    let own = daemons.iter().filter_map(|daemon| daemon.cgroup("memory"));
    let groups: BTreeSet<&Path> = own.flat_map(|own| Path::new(own).ancestors()).collect();
    let limits = groups.into_iter().take(MAX_GROUPS).filter_map(|group| {
        let inner = group.strip_prefix("/").ok()?;
        let files = [
            ("memory", "memory.limit_in_bytes"),
            ("", "memory.max"),
            ("unified", "memory.max"),
        ];
        // Without a limit, version 2 contains "max", and version 1 a number above any memory size.
        let bytes: u64 = files.iter().find_map(|(hierarchy, file)| {
            let path = base.join(hierarchy).join(inner).join(file);
            text(&path).ok()?.trim().parse().ok()
        })?;
        Some(MemoryLimit {
            path: group.to_string_lossy().into_owned(),
            max_kib: bytes / 1024,
        })
    });
    limits.collect()
}

/// The changes between the samples, for those control groups that were throttled in between.
pub(super) fn throttled_between(before: &[Throttling], after: Vec<Throttling>) -> Vec<Throttling> {
    let between = after.into_iter().filter_map(|mut group| {
        let earlier = before.iter().find(|other| other.path == group.path)?;
        group.periods = group.periods.saturating_sub(earlier.periods);
        group.throttled = group.throttled.saturating_sub(earlier.throttled);
        (group.throttled > 0).then_some(group)
    });
    between.collect()
}
