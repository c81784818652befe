//! What to do about a call that hangs for one container, according to the state of the processes
//! behind it.
//!
//! Killing a process is advised only if there is evidence that this process is stuck: killing a
//! healthy shim or conmon costs a pod and frees nothing.

use super::phrases::short;
use crate::facts::host::process::is_of_freezer;
use crate::facts::host::{FrozenCgroup, Process};
use crate::facts::probes::{Probe, ProbeFacts};

mod runc;
mod shim;
#[cfg(test)]
mod tests;

pub(crate) use runc::{blame_runc, release_runc};
pub(crate) use shim::{blame, resume, resume_all};

/// How to find the processes of a container whose shim is not known, without reading command
/// lines, which may block on a process that hangs.
pub(crate) fn look_for(probe: &Probe, probes: &ProbeFacts) -> String {
    let id = probe.id.as_deref().unwrap_or_default();
    if probes.is_crio() {
        return format!(
            "`cat /run/containers/storage/overlay-containers/{id}/userdata/conmon-pidfile` prints \
             the PID of its conmon; check whether conmon, or a runc below crio, is in state T or D. If \
             neither is, kill nothing"
        );
    }
    let id = short(id);
    format!(
        "`grep -l {id} /proc/[0-9]*/cgroup` lists its processes; the parent of the oldest is its \
         shim. Check whether that is in state T or D, or has an old runc below it. If neither is \
         so, kill nothing"
    )
}

/// How to resume a stopped daemon.
pub(crate) fn resume_daemon(daemon: &Process) -> String {
    if is_traced(daemon) {
        return end_tracer(daemon);
    }
    format!(
        "run `kill -CONT {}` to resume it, which does not affect its containers; find out what \
         stopped it (a debugger, a snapshot, SIGSTOP)",
        daemon.pid
    )
}

/// How to thaw a control group.
pub(crate) fn thaw(group: &FrozenCgroup) -> String {
    format!("thaw it with `echo {} > {}`", group.thaw, group.file)
}

/// Whether a debugger has stopped a process. Only the debugger can resume it.
pub(crate) fn is_traced(process: &Process) -> bool {
    process.state == 't'
}

fn end_tracer(process: &Process) -> String {
    let (pid, label) = (process.pid, process.label());
    format!(
        "end the debugger that has stopped {label}: `grep TracerPid /proc/{pid}/status` shows its \
         process id. `kill -CONT` does not resume {label}, and nothing else has to be killed"
    )
}

/// How to raise a limit of the kernel at once.
pub(crate) fn raise_sysctl(name: &str, now: u64, to: u64) -> String {
    format!("raise the limit (now {now}) at once with `sysctl -w {name}={to}`")
}

fn cannot_be_killed(process: &Process) -> bool {
    process.state == 'D'
}

/// What to do about a process that waits in the kernel.
pub(crate) fn in_the_kernel(process: &Process) -> String {
    if process.waits().any(is_of_freezer) {
        let (pid, label) = (process.pid, process.label());
        return format!(
            "thaw the cgroup of {label}, which is frozen: `cat /proc/{pid}/cgroup` names it; write \
             THAWED to its freezer.state, or 0 to its cgroup.freeze"
        );
    }
    format!(
        "{} waits in the kernel and cannot be killed: repair what it waits for, usually a disk, a \
         network file system, or a file system that a snapshot has frozen (`fsfreeze --unfreeze`)",
        process.label()
    )
}
