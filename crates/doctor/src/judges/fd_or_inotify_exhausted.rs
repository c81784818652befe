//! A daemon without free file descriptors accepts no connections; without an inotify instance
//! it does not even start.

use std::collections::BTreeMap;

use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::Opinion;
use super::opinion::{finding, of_machine};
use crate::evidence::culprit;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::remedy::raise_sysctl;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};
use crate::limits::NEAR_SHARE;

/// How many inotify instances a node with many pods needs.
const ENOUGH_INSTANCES: u64 = 8192;
/// A limit of which at least this share is used counts as used up.
const FULL_SHARE: f64 = 0.97;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let processes = || host.all_processes().iter();
    let findings = processes()
        .filter(|process| process.pid == 1 || process.is_daemon() || process.is_shim())
        .filter_map(|process| of_process(host, process))
        .chain(inotify(host))
        .chain(whole_machine(host));
    // This is the first fact that is missing if root may not inspect other processes.
    let mut daemons = processes().filter(|process| process.is_daemon());
    let hidden = daemons.find_map(|daemon| lack(&daemon.fds));
    Opinion::of(findings, [lack_of_processes(host), hidden])
}

fn confidence(used: u64, limit: u64) -> Option<Confidence> {
    match used as f64 / limit.max(1) as f64 {
        share if share >= FULL_SHARE => Some(Confidence::Certain),
        share if share >= NEAR_SHARE => Some(Confidence::Medium),
        _ => None,
    }
}

fn of_process(host: &HostFacts, process: &Process) -> Option<Finding> {
    let fds = process.fds.value()?;
    let limit = fds.limit?;
    let confidence = confidence(fds.open, limit)?;
    let (pid, comm, label) = (process.pid, &process.comm, process.label());
    let evidence = vec![format!(
        "{label} has {} of {limit} file descriptors open",
        fds.open
    )];
    let most = host.limits.files_of_process_max.value().copied();
    let raise = raise(pid, limit, fds.hard_limit, most);
    let culprit = culprit::of_process(process);
    let found = finding(Cause::FdOrInotifyExhausted, confidence, culprit, evidence)
        .advising(format!(
            "`ls -l /proc/{pid}/fd` shows what {label} has open"
        ))
        .advising(format!(
            "raise the limit of {comm} (now {limit}) without a restart: {raise}; to keep it raised, \
             set LimitNOFILE in its unit"
        ));
    let resource = format!("the file descriptors of {label}");
    Some(with_sentence(found, &resource, fds.open, limit))
}

/// The command that doubles a process's limit. With a single number, `prlimit` sets both
/// limits; `most` is the kernel's maximum.
fn raise(pid: u32, soft: u64, hard: Option<u64>, most: Option<u64>) -> String {
    let double = soft.saturating_mul(2);
    // If the hard limit is not known, it must not be lowered.
    let hard = hard.unwrap_or(double);
    if soft < hard {
        return format!("`prlimit --pid {pid} --nofile={}:`", double.min(hard));
    }
    let most = most.unwrap_or(double);
    if soft < most {
        return format!("`prlimit --pid {pid} --nofile={}`", double.min(most));
    }
    format!("`sysctl -w fs.nr_open={double}`, then `prlimit --pid {pid} --nofile={double}`")
}

fn inotify(host: &HostFacts) -> Vec<Finding> {
    let Some(max) = host.limits.inotify_instances_max.value() else {
        return Vec::new();
    };
    let instances = |process: &Process| process.fds.value().map_or(0, |fds| fds.inotify);
    let mut users: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for process in host.all_processes() {
        if instances(process) > 0 {
            users.entry(process.uid).or_default().push(process);
        }
    }
    let findings = users.into_iter().filter_map(|(uid, holders)| {
        let held = holders.iter().map(|process| instances(process));
        let sum = held.fold(0, u64::saturating_add);
        let confidence = confidence(sum, *max)?;
        let most = holders
            .into_iter()
            .max_by_key(|process| instances(process))?;
        let evidence = vec![
            format!("user {uid} has {sum} of {max} inotify instances"),
            format!("{} has the most of them: {}", most.label(), instances(most)),
        ];
        let culprit = culprit::of_process(most);
        let more = max.saturating_mul(2).max(ENOUGH_INSTANCES);
        let found = finding(Cause::FdOrInotifyExhausted, confidence, culprit, evidence)
            .advising(raise_sysctl("fs.inotify.max_user_instances", *max, more));
        let resource = format!("the inotify instances of user {uid}");
        Some(with_sentence(found, &resource, sum, *max))
    });
    findings.collect()
}

fn whole_machine(host: &HostFacts) -> Option<Finding> {
    let open = *host.limits.files_open.value()?;
    let max = *host.limits.files_max.value()?;
    let confidence = confidence(open, max)?;
    let evidence = vec![format!("{open} of {max} files are open on this machine")];
    let found = of_machine(Cause::FdOrInotifyExhausted, confidence, evidence)
        .advising(raise_sysctl("fs.file-max", max, max.saturating_mul(2)));
    let resource = "the open files of this machine";
    Some(with_sentence(found, resource, open, max))
}

/// Adds the sentence that a resource is used up, or nearly used up.
fn with_sentence(mut found: Finding, resource: &str, used: u64, limit: u64) -> Finding {
    let nearly = match found.confidence {
        Confidence::Certain => "",
        _ => "nearly ",
    };
    found.sentence = format!("{resource} are {nearly}used up: {used} of {limit}");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_what_is_used_up() {
        let said = |confidence| {
            let found = Finding::new(Cause::FdOrInotifyExhausted, confidence);
            with_sentence(found, "the file descriptors of crio (10)", 55, 54).sentence
        };
        let crio = "the file descriptors of crio (10) are";
        let certain = said(Confidence::Certain);
        assert_eq!(certain, format!("{crio} used up: 55 of 54"));
        let near = said(Confidence::Medium);
        assert_eq!(near, format!("{crio} nearly used up: 55 of 54"));
    }

    #[test]
    fn a_limit_is_raised_at_most_to_its_maximum_and_the_hard_limit_is_never_lowered() {
        for (soft, hard, most, expected) in [
            (1024, Some(524_288), Some(1_048_576), "--nofile=2048:`"),
            (1024, Some(1500), None, "--nofile=1500:`"),
            (1024, None, None, "--nofile=2048:`"),
            (4096, Some(4096), Some(1_048_576), "--nofile=8192`"),
            (4096, Some(4096), None, "--nofile=8192`"),
            (
                1_000_000,
                Some(1_000_000),
                Some(1_048_576),
                "--nofile=1048576`",
            ),
        ] {
            let raise = raise(9, soft, hard, most);
            assert_eq!(
                raise,
                format!("`prlimit --pid 9 {expected}"),
                "{soft} {hard:?}"
            );
        }
        let first = raise(9, 1_048_576, Some(1_048_576), Some(1_048_576));
        assert_eq!(
            first,
            "`sysctl -w fs.nr_open=2097152`, then `prlimit --pid 9 --nofile=2097152`"
        );
    }
}
