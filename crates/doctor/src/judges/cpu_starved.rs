//! The kubelet or the runtime wants to run and does not get a processor.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_groups};
use crate::evidence::owner::{culprit, is_in_a_pod, of_cgroup};
use crate::evidence::victims::if_felt;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Throttling};

/// Seconds that a daemon's threads wait for a processor in each second, where the kernel
/// does not tell how it has been for longer.
const DELAYED: f64 = 2.0;
/// The same where the kernel says that processors have been short for a minute.
const DELAYED_UNDER_PRESSURE: f64 = 0.3;
/// Per cent of the last minute in which somebody waited for a processor.
const PRESSURE: f64 = 60.0;
/// A share of all processors' time.
const STOLEN: f64 = 0.3;
/// A share of the periods of its quota in which a daemon was stopped.
const THROTTLED: f64 = 0.25;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut findings: Vec<Finding> = throttled(host);
    findings.extend(if_felt(facts, delayed(host)));
    findings.extend(if_felt(facts, stolen(host)));
    Opinion::of(findings, [lack_of_groups(host), lack(&host.cpu)])
}

/// Its own quota stops it: that is nobody else's doing.
fn throttled(host: &HostFacts) -> Vec<Finding> {
    let often = |group: &&Throttling| {
        group.throttled as f64 >= group.periods as f64 * THROTTLED && group.periods >= 4
    };
    let groups = host
        .cgroups
        .throttled
        .value()
        .map_or(&[][..], Vec::as_slice);
    // A pod's limit is the pod's own affair, whatever runs in it.
    let of_the_node = |group: &&Throttling| of_cgroup(&group.path).pod.is_none();
    let groups = groups.iter().filter(of_the_node);
    let findings = groups.filter(often).map(|group| {
        let evidence = vec![format!(
            "{} ({}) was stopped in {} of {} periods: {} has a quota of processor time",
            group.process, group.pid, group.throttled, group.periods, group.path
        )];
        let who = Culprit {
            pid: Some(group.pid),
            process: Some(group.process.clone()),
            ..of_cgroup(&group.path)
        };
        let advice = match &who.unit {
            Some(unit) => format!(
                "`systemctl set-property --runtime {unit} CPUQuota=` lifts its quota at once"
            ),
            None => format!("raise or lift the quota of {}", group.path),
        };
        finding(Cause::CpuStarved, Confidence::High, who, evidence).advising(advice)
    });
    findings.collect()
}

fn delayed(host: &HostFacts) -> Option<Finding> {
    let pressure = host.pressure.cpu.value().map(|cpu| cpu.some.avg60);
    let short = pressure.is_some_and(|some| some >= PRESSURE);
    let least = match pressure {
        // A busy second is no starvation.
        Some(_) if !short => return None,
        Some(_) => DELAYED_UNDER_PRESSURE,
        None => DELAYED,
    };
    let delay = |share: Option<f64>| share.unwrap_or(0.0);
    let worst = host
        .all_processes()
        .iter()
        .filter(|process| process.is_daemon() && !is_in_a_pod(process))
        .filter(|process| delay(process.run_delay) >= least)
        .max_by(|one, other| delay(one.run_delay).total_cmp(&delay(other.run_delay)))?;
    let mut evidence = vec![format!(
        "threads of {} waited {:.1} s for a processor in each second",
        worst.label(),
        delay(worst.run_delay)
    )];
    evidence.extend(
        pressure.map(|some| {
            format!("somebody waited for a processor for {some:.0} % of the last minute")
        }),
    );
    evidence.extend(host.cpu.value().map(|cpu| {
        format!(
            "processors were {:.0} % busy, {:.0} % was taken by the hypervisor",
            cpu.busy * 100.0,
            cpu.steal * 100.0
        )
    }));
    let confidence = if short {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let who = culprit(worst);
    let advice = match &who.unit {
        Some(unit) => format!(
            "`systemd-cgtop -c` shows who takes the processors; `systemctl set-property \
             --runtime {unit} CPUWeight=1000` puts {} before others",
            worst.comm
        ),
        None => format!(
            "`systemd-cgtop -c` shows who takes the processors from {}",
            worst.label()
        ),
    };
    Some(finding(Cause::CpuStarved, confidence, who, evidence).advising(advice))
}

fn stolen(host: &HostFacts) -> Option<Finding> {
    let cpu = host.cpu.value().filter(|cpu| cpu.steal >= STOLEN)?;
    let evidence = vec![format!(
        "the hypervisor took {:.0} % of the processors' time",
        cpu.steal * 100.0
    )];
    Some(finding(
        Cause::CpuStarved,
        Confidence::High,
        Culprit::default(),
        evidence,
    ))
}
