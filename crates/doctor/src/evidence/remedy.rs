//! What to do about a call that hangs for one container, according to the state of the processes
//! behind it.
//!
//! Killing a process is advised only if there is evidence that this process is stuck: killing a
//! healthy shim or conmon costs a pod and frees nothing.

use causes::finding::Finding;

use super::shims::{Shim, ShimFault};
use super::who::{go, short};
use crate::facts::NodeFacts;
use crate::facts::host::process::is_of_freezer;
use crate::facts::host::{FrozenCgroup, Process};
use crate::facts::probes::{Probe, ProbeFacts};

mod runc;

use runc::end_runc;
pub(crate) use runc::{blame_runc, release_runc};

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

/// Whether a debugger has stopped it, which alone can let it go on.
fn is_traced(process: &Process) -> bool {
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

/// Adds the state of a shim and its runc processes to a finding of a call that hangs for its pod,
/// and how to unblock what waits for them.
pub(crate) fn blame(finding: &mut Finding, shim: &Shim, facts: &NodeFacts) {
    describe(finding, shim);
    finding.advise_first(advice(shim, facts));
}

/// The same of a shim that is stopped, while no call is known to hang for its pod.
pub(crate) fn resume(finding: &mut Finding, shim: &Shim) {
    describe(finding, shim);
    finding.advise_first(resume_shim(shim));
}

fn resume_shim(shim: &Shim) -> String {
    if is_traced(shim.process) {
        return end_tracer(shim.process);
    }
    let (pid, role) = (shim.process.pid, shim.role());
    format!("run `kill -CONT {pid}` to resume the {role}; nothing is restarted")
}

fn describe(finding: &mut Finding, shim: &Shim) {
    let (role, named) = (shim.role(), shim.named());
    let evidence = &mut finding.evidence;
    evidence.push(format!("its {named} {}", shim.process.doing()));
    let places = shim.stuck_in().into_iter();
    evidence.extend(places.map(|place| format!("a thread of the {role} waits in {place}")));
    evidence.extend(shim.runc.iter().map(|runc| {
        let age = go(runc.age_seconds.floor());
        let (who, doing) = (runc.label(), runc.doing());
        format!("below the {role}, {who} {doing}; it was started {age} ago")
    }));
}

/// What to look at if nothing shows that a shim is at fault.
fn look_at_runtime(shim: &Shim, facts: &NodeFacts) -> String {
    let label = shim.process.label();
    let runtime = match facts.runtime_process() {
        Some(runtime) => format!(
            "`ps -L -o tid,stat,wchan:30 -p {}` shows where the runtime waits (state D: usually \
             for its disk)",
            runtime.pid
        ),
        None => "find out what the runtime itself waits for, usually its disk".to_owned(),
    };
    format!("do not kill {label}: nothing shows that it is stuck; {runtime}")
}

/// What happens when a shim of containerd is killed.
const RESTARTS_ONE_POD: &str = "its pod is restarted, and no other pod is affected";

fn advice(shim: &Shim, facts: &NodeFacts) -> String {
    let pid = shim.process.pid;
    // Only containerd calls the shim of a pod; conmon and docker's shims are not called.
    let is_called = facts.probes.may_be_containerd() && !shim.is_conmon();
    let stopped = shim.runc.iter().filter(|runc| runc.is_stopped());
    let stopped: String = stopped.map(|runc| format!(" {}", runc.pid)).collect();
    match (shim.stopped_runc(), shim.oldest_runc()) {
        _ if is_traced(shim.process) => end_tracer(shim.process),
        (Some(runc), _) if is_traced(runc) => end_tracer(runc),
        (Some(runc), _) if shim.process.is_stopped() => format!(
            "run `kill -CONT {pid}{stopped}` to resume the {} and the stopped {} below it; nothing \
             is restarted",
            shim.role(),
            runc.comm
        ),
        // What the runc below it waits for is to be seen first.
        (None, Some(_)) if shim.process.is_stopped() => format!(
            "{}; then run `pleg doctor` again before anything is killed",
            resume_shim(shim)
        ),
        _ if shim.process.is_stopped() && is_called => format!(
            "run `kill -CONT {pid}` to resume the shim, which frees the node at once; nothing is \
             restarted. If that does not help, run `kill -KILL {pid}`: {RESTARTS_ONE_POD}"
        ),
        _ if shim.process.is_stopped() => resume_shim(shim),
        _ if shim.process.was_resumed => format!(
            "run `pleg doctor` again: the {} was stopped when the look began, and has been \
             resumed; kill nothing before that",
            shim.role()
        ),
        (Some(runc), _) => format!(
            "run `kill -CONT{stopped}` to resume the stopped {}, for which the others wait",
            runc.comm
        ),
        (None, Some(runc)) if cannot_be_killed(runc) => in_the_kernel(runc),
        _ if cannot_be_killed(shim.process) || !shim.stuck_in().is_empty() => {
            in_the_kernel(shim.process)
        }
        (None, Some(runc)) => match shim.fault() {
            Some(ShimFault::Runc(_)) => {
                let end = end_runc(runc, &format!("the {}", shim.role()), &shim.ids, facts);
                match is_called {
                    true => format!(
                        "{end}; if that does not help, run `kill -KILL {pid}` to end the shim: \
                         {RESTARTS_ONE_POD}"
                    ),
                    false => end,
                }
            }
            // It was seen when the look began, and may have ended since.
            _ => format!(
                "run `pleg doctor` again in ten seconds: runc ({}) below it had been running for \
                 {} only. Until it has ended, do not kill the {}, and do not restart the runtime. \
                 If another runc runs each time, find out what those wait for, because the runtime \
                 starts them again",
                runc.pid,
                go(runc.age_seconds.floor()),
                shim.role()
            ),
        },
        _ => look_at_runtime(shim, facts),
    }
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
        "{} waits in the kernel and cannot be killed: repair what it waits for, usually a disk or \
         a network file system",
        process.label()
    )
}

