//! What to do about a runc that does not return.

use causes::finding::Finding;

use super::{cannot_be_killed, end_tracer, in_the_kernel, is_traced, thaw};
use crate::evidence::known;
use crate::evidence::owner::container_of;
use crate::evidence::phrases::age;
use crate::evidence::runc::verb_of_runc;
use crate::facts::NodeFacts;
use crate::facts::host::{FrozenCgroup, Process};

/// Adds the state of the runc processes that the runtime waits for, and what to do about them.
pub(crate) fn blame_runc(finding: &mut Finding, runcs: &[&Process], facts: &NodeFacts) {
    finding.evidence.extend(runcs.iter().map(|runc| {
        let (label, doing) = (runc.label(), runc.doing());
        format!(
            "{label}, which the runtime started {} ago, {doing}",
            age(runc)
        )
    }));
    let stopped = runcs.iter().filter(|runc| runc.is_stopped());
    let stopped: Vec<String> = stopped.map(|runc| runc.pid.to_string()).collect();
    finding.advise_first(match (&stopped[..], runcs) {
        (_, [runc]) => release_runc(runc, "the runtime", finding.culprit.id.as_deref(), facts),
        ([_, ..], _) => resume_runc(&stopped.join(" "), "the runtime"),
        ([], _) => "find out what each of these runc processes waits for".to_owned(),
    });
}

/// What to do about a runc that changes the container `id`, so that `waiter` no longer waits for it.
pub(crate) fn release_runc(
    runc: &Process,
    waiter: &str,
    id: Option<&str>,
    facts: &NodeFacts,
) -> String {
    if is_traced(runc) {
        end_tracer(runc)
    } else if runc.is_stopped() {
        resume_runc(&runc.pid.to_string(), waiter)
    } else if cannot_be_killed(runc) {
        in_the_kernel(runc)
    } else {
        let end = end_runc(runc, waiter, &Freezer::of(id.as_slice(), facts));
        format!("{end}; {}", lost_with(runc))
    }
}

fn resume_runc(pids: &str, waiter: &str) -> String {
    format!("run `kill -CONT {pids}` to resume the stopped runc, for which {waiter} waits")
}

/// What is lost if a runc is ended. The runtime reports an error for the command that the runc was to
/// execute.
fn lost_with(runc: &Process) -> &'static str {
    match verb_of_runc(runc) {
        Some("create" | "start" | "run" | "restore") => {
            "this start of the container fails, and the kubelet tries again"
        }
        Some("kill" | "delete") => "the runtime reports an error, and the kubelet tries again",
        Some("update") => "this change of the container's limits fails",
        Some("checkpoint") => "this checkpoint of the container fails",
        _ => "the container is not changed",
    }
}

/// Whether a container is frozen. On cgroup v1, runc freezes a container while it changes it, and a runc
/// that is killed does not thaw the container (runc#4481).
#[derive(Debug)]
pub(super) enum Freezer<'a> {
    Thawed,
    Frozen(&'a FrozenCgroup),
    /// It is not known whether the container is frozen. On version 1, the control group at this path shows
    /// it.
    Unread(Option<&'a str>),
}

impl<'a> Freezer<'a> {
    /// The state of these containers: frozen if one of them is.
    pub(super) fn of(ids: &[&str], facts: &'a NodeFacts) -> Self {
        let host = &facts.host;
        let tasks = known(&facts.probes.tasks).iter();
        let inits = tasks.filter(|task| ids.contains(&&*task.id));
        let inits: Vec<u32> = inits.filter_map(|task| task.init).collect();
        let is_inside = |process: &&Process| {
            container_of(process).is_some_and(|id| ids.contains(&id))
                || inits.contains(&process.pid)
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
pub(super) fn end_runc(runc: &Process, waiter: &str, freezer: &Freezer) -> String {
    let end = format!(
        "`kill -KILL {}` to end the runc that {waiter} waits for",
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
