//! What to do about a call that hangs for one container, according to the state of the processes
//! behind it.
//!
//! Killing a process is advised only if there is evidence that this process is stuck: killing a
//! healthy shim or conmon costs a pod and frees nothing.

use causes::finding::{Finding, Remedy};

use super::phrases::{MAX_EXAMPLES, age, short, with_state};
use super::shims::Shim;
use crate::facts::NodeFacts;
use crate::facts::host::process::is_of_freezer;
use crate::facts::host::{FrozenCgroup, Process};
use crate::facts::probes::{Probe, ProbeFacts};

mod runc;

use runc::{Freezer, end_runc};
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

/// What to do first about calls that hang for a container, and to which process. The advice describes the
/// action, and the remedy of the finding contains the signals to send.
#[derive(Debug)]
enum Action<'a> {
    /// Resume these stopped processes.
    Continue(Vec<&'a Process>),
    /// End this runc, which does not return.
    EndRunc(&'a Process, Freezer<'a>),
    /// Examine or repair the node, as this advice says.
    ByHand(String),
}

impl<'a> Action<'a> {
    fn of_shim(shim: &Shim<'a>, facts: &'a NodeFacts) -> Self {
        let stopped: Vec<&Process> = shim.stopped().collect();
        let traced = stopped.iter().find(|process| is_traced(process));
        let role = shim.role();
        Self::ByHand(match (traced, shim.oldest_runc()) {
            (Some(process), _) => end_tracer(process),
            _ if shim.process.is_stopped() => return Self::Continue(stopped),
            _ if shim.process.was_resumed => format!(
                "run `pleg doctor` again: the {role} was stopped at first, and has been resumed \
                 since; kill nothing before that"
            ),
            _ if !stopped.is_empty() => return Self::Continue(stopped),
            (_, Some(runc)) if cannot_be_killed(runc) => in_the_kernel(runc),
            _ if cannot_be_killed(shim.process) || !shim.stuck_in().is_empty() => {
                in_the_kernel(shim.process)
            }
            (_, Some(runc)) if shim.fault().is_some() => {
                return Self::EndRunc(runc, Freezer::of(&shim.ids, facts));
            }
            // This runc was seen in the first sample, and may have ended since.
            (_, Some(runc)) => format!(
                "run `pleg doctor` again in ten seconds: runc ({}) below it had been running for \
                 {} only. Until it has ended, do not kill the {role}, and do not restart the \
                 runtime. If another runc runs each time, find out what those wait for, because \
                 the runtime starts them again",
                runc.pid,
                age(runc)
            ),
            (_, None) => look_at_runtime(shim, facts),
        })
    }

    /// The signals to send, if any. A runc that is killed does not thaw its container, so a runc is ended
    /// only if the container is thawed.
    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Continue(stopped) => {
                let pids = stopped.iter().map(|process| process.pid);
                Some(Remedy::Continue(pids.collect()))
            }
            Self::EndRunc(runc, Freezer::Thawed) => Some(Remedy::EndRunc([runc.pid])),
            Self::EndRunc(_, Freezer::Frozen(_) | Freezer::Unread(_)) | Self::ByHand(_) => None,
        }
    }

    /// The advice for a shim; `is_called` is whether the runtime makes calls to it.
    fn advice(self, shim: &Shim, is_called: bool) -> String {
        let (pid, role) = (shim.process.pid, shim.role());
        match self {
            Self::ByHand(advice) => advice,
            Self::Continue(stopped) => {
                let pids: String = stopped.iter().map(|one| format!(" {}", one.pid)).collect();
                let resume = format!("run `kill -CONT{pids}` to resume the");
                match (shim.stopped_runc(), shim.process.is_stopped()) {
                    (Some(runc), true) => format!(
                        "{resume} {role} and the stopped {} below it; nothing is restarted",
                        runc.comm
                    ),
                    (Some(runc), false) => {
                        format!("{resume} stopped {}, for which the others wait", runc.comm)
                    }
                    // First find out what the runc below it waits for.
                    (None, _) if shim.oldest_runc().is_some() => format!(
                        "{resume} {role}; nothing is restarted; then run `pleg doctor` again \
                         before anything is killed"
                    ),
                    (None, _) if is_called => format!(
                        "{resume} {role}, which frees the node at once; nothing is restarted. If \
                         that does not help, run `kill -KILL {pid}`: {RESTARTS_ONE_POD}"
                    ),
                    (None, _) => format!("{resume} {role}; nothing is restarted"),
                }
            }
            Self::EndRunc(runc, freezer) => {
                let mut advice = end_runc(runc, &format!("the {role}"), &freezer);
                if is_called {
                    advice += &format!(
                        "; if that does not help, run `kill -KILL {pid}` to end the shim: \
                         {RESTARTS_ONE_POD}"
                    );
                }
                advice
            }
        }
    }
}

