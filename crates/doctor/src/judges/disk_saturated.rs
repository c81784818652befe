//! The disk under the runtime does not keep up with what the node asks of it.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::evidence::victims::if_felt;
use crate::evidence::waits::kernel_says;
use crate::facts::NodeFacts;
use crate::facts::host::{Disk, HostFacts};

/// Per cent of the last ten seconds in which nobody got on for the disk's sake.
const STALLED: f64 = 40.0;
/// The same over a minute: it lasts.
const STALLED_MINUTE: f64 = 20.0;
/// The share of the time in which a disk has something to do.
const BUSY: f64 = 0.95;
/// A request that takes longer is felt by everybody.
const SLOW: f64 = 100.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let full = host.pressure.io.value().and_then(|io| io.full);
    let stalled = full.map(|io| io.avg10 >= STALLED && io.avg60 >= STALLED_MINUTE);
    let slow = host
        .disks
        .value()
        .into_iter()
        .flatten()
        .find(|disk| is_slow(disk) || is_silent(disk));
    let confidence = match (stalled, slow) {
        (Some(true), Some(_)) => Confidence::High,
        (Some(true), None) => Confidence::Medium,
        // Kernels before 4.20 do not count who waits.
        (None, Some(_)) => Confidence::Medium,
        // Busy, and nobody waits for it: that is what a disk is for.
        (Some(false), _) => return Opinion::Clear,
        (None, None) => return Opinion::of(None, [lack(&host.disks)]),
    };
    let mut evidence = Vec::new();
    evidence.extend(full.map(|io| {
        format!(
            "all tasks stood still for the disk for {:.0} % of the last 10 s, {:.0} % of the \
             last minute",
            io.avg10, io.avg60
        )
    }));
    evidence.extend(slow.map(|disk| describe(host, disk)));
    let said = kernel_says(facts, Cause::DiskSaturated);
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let found = finding(
        Cause::DiskSaturated,
        confidence,
        Culprit::default(),
        evidence,
    );
    let found = match slow {
        Some(disk) => found.advising(format!(
            "`pidstat -d 5` shows who writes; find the limit of {} in requests and bytes a second",
            disk.name
        )),
        None => found,
    };
    Opinion::of(if_felt(facts, Some(found)), [])
}

fn is_slow(disk: &Disk) -> bool {
    disk.busy >= BUSY && disk.wait_milliseconds.is_some_and(|wait| wait >= SLOW)
}

/// Requests are on the way, and none came back between the looks.
fn is_silent(disk: &Disk) -> bool {
    disk.in_flight > 0 && disk.in_flight_before > 0 && disk.completed_per_second == 0.0
}

fn describe(host: &HostFacts, disk: &Disk) -> String {
    let mounts = host.mounts.value();
    let roots = mounts.map_or(&[][..], |mounts| &mounts.roots);
    let over: Vec<&str> = roots
        .iter()
        .filter(|root| root.device == disk.device)
        .map(|root| root.root.as_str())
        .collect();
    let over = match over.is_empty() {
        true => String::new(),
        false => format!(" (under {})", over.join(", ")),
    };
    let wait = match disk.wait_milliseconds {
        Some(wait) => format!("{wait:.0} ms each"),
        None => "none came back".to_owned(),
    };
    format!(
        "{}{over} was busy {:.0} % of the time: {:.0} requests a second, {wait}, {} on the way",
        disk.name,
        disk.busy * 100.0,
        disk.completed_per_second,
        disk.in_flight
    )
}
