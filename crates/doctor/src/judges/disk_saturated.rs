//! The disk of the runtime is too slow for the load on this node.

use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::Opinion;
use super::opinion::{advised, finding, of_machine};
use crate::evidence::disk::{DiskWait, describe, runtime_waits_for_disk};
use crate::evidence::lack::lack;
use crate::evidence::victims::with_victims;
use crate::evidence::waits::kernel_says;
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::Disk;

/// If all tasks were stalled on I/O for at least this percentage of the last ten seconds, a disk may be
/// saturated.
const STALLED_PERCENT: f64 = 40.0;
/// A disk that has requests to process for at least this share of the time is busy.
const BUSY_SHARE: f64 = 0.95;
/// A request that takes longer delays every process that uses the disk.
const SLOW_MILLISECONDS: f64 = 100.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    match (of_all_tasks(facts), of_runtime(facts)) {
        (Opinion::Found(found), _) => Opinion::Found(found),
        (_, Some(found)) => Opinion::Found(vec![found]),
        (other, None) => other,
    }
}

/// Only the runtime waits: for a disk of its own, or one whose requests are limited. The runtime writes to
/// its database at each step of starting or stopping a container.
fn of_runtime(facts: &NodeFacts) -> Option<Finding> {
    let wait = runtime_waits_for_disk(facts).filter(DiskWait::is_blocked)?;
    let evidence = wait.says().collect();
    let culprit = culprit::of_process(wait.runtime);
    let mut found = finding(Cause::DiskSaturated, Confidence::Medium, culprit, evidence);
    found.sentence = format!(
        "{} waits for {}, so that containers start and stop slowly",
        wait.runtime.label(),
        wait.disk()
    );
    found.advise_first(wait.advice());
    Some(found)
}

/// All tasks wait for a disk, or a disk is slow.
fn of_all_tasks(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let full = host.pressure.io.value().and_then(|io| io.full);
    let stalled = full.map(|io| {
        io.avg10 >= STALLED_PERCENT && io.avg60 >= causes::facts::facts().limits["allWaitPercent"]
    });
    let mut disks = known(&host.disks).iter();
    let slow = disks.find(|disk| is_slow(disk) || completes_nothing(disk));
    let confidence = match (stalled, slow) {
        (Some(true), Some(_)) => Confidence::High,
        (Some(true), None) => Confidence::Medium,
        // Kernels before 4.20 do not report pressure.
        (None, Some(_)) => Confidence::Medium,
        // A busy disk that delays nothing is not a problem.
        (Some(false), _) => return Opinion::Clear,
        (None, None) => return Opinion::of(None, [lack(&host.disks)]),
    };
    let mut evidence = Vec::new();
    evidence.extend(full.map(|io| {
        format!(
            "all tasks were stalled on I/O for {:.0} % of the last 10 s and {:.0} % of the last \
             minute",
            io.avg10, io.avg60
        )
    }));
    evidence.extend(slow.map(|disk| describe(host, disk)));
    let said = kernel_says(facts, Cause::DiskSaturated);
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let found = of_machine(Cause::DiskSaturated, confidence, evidence);
    let advice = slow.map(|disk| {
        let name = &disk.name;
        format!(
            "find what writes with `pidstat -d 5`; check the limits of {name} in requests and bytes \
             per second"
        )
    });
    Opinion::of(with_victims(facts, advised(found, advice)), [])
}

fn is_slow(disk: &Disk) -> bool {
    let wait = disk.wait_milliseconds;
    disk.busy >= BUSY_SHARE && wait.is_some_and(|wait| wait >= SLOW_MILLISECONDS)
}

/// Requests are in flight, and none completed between the two samples.
fn completes_nothing(disk: &Disk) -> bool {
    disk.in_flight > 0 && disk.in_flight_before > 0 && disk.completed_per_second == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::node::{found, node};

    #[test]
    fn a_runtime_that_alone_waits_for_its_disk_is_named_with_it() {
        let waits = |still| {
            let node = node("containerd", "2.1.9").blocked(10, "folio_wait_bit");
            let mut facts = node.facts();
            if let Fact::Known { value, .. } = &mut facts.host.processes {
                value[0].threads[0].still = still;
            }
            facts
        };
        let finding = &found(judge(&waits(true)))[0];
        assert_eq!(finding.confidence, Confidence::Medium);
        assert_eq!(
            finding.sentence,
            "containerd (10) waits for the disk below /var/lib/containerd, so that containers start \
             and stop slowly"
        );
        assert!(finding.advice[0].contains("iostat"), "{finding:#?}");
        // The thread waited only for a moment.
        assert!(!matches!(judge(&waits(false)), Opinion::Found(_)));
    }
}