/// Adds the state of a shim and its runc processes to a finding about a call that hangs for the shim's pod,
/// and how to unblock what waits for them.
pub(crate) fn blame(finding: &mut Finding, shim: &Shim, facts: &NodeFacts) {
    // Only containerd calls the shim of a pod; conmon and docker's shims are not called.
    let is_called = facts.probes.may_be_containerd() && !shim.is_conmon();
    advise(finding, shim, facts, is_called);
}

/// Adds how to resume these stopped shims, together with the stopped runcs below them. The text `why` is
/// appended to the advice.
pub(crate) fn resume_all(finding: &mut Finding, stopped: &[&Shim], why: &str) {
    let processes = stopped.iter().flat_map(|shim| shim.stopped());
    let pids: Vec<u32> = processes.map(|process| process.pid).collect();
    let listed: String = pids.iter().map(|pid| format!(" {pid}")).collect();
    let shims = match stopped.len() {
        1 => "the stopped shim".to_owned(),
        count => format!("the {count} stopped shims"),
    };
    let examples = stopped.iter().take(MAX_EXAMPLES);
    finding.evidence.extend(examples.map(|shim| shim.says()));
    finding.advise_first(format!("run `kill -CONT{listed}` to resume {shims}{why}"));
    finding.remedy = Some(Remedy::Continue(pids));
}

/// Adds how to resume a shim that is stopped, while no call is known to hang for its pod.
pub(crate) fn resume(finding: &mut Finding, shim: &Shim, facts: &NodeFacts) {
    advise(finding, shim, facts, false);
}

