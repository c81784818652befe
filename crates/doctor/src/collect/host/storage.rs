//! The counters of disks and FUSE connections, and their changes between the two samples.

use std::collections::{BTreeMap, HashMap};

use super::Host;
use super::file::{fact, line};
use crate::facts::Fact;
use crate::facts::host::{Disk, FuseConnection};

const MAX_DISKS: usize = 64;
const MAX_CONNECTIONS: usize = 200;

/// The counters of a disk.
pub(super) struct DiskCounts {
    name: String,
    completed: u64,
    /// How long all requests took together, in milliseconds.
    spent: u64,
    in_flight: u64,
    /// How long the disk had requests to process, in milliseconds.
    busy: u64,
}

/// The counters of all disks by device, from rows such as
/// `8 0 sda reads merged sectors ms writes merged sectors ms in-flight busy-ms weighted-ms`.
pub(super) fn disk_counts(host: &Host) -> Fact<HashMap<String, DiskCounts>> {
    fact(&host.proc.join("diskstats"), |text| {
        let rows = text.lines().filter_map(|row| {
            let words: Vec<&str> = row.split_ascii_whitespace().collect();
            let name = *words.get(2)?;
            let number = |at: usize| words.get(at)?.parse::<u64>().ok();
            if name.starts_with("loop") || name.starts_with("ram") {
                return None;
            }
            let counts = DiskCounts {
                name: name.to_owned(),
                completed: number(3)? + number(7)?,
                spent: number(6)? + number(10)?,
                in_flight: number(11)?,
                busy: number(12)?,
            };
            Some((format!("{}:{}", words[0], words[1]), counts))
        });
        Some(rows.collect())
    })
}

pub(super) fn disks_between(
    before: &HashMap<String, DiskCounts>,
    after: HashMap<String, DiskCounts>,
    seconds: f64,
) -> Vec<Disk> {
    let disks = after.into_iter().filter_map(|(device, later)| {
        let earlier = before.get(&device)?;
        let completed = later.completed.saturating_sub(earlier.completed);
        let spent = later.spent.saturating_sub(earlier.spent);
        let busy = later.busy.saturating_sub(earlier.busy) as f64 / 1000.0 / seconds;
        Some(Disk {
            device,
            name: later.name,
            in_flight: later.in_flight,
            in_flight_before: earlier.in_flight,
            completed_per_second: completed as f64 / seconds,
            busy: busy.min(1.0),
            wait_milliseconds: (completed > 0).then(|| spent as f64 / completed as f64),
        })
    });
    let mut disks: Vec<Disk> = disks.collect();
    // If there are too many, the busiest are kept.
    disks.sort_by(|one, other| {
        let by_use = other.busy.total_cmp(&one.busy);
        by_use.then_with(|| one.name.cmp(&other.name))
    });
    disks.truncate(MAX_DISKS);
    disks
}

/// The number of unanswered requests of each FUSE connection.
pub(super) type FuseCounts = BTreeMap<u32, u64>;

pub(super) fn fuse_counts(host: &Host) -> Fact<FuseCounts> {
    let folder = host.sys.join("fs/fuse/connections");
    let source = folder.display().to_string();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => return Fact::missing(error, source),
    };
    let counts = entries.flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let waiting = line(&entry.path().join("waiting")).ok()?;
        Some((number, waiting.trim().parse().ok()?))
    });
    Fact::known(counts.take(MAX_CONNECTIONS).collect(), source)
}

pub(super) fn fuse_between(before: FuseCounts, after: FuseCounts) -> Vec<FuseConnection> {
    let connections = after.into_iter().map(|(number, waiting)| FuseConnection {
        number,
        waiting,
        waiting_before: before.get(&number).copied().unwrap_or(0),
    });
    connections.collect()
}
