//! The kubelet or the runtime does not get enough CPU time.

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::{finding, of_machine};
use crate::evidence::lack::{lack, lack_of_groups};
use crate::evidence::owner::{is_in_a_pod, of_cgroup};
use crate::evidence::victims::with_victims;
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Throttling};

/// How long the threads of a starved daemon wait for a CPU, in seconds per second, if the kernel does not
/// report pressure.
const MIN_DELAY: f64 = 2.0;
/// How long the threads of a starved daemon wait for a CPU, in seconds per second, if the kernel reports
/// CPU pressure for the last minute.
const MIN_DELAY_UNDER_PRESSURE: f64 = 0.3;
/// If the hypervisor takes at least this share of the time of all CPUs, the daemons may be starved.
const STEAL_SHARE: f64 = 0.3;
/// A daemon that its quota throttles in at least this share of the periods is starved.
const THROTTLED_SHARE: f64 = 0.25;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut findings: Vec<Finding> = throttled(host);
    // A daemon that is throttled waits for a CPU, too.
    if findings.is_empty() {
        let found = delayed(host).into_iter().chain(stolen(host));
        findings.extend(found.filter_map(|found| with_victims(facts, found)));
    }
    let missing = [
        lack_of_groups(host),
        lack(&host.cpu),
        lack(&host.cgroups.throttled),
    ];
    Opinion::of(findings, missing)
}

/// Daemons that are throttled by their own quotas, whatever else runs.
fn throttled(host: &HostFacts) -> Vec<Finding> {
    let often = |group: &&Throttling| {
        group.throttled as f64 >= group.periods as f64 * THROTTLED_SHARE && group.periods >= 4
    };
    // A pod's limit affects only that pod.
    let is_of_node = |group: &&Throttling| of_cgroup(&group.path).pod.is_none();
    let groups = known(&host.cgroups.throttled).iter().filter(is_of_node);
    let findings = groups.filter(often).map(|group| {
        let evidence = vec![format!(
            "{} ({}) was throttled in {} of {} periods by the CPU quota of {}",
            group.process, group.pid, group.throttled, group.periods, group.path
        )];
        let culprit = Culprit {
            pid: Some(group.pid),
            process: Some(group.process.clone()),
            ..of_cgroup(&group.path)
        };
        let advice = match &culprit.unit {
            Some(unit) => format!(
                "run `systemctl set-property --runtime {unit} CPUQuota=` to remove its CPU quota \
                 at once"
            ),
            None => format!("raise or remove the CPU quota of {}", group.path),
        };
        finding(Cause::CpuStarved, Confidence::High, culprit, evidence).advising(advice)
    });
    findings.collect()
}

fn delayed(host: &HostFacts) -> Option<Finding> {
    let pressure = host.pressure.cpu.value().map(|cpu| cpu.some.avg60);
    let short = pressure.is_some_and(|some| some >= facts().limits["cpuPressureOfDelayedDaemon"]);
    let least = match pressure {
        // One busy second is not starvation.
        Some(_) if !short => return None,
        Some(_) => MIN_DELAY_UNDER_PRESSURE,
        None => MIN_DELAY,
    };
    let delay = |share: Option<f64>| share.unwrap_or(0.0);
    let worst = host
        .all_processes()
        .iter()
        .filter(|process| process.is_daemon() && !is_in_a_pod(process))
        .filter(|process| delay(process.run_delay) >= least)
        .max_by(|one, other| delay(one.run_delay).total_cmp(&delay(other.run_delay)))?;
    let mut evidence = vec![format!(
        "threads of {} waited for a CPU for {:.1} s per second",
        worst.label(),
        delay(worst.run_delay)
    )];
    evidence.extend(pressure.map(|some| {
        format!("at least one task waited for a CPU for {some:.0} % of the last minute")
    }));
    evidence.extend(host.cpu.value().map(|cpu| {
        format!(
            "the CPUs were {:.0} % busy; the hypervisor took {:.0} % (steal)",
            cpu.busy * 100.0,
            cpu.steal * 100.0
        )
    }));
    let confidence = match short {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let culprit = culprit::of_process(worst);
    let advice = match &culprit.unit {
        Some(unit) => format!(
            "find what uses the CPUs with `systemd-cgtop -c`; `systemctl set-property --runtime \
             {unit} CPUWeight=1000` gives {} priority",
            worst.comm
        ),
        None => format!(
            "find what uses the CPUs with `systemd-cgtop -c`; {} has to wait for them",
            worst.label()
        ),
    };
    Some(finding(Cause::CpuStarved, confidence, culprit, evidence).advising(advice))
}

fn stolen(host: &HostFacts) -> Option<Finding> {
    let cpu = host.cpu.value().filter(|cpu| cpu.steal >= STEAL_SHARE)?;
    let evidence = vec![format!(
        "the hypervisor took {:.0} % of the CPU time (steal)",
        cpu.steal * 100.0
    )];
    Some(of_machine(Cause::CpuStarved, Confidence::High, evidence))
}