fn advise(finding: &mut Finding, shim: &Shim, facts: &NodeFacts, is_called: bool) {
    let role = shim.role();
    finding.evidence.push(shim.says());
    let places = shim.stuck_in().into_iter();
    let places = places.map(|place| format!("a thread of the {role} waits in {place}"));
    finding.evidence.extend(places);
    finding.evidence.extend(shim.runc.iter().map(|runc| {
        let state = with_state(runc);
        format!(
            "below the {role}, {state}; it was started {} ago",
            age(runc)
        )
    }));
    let action = Action::of_shim(shim, facts);
    let remedy = action.remedy();
    finding.advise_first(action.advice(shim, is_called));
    finding.remedy = remedy;
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

    /// The first finding, after an assertion that its remedy is what its first advice says.
    fn finding(node: Node) -> Finding {
        let finding = found(opinion(&node.facts(), Cause::ContainerLock)).remove(0);
        let command = match &finding.remedy {
            Some(Remedy::Continue(pids)) => {
                let pids: String = pids.iter().map(|pid| format!(" {pid}")).collect();
                format!("run `kill -CONT{pids}`")
            }
            Some(Remedy::EndRunc([pid])) => format!("run `kill -KILL {pid}`"),
            None => String::new(),
        };
        assert!(finding.advice[0].starts_with(&command), "{finding:#?}");
        finding
    }

    fn remedy(node: Node) -> Option<Remedy> {
        finding(node).remedy
    }

    /// Enforces D1.
    #[test]
    fn the_remedy_resumes_what_is_stopped_or_ends_a_runc_and_never_a_shim() {
        let shim = |stopped| hung("containerd", "1.7.24").shim(99, stopped, &["c1"]);
        let with_runc = |state, age| {
            let node = shim(false).in_group(100, "", "/kubepods/c1");
            let node = node.process(200, 99, "runc").in_state(200, state);
            node.aged(200, age)
        };
        let resume = |pid| Some(Remedy::Continue(vec![pid]));
        assert_eq!(remedy(shim(true)), resume(99));
        assert_eq!(remedy(with_runc('T', 1.0)), resume(200));
        let end = Some(Remedy::EndRunc([200]));
        assert_eq!(remedy(with_runc('S', 22.0)), end);
        for node in [
            shim(false),
            shim(false).resumed(99),
            shim(false).in_state(99, 'D'),
            shim(false).blocked(99, "nfs4_call_sync"),
            shim(true).in_state(99, 't'),
            with_runc('S', 1.0),
            with_runc('D', 22.0),
            with_runc('t', 22.0),
            // It is not known whether the container is frozen.
            shim(false).process(200, 99, "runc").aged(200, 22.0),
        ] {
            assert_eq!(remedy(node), None);
        }
    }

    #[test]
    fn a_conmon_that_sleeps_is_never_to_be_killed_and_a_stopped_one_is_resumed() {
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
    fn a_stopped_runc_is_resumed_and_its_init_is_left_alone() {
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
    fn below_a_stopped_shim_no_process_is_killed_before_the_shim_is_resumed() {
        let node = |state| {
            hung("containerd", "1.7.24")
                .shim(99, true, &["c1"])
                .process(200, 99, "runc")
                .in_state(200, state)
        };
        let found = finding(node('T'));
        assert_eq!(found.remedy, Some(Remedy::Continue(vec![99, 200])));
        let stopped = &found.advice[0];
        assert!(
            stopped.contains("kill -CONT 99 200") && !stopped.contains("KILL"),
            "{stopped}"
        );
        let found = finding(node('S'));
        assert_eq!(found.remedy, Some(Remedy::Continue(vec![99])));
        let running = &found.advice[0];
        assert!(
            running.contains("kill -CONT 99`") && !running.contains("KILL"),
            "{running}"
        );
    }

    #[test]
    fn a_shim_is_not_to_be_killed_while_a_runc_below_it_is_young() {
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
    fn a_shim_that_was_resumed_between_the_samples_is_not_to_be_killed() {
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
    fn a_process_that_waits_in_the_kernel_is_not_to_be_killed() {
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

    /// Enforces D1.
    #[test]
    fn a_runc_whose_container_is_frozen_is_ended_only_after_its_cgroup_is_thawed() {
        let waiting = |controllers| {
            hung("containerd", "1.7.24")
                .shim(99, false, &["c1"])
                .process(200, 99, "runc")
                .in_group(100, controllers, "/kubepods/c1")
        };
        let file = "/sys/fs/cgroup/freezer/kubepods/c1/freezer.state";
        let frozen = finding(waiting("freezer").frozen("/kubepods/c1", file, "THAWED"));
        let advice = &frozen.advice[0];
        let thaw = advice.find(&format!("`echo THAWED > {file}`")).unwrap();
        assert!(thaw < advice.find("`kill -KILL 200`").unwrap(), "{advice}");
        assert_eq!(frozen.remedy, None);
        // The freezers could not be read.
        let unread = finding(waiting("freezer"));
        assert!(
            unread.advice[0].starts_with(&format!("first run `cat {file}`")),
            "{unread:#?}"
        );
        assert_eq!(unread.remedy, None);
        // Another cgroup is frozen; on version 2, none of this is needed.
        let end = Some(Remedy::EndRunc([200]));
        let other = waiting("freezer").frozen("/kubepods/c2", "other", "THAWED");
        assert_eq!(remedy(other), end);
        assert_eq!(remedy(waiting("")), end);
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
