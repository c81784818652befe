//! What to do about a runc that does not return.

use causes::finding::Finding;

use super::{cannot_be_killed, end_tracer, in_the_kernel, is_traced, thaw};
use crate::evidence::owner::container_of;
use crate::evidence::who::go;
use crate::facts::NodeFacts;
use crate::facts::host::{FrozenCgroup, Process};

/// Adds the state of the runc processes that the runtime waits for, and what to do about them.
pub(crate) fn blame_runc(finding: &mut Finding, runcs: &[&Process], facts: &NodeFacts) {
    for runc in runcs {
        let age = go(runc.age_seconds.floor());
        let (who, doing) = (runc.label(), runc.doing());
        finding.evidence.push(format!(
            "{who}, which the runtime started {age} ago, {doing}"
        ));
    }
    let stopped = runcs.iter().filter(|runc| runc.is_stopped());
    let stopped: Vec<String> = stopped.map(|runc| runc.pid.to_string()).collect();
    finding.advise_first(match (&stopped[..], runcs) {
        (_, [runc]) => {
            let ids: Vec<&str> = finding.culprit.id.as_deref().into_iter().collect();
            release_runc(runc, "the runtime", &ids, facts)
        }
        ([_, ..], _) => format!(
            "run `kill -CONT {}` to resume the stopped runc, for which the runtime waits",
            stopped.join(" ")
        ),
        ([], _) => "find out what each of these runc processes waits for".to_owned(),
    });
}

/// How to end the wait for a runc.
pub(crate) fn release_runc(runc: &Process, waits: &str, ids: &[&str], facts: &NodeFacts) -> String {
    if is_traced(runc) {
        return end_tracer(runc);
    }
    if runc.is_stopped() {
        return format!(
            "run `kill -CONT {}` to resume the stopped runc, for which {waits} waits",
            runc.pid
        );
    }
    if cannot_be_killed(runc) {
        return in_the_kernel(runc);
    }
    let end = end_runc(runc, waits, &Freezer::of(ids, facts));
    format!("{end}; {}", lost_with(runc))
}

/// What is lost with a runc that is ended. The runtime reports an error for what it was to do.
fn lost_with(runc: &Process) -> &'static str {
    let verb = runc.runc.as_ref().map(|command| command.verb.as_str());
    match verb {
        Some("create" | "start" | "run" | "restore") => {
            "this start of the container fails, and the kubelet tries again"
        }
        Some("kill" | "delete") => "the runtime reports an error, and the kubelet tries again",
        Some("update") => "this change of the container's limits fails",
        Some("checkpoint") => "this checkpoint of the container fails",
        _ => "the container is not changed",
    }
}

/// Whether a container is frozen. runc freezes a container on cgroup v1 while it changes it, and one that
/// is killed does not thaw it (runc#4481).
#[derive(Debug)]
pub(super) enum Freezer<'a> {
    Thawed,
    Frozen(&'a FrozenCgroup),
    /// It is not known. On version 1, it is read at this path.
    Unread(Option<&'a str>),
}

impl<'a> Freezer<'a> {
    /// That of these containers: frozen if one of them is.
    pub(super) fn of(ids: &[&str], facts: &'a NodeFacts) -> Self {
        let host = &facts.host;
        let tasks = facts.probes.tasks.value().map_or(&[][..], Vec::as_slice);
        let is_first = |process: &Process| {
            let mut tasks = tasks.iter().filter(|task| ids.contains(&&*task.id));
            tasks.any(|task| task.init == Some(process.pid))
        };
        let is_inside = |process: &&Process| {
            container_of(process).is_some_and(|id| ids.contains(&id)) || is_first(process)
        };
        let inside = || host.all_processes().iter().filter(is_inside);
        if let Some(group) = inside().find_map(|process| host.frozen_group(process)) {
            return Self::Frozen(group);
        }
        let Some(process) = inside().find(|process| process.cgroup("freezer").is_some()) else {
            return Self::Unread(None);
        };
        match process.freezer_v1() {
            Some(path) if host.cgroups.frozen.value().is_none() => Self::Unread(Some(path)),
            _ => Self::Thawed,
        }
    }
}

/// How to end a runc.
pub(super) fn end_runc(runc: &Process, waits: &str, freezer: &Freezer) -> String {
    let end = format!(
        "`kill -KILL {}` to end the runc that {waits} waits for",
        runc.pid
    );
    match freezer {
        Freezer::Frozen(group) => format!(
            "the cgroup of the container is frozen, and a runc that is killed does not thaw it: \
             first {}, then run {end}",
            thaw(group)
        ),
        Freezer::Unread(Some(path)) => format!(
            "first run `cat /sys/fs/cgroup/freezer{path}/freezer.state`: a runc that is killed \
             does not thaw a cgroup that it has frozen. If it prints FROZEN, write THAWED to that \
             file. Then run {end}"
        ),
        Freezer::Thawed | Freezer::Unread(None) => format!("run {end}"),
    }
}