#[cfg(test)]
mod tests {
    use cri::Rpc;

    use causes::Cause;

    use super::*;
    use crate::judges::opinion;
    use crate::node::{Node, found, node};

    fn hung(name: &str, version: &str) -> Node {
        node(name, version)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 7, 0.002)
    }

    fn first_advice(node: Node) -> String {
        finding(node).advice[0].clone().into_owned()
    }

    fn finding(node: Node) -> Finding {
        found(opinion(&node.facts(), Cause::ContainerLock)).remove(0)
    }

    #[test]
    fn a_conmon_that_sleeps_is_never_to_be_killed_and_a_stopped_one_goes_on() {
        let asleep = hung("cri-o", "1.36.3")
            .shim(99, false, &["c1"])
            .named(99, "conmon");
        let advice = first_advice(asleep);
        assert!(advice.contains("do not kill conmon (99)"), "{advice}");
        let stopped = hung("cri-o", "1.36.3")
            .shim(99, true, &["c1"])
            .named(99, "conmon");
        let advice = first_advice(stopped);
        assert!(
            advice.contains("kill -CONT 99") && !advice.contains("KILL"),
            "{advice}"
        );
    }

    #[test]
    fn a_runc_that_was_stopped_goes_on_and_its_init_is_left_alone() {
        let node = hung("docker", "20.10.24")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .in_state(200, 'T')
            .process(201, 200, "runc:[2:INIT]");
        let advice = first_advice(node);
        assert!(
            advice.contains("kill -CONT 200") && !advice.contains("KILL"),
            "{advice}"
        );
    }

    #[test]
    fn only_the_debugger_can_resume_a_process_that_it_has_stopped() {
        let node = hung("containerd", "1.7.24")
            .shim(99, true, &["c1"])
            .in_state(99, 't');
        let advice = first_advice(node);
        assert!(advice.contains("TracerPid /proc/99/status"), "{advice}");
        assert!(!advice.contains("KILL"), "{advice}");
    }

    #[test]
    fn below_a_stopped_shim_no_process_is_killed_before_its_runc_continues() {
        let node = |state| {
            hung("containerd", "1.7.24")
                .shim(99, true, &["c1"])
                .process(200, 99, "runc")
                .in_state(200, state)
        };
        let stopped = first_advice(node('T'));
        assert!(
            stopped.contains("kill -CONT 99 200") && !stopped.contains("KILL"),
            "{stopped}"
        );
        let running = first_advice(node('S'));
        assert!(
            running.contains("kill -CONT 99`") && !running.contains("KILL"),
            "{running}"
        );
    }

    #[test]
    fn while_a_runc_has_just_been_started_below_it_no_shim_is_to_be_killed() {
        let node = |age| {
            hung("containerd", "1.7.24")
                .shim(99, false, &["c1"])
                .process(200, 99, "runc")
                .aged(200, age)
        };
        // An action on the named process harms no pod.
        assert_eq!(finding(node(22.0)).culprit.pid, Some(200));
        let young = first_advice(node(3.0));
        assert!(
            young.contains("runc (200)") && !young.contains("KILL"),
            "{young}"
        );
        let old = first_advice(node(22.0));
        assert!(old.starts_with("run `kill -KILL 200`"), "{old}");
    }

    #[test]
    fn a_shim_that_was_resumed_while_the_doctor_looked_is_not_to_be_killed() {
        let resumed = hung("containerd", "1.7.24")
            .shim(99, false, &["c1"])
            .resumed(99);
        let advice = first_advice(resumed);
        assert!(
            advice.contains("`pleg doctor` again") && !advice.contains("KILL"),
            "{advice}"
        );
    }

    #[test]
    fn who_waits_in_the_kernel_is_not_to_be_killed() {
        let node = hung("containerd", "1.7.24")
            .shim(99, false, &["c1"])
            .in_state(99, 'D');
        let advice = first_advice(node);
        assert!(
            advice.contains("cannot be killed") && !advice.contains("KILL"),
            "{advice}"
        );
    }

    #[test]
    fn a_shim_that_merely_sleeps_is_not_to_be_killed() {
        let asleep = finding(hung("containerd", "1.7.24").shim(99, false, &["c1"]));
        let advice = &asleep.advice[0];
        assert!(
            advice.starts_with("do not kill containerd-shim (99)"),
            "{advice}"
        );
        assert!(advice.contains("-p 10`"), "{advice}");
        assert!(!asleep.advice.join("").contains("-KILL"), "{asleep:?}");
        assert_eq!(asleep.culprit.pid, None);
        assert_eq!(asleep.culprit.id.as_deref(), Some("c1"));
    }

    #[test]
    fn a_runc_whose_container_is_frozen_is_ended_only_after_its_cgroup_is_thawed() {
        let waiting = |controllers| {
            hung("containerd", "1.7.24")
                .shim(99, false, &["c1"])
                .process(200, 99, "runc")
                .in_group(100, controllers, "/kubepods/c1")
        };
        let file = "/sys/fs/cgroup/freezer/kubepods/c1/freezer.state";
        let frozen = first_advice(waiting("freezer").frozen("/kubepods/c1", file, "THAWED"));
        let thaw = frozen.find(&format!("`echo THAWED > {file}`")).unwrap();
        assert!(thaw < frozen.find("`kill -KILL 200`").unwrap(), "{frozen}");
        // The freezers could not be read.
        let unread = first_advice(waiting("freezer"));
        assert!(
            unread.starts_with(&format!("first run `cat {file}`")),
            "{unread}"
        );
        // Another one is frozen, and version 2 needs none of this.
        let other = first_advice(waiting("freezer").frozen("/kubepods/c2", "other", "THAWED"));
        assert!(other.starts_with("run `kill -KILL 200`"), "{other}");
        let v2 = first_advice(waiting(""));
        assert!(v2.starts_with("run `kill -KILL 200`"), "{v2}");
    }

    #[test]
    fn a_runc_of_the_runtime_whose_container_is_frozen_is_ended_only_after_its_cgroup_is_thawed() {
        let file = "/sys/fs/cgroup/freezer/kubepods/c1/freezer.state";
        let frozen = hung("cri-o", "1.36.3")
            .conmon(80, "c1", Some("s1"))
            .in_group(81, "freezer", "/kubepods/c1")
            .frozen("/kubepods/c1", file, "THAWED")
            .process(300, 10, "runc");
        let advice = first_advice(frozen);
        let thaw = advice.find(&format!("`echo THAWED > {file}`")).unwrap();
        assert!(thaw < advice.find("`kill -KILL 300`").unwrap(), "{advice}");
    }
}
