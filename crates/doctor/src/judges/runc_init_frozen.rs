//! runc freezes a control group while it changes it; if it is killed meanwhile, nobody
//! thaws it.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use pleg::out::words::counted;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_groups};
use crate::evidence::owner::{culprit, of_cgroup};
use crate::facts::NodeFacts;
use crate::facts::host::{FrozenCgroup, HostFacts, Process};

/// runc needs less than a second; it waits 30 s for systemd at most.
const SURELY: f64 = 30.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let known = host.cgroups.frozen.value();
    let frozen = known.map_or(&[][..], Vec::as_slice);
    let mut findings: Vec<Finding> = host
        .all_processes()
        .iter()
        .filter(|process| process.is_runc_init() || process.is_runc())
        .filter_map(|process| stuck(process, known.map(Vec::as_slice)))
        .collect();
    let left: Vec<_> = frozen
        .iter()
        .filter(|group| findings.is_empty() && is_of_a_pod(&group.path))
        .map(|group| left_frozen(host, group))
        .collect();
    findings.extend(left);
    Opinion::of(findings, [lack_of_groups(host), lack(&host.cgroups.frozen)])
}

/// `frozen` is `None` where the control groups could not be read.
fn stuck(process: &Process, frozen: Option<&[FrozenCgroup]>) -> Option<Finding> {
    let path = process.cgroup("freezer");
    let looked_at = path.zip(frozen);
    let group = looked_at.and_then(|(path, frozen)| {
        let mut groups = frozen.iter();
        groups.find(|group| is_within(path, &group.path))
    });
    let refrigerated = process.threads.iter().find(|thread| {
        thread.still
            && thread
                .functions()
                .any(|function| function.contains("refrigerator") || function == "do_freezer_trap")
    });
    if group.is_none() && refrigerated.is_none() {
        return None;
    }
    let mut evidence = vec![format!(
        "{} is {:.0} s old, in state {}",
        process.label(),
        process.age_seconds,
        process.state
    )];
    evidence.push(match group {
        Some(group) => format!("{} says {}", group.file, group.state),
        None if looked_at.is_some() => {
            "its control group does not say that it is frozen: a fault of the kernel".to_owned()
        }
        None => "whether its control group is frozen could not be read".to_owned(),
    });
    evidence.extend(refrigerated.and_then(|thread| {
        let function = thread.functions().next()?;
        Some(format!("it waits in {function}"))
    }));
    let confidence = match process.age_seconds >= SURELY {
        true if group.is_some() && refrigerated.is_some() => Confidence::Certain,
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let found = finding(
        Cause::RuncInitFrozen,
        confidence,
        culprit(process),
        evidence,
    );
    let advice = match group {
        Some(group) => Some(thaw(group)),
        None if looked_at.is_some() => Some(format!(
            "move {} to another group of the freezer, which frees it: echo {} > \
             /sys/fs/cgroup/freezer/tasks",
            process.label(),
            process.pid
        )),
        None => look(process),
    };
    Some(match advice {
        Some(advice) => found.advising(advice),
        None => found,
    })
}

/// What to do by hand where no control group could be read.
fn look(process: &Process) -> Option<String> {
    let path = process.cgroup("freezer").filter(|path| *path != "/")?;
    let mut hierarchies = process.cgroups.iter();
    let is_old = hierarchies.any(|one| one.controllers.split(',').any(|name| name == "freezer"));
    let (file, frozen, thaw) = match is_old {
        true => (format!("freezer{path}/freezer.state"), "FROZEN", "THAWED"),
        false => (
            format!("{}/cgroup.freeze", path.trim_start_matches('/')),
            "1",
            "0",
        ),
    };
    Some(format!(
        "`cat /sys/fs/cgroup/{file}` says whether it is frozen; if it says {frozen}, \
         `echo {thaw} > /sys/fs/cgroup/{file}` thaws it"
    ))
}

fn thaw(group: &FrozenCgroup) -> String {
    format!("`echo {} > {}` thaws it", group.thaw, group.file)
}

/// A pod's group that is frozen with nobody of runc in it: paused by hand, or left over.
fn left_frozen(host: &HostFacts, group: &FrozenCgroup) -> Finding {
    let within = |process: &&Process| {
        let path = process.cgroup("freezer");
        path.is_some_and(|path| is_within(path, &group.path))
    };
    let held = host.all_processes().iter().filter(within).count();
    let evidence = vec![format!(
        "{} says {}, with {} in it",
        group.file,
        group.state,
        counted(held, "process")
    )];
    let found = finding(
        Cause::RuncInitFrozen,
        Confidence::Low,
        of_cgroup(&group.path),
        evidence,
    );
    found.advising(format!("unless somebody paused it, {}", thaw(group)))
}

fn is_of_a_pod(path: &str) -> bool {
    path.contains("kubepods") || path.contains("/pod")
}

fn is_within(path: &str, group: &str) -> bool {
    path.strip_prefix(group)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
