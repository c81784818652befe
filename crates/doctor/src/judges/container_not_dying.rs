//! A container that is to end, but whose processes live on: each attempt to stop it fails, whatever the
//! lists and statuses show.

use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::Opinion;
use crate::evidence::culprit;
use crate::evidence::ending::{Asked, Ending, Held, endings};
use crate::evidence::lack::{lack_of_processes, lack_of_tasks};
use crate::evidence::phrases::{name_of_task, with_state};
use crate::evidence::remedy::{in_the_kernel, thaw};
use crate::evidence::runc::{container_of_runc, hung_runcs, verb_of_runc};
use crate::evidence::shims::{role, shims};
use crate::facts::NodeFacts;
use crate::facts::host::Process;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let endings = endings(facts);
    let hung: Vec<u32> = hung_runcs(facts).iter().map(|runc| runc.pid).collect();
    let is_reported = |ending: &&Ending| {
        let has_runc = || kills(facts, ending).any(|runc| hung.contains(&runc.pid));
        // If no signal has reached the process, the runc that was to send it is the cause.
        ending.held != Held::Nothing || !has_runc()
    };
    let reported = endings.iter().filter(is_reported);
    Opinion::of(
        reported.map(|ending| of(facts, ending)),
        [lack_of_processes(&facts.host), lack_of_tasks(&facts.probes)],
    )
}

fn of(facts: &NodeFacts, ending: &Ending) -> Finding {
    let Ending {
        task,
        process,
        asked,
        held,
    } = ending;
    let (name, label) = (name_of_task(task), process.label());
    let mut evidence = vec![match process.pending.filter(|_| process.state != 'Z') {
        Some(signal) => {
            let doing = process.doing();
            format!("{} is pending for {label}, which {doing}", signal.name())
        }
        None => with_state(process),
    }];
    if task.sandbox_ended {
        evidence.push(
            "the runtime lists it as running, and its pod has no sandbox that is ready".to_owned(),
        );
    }
    match kills(facts, ending).count() {
        0 => {}
        1 => evidence.push("a process of `runc kill` for it has not returned".to_owned()),
        kills => evidence.push(format!(
            "{kills} processes of `runc kill` for it have not returned"
        )),
    }
    let (why, advice) = match held {
        Held::Frozen(group) => {
            evidence.push(format!("{} contains {}", group.file, group.state));
            let thaw = thaw(group);
            (
                "its cgroup is frozen".to_owned(),
                format!("{thaw}, after which the signal ends it; nothing else has to be killed"),
            )
        }
        Held::Traced(tracer) => {
            let tracer = facts.host.process(*tracer).map(Process::label);
            let tracer = tracer.unwrap_or_else(|| "a process of another PID namespace".to_owned());
            (
                format!("{tracer} traces {label}"),
                format!(
                    "end {tracer}, or detach it from {label}, whose end is not reported until then; \
                     nothing else has to be killed"
                ),
            )
        }
        Held::InKernel(function) => (
            format!("{label} waits in the kernel, in {function}"),
            format!(
                "{}; do not kill its {}, which reports the exit when it ends. If that cannot be \
                 repaired, reboot the node",
                in_the_kernel(process),
                role(&facts.probes)
            ),
        ),
        Held::Nothing if *asked == Asked::ListedAsEnded => (
            state_of_shim(facts, ending),
            format!(
                "run `kill -KILL {}` to end the container, because a kubelet starts it again beside \
                 this one",
                process.pid
            ),
        ),
        Held::Nothing => (
            "no signal is pending, so the stop may not have reached it".to_owned(),
            format!(
                "{}; if its grace period is over, run `kill -KILL {}` to end the container; its pod \
                 has ended already",
                state_of_shim(facts, ending),
                process.pid
            ),
        ),
    };
    let sentence = match asked {
        Asked::Killed => format!("{name} was killed and does not end: {why}"),
        Asked::Exited if Some(process.pid) == task.init && process.has_ended() => {
            format!("{name} has exited, which is not reported: {why}")
        }
        Asked::Exited => format!("{name} cannot end: {why}"),
        Asked::Terminated => format!("{name} is to stop, and does not receive the signal: {why}"),
        Asked::SandboxEnded => format!("{name} lives on although its sandbox has ended: {why}"),
        Asked::ListedAsEnded => format!("{name} is listed as ended, but lives on: {why}"),
    };
    let confidence = match (held, asked) {
        // A grace period may be long.
        (Held::Nothing, Asked::SandboxEnded) => Confidence::Low,
        // The container may be paused or debugged on purpose, and continue before it is killed.
        (_, Asked::Terminated) => Confidence::Medium,
        _ => Confidence::High,
    };
    Finding {
        sentence,
        culprit: culprit::with_process(culprit::of_task(task), process),
        evidence,
        // The advice of the page is about processes that wait in the kernel.
        advice: vec![advice.into()],
        ..Finding::new(Cause::ContainerNotDying, confidence)
    }
}

/// The `runc kill` processes that are to end the container.
fn kills<'a>(facts: &'a NodeFacts, ending: &Ending<'a>) -> impl Iterator<Item = &'a Process> {
    let id = ending.task.id.as_str();
    let processes = facts.host.all_processes().iter();
    processes.filter(move |process| {
        verb_of_runc(process) == Some("kill") && container_of_runc(process) == Some(id)
    })
}

fn state_of_shim(facts: &NodeFacts, ending: &Ending) -> String {
    let shims = shims(facts).unwrap_or_default();
    match shims.iter().find(|shim| shim.serves(&ending.task.id)) {
        Some(shim) => shim.says(),
        None => format!("no {} was found that serves it", role(&facts.probes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::EndSignal;
    use crate::node::{Node, found, node};

    /// Process 81 is the first of container `c1`.
    fn container() -> Node {
        node("cri-o", "1.37.0").conmon(80, "c1", Some("s1"))
    }

    fn only(node: Node) -> Finding {
        let mut findings = found(judge(&node.facts()));
        assert_eq!(findings.len(), 1);
        findings.remove(0)
    }

    #[test]
    fn a_killed_container_whose_cgroup_is_frozen_is_to_be_thawed_and_nothing_is_killed() {
        let file = "/sys/fs/cgroup/freezer/kubepods/c1/freezer.state";
        let frozen = |node: Node| {
            let node = node.in_group(81, "freezer", "/kubepods/c1");
            node.frozen("/kubepods/c1", file, "THAWED")
        };
        let found = only(frozen(container().pending(81, EndSignal::Kill)));
        assert_eq!(
            found.sentence,
            "container app of pod shop/web was killed and does not end: its cgroup is frozen"
        );
        assert_eq!(found.confidence, Confidence::High);
        assert!(found.advice[0].contains(&format!("`echo THAWED > {file}`")));
        assert!(!found.advice.join("").contains("-KILL"), "{found:#?}");
        let asked = only(frozen(container().pending(81, EndSignal::Term)));
        assert_eq!(asked.confidence, Confidence::Medium);
        assert!(asked.sentence.contains("does not receive the signal"));
        // The container is paused, but is not to end.
        assert_eq!(judge(&frozen(container()).facts()), Opinion::Clear);
    }

    #[test]
    fn the_tracer_of_a_container_that_does_not_end_is_named_even_if_the_container_is_a_zombie() {
        for (state, signal) in [('t', EndSignal::Term), ('Z', EndSignal::Kill)] {
            let node = container()
                .process(77, 1, "strace")
                .pending(81, signal)
                .in_state(81, state)
                .traced(81, 77);
            let found = only(node);
            assert!(found.sentence.ends_with("strace (77) traces app (81)"));
            assert!(found.advice[0].starts_with("end strace (77)"), "{found:#?}");
        }
        let runs = container().traced(81, 77).pending(81, EndSignal::Term);
        assert_eq!(judge(&runs.facts()), Opinion::Clear);
    }

    #[test]
    fn a_process_that_cannot_be_killed_is_named_with_what_it_waits_for() {
        let node = container()
            .pending(81, EndSignal::Kill)
            .in_state(81, 'D')
            .blocked(81, "nfs_wait_bit_killable");
        let found = only(node);
        assert!(found.sentence.ends_with("in nfs_wait_bit_killable"));
        assert_eq!(found.culprit.pid, Some(81));
        let advice = &found.advice[0];
        assert!(advice.contains("cannot be killed") && advice.contains("do not kill its conmon"));
    }

    /// The first thread has ended, and is a zombie until the last thread has ended.
    #[test]
    fn a_process_with_one_thread_that_cannot_be_killed_has_not_exited() {
        let node = container().first_thread_ended(81);
        let found = only(node.blocked(81, "nfs_wait_bit_killable"));
        assert_eq!(
            found.sentence,
            "container app of pod shop/web cannot end: app (81) waits in the kernel, in \
             nfs_wait_bit_killable"
        );
        assert!(
            found.evidence[0].starts_with("app (81) lives on in threads other than its first"),
            "{found:#?}"
        );
    }

    #[test]
    fn a_child_that_cannot_be_killed_keeps_the_first_process_from_ending() {
        let id = "c".repeat(64);
        let node = node("cri-o", "1.37.0")
            .conmon(80, &id, Some("s1"))
            .waiting(81, "zap_pid_ns_processes")
            .process(90, 81, "backup")
            .in_group(90, "freezer", &format!("/kubepods/{id}"))
            .pending(90, EndSignal::Kill)
            .blocked(90, "fuse_wait_answer");
        let found = only(node);
        assert_eq!(found.culprit.pid, Some(90));
        assert!(found.sentence.contains("backup (90) waits in the kernel"));
    }

    #[test]
    fn a_process_whose_shim_was_killed_and_that_cannot_end_is_found_without_its_task() {
        let id = "c".repeat(64);
        let node = node("containerd", "2.3.4")
            .shim(99, false, &[&id])
            .in_group(100, "freezer", &format!("/kubepods/{id}"))
            .pending(100, EndSignal::Kill)
            .blocked(100, "percpu_rwsem_wait")
            .listed_without_task(&id);
        let found = only(node);
        assert_eq!(found.culprit.pid, Some(100));
        assert!(found.advice[0].contains("fsfreeze"), "{found:#?}");
    }

    /// This happens if the shim was killed and the `runc delete` that was to end the container did not
    /// return.
    #[test]
    fn a_container_that_runs_although_it_is_listed_as_ended_is_named_with_its_process() {
        let id = "c".repeat(64);
        let listed = || {
            node("containerd", "2.3.4")
                .shim(99, false, &[&id])
                .listed_as_ended(&id)
        };
        let found = only(listed().named(99, "bash"));
        assert_eq!(found.confidence, Confidence::High);
        assert_eq!(found.culprit.pid, Some(100));
        assert_eq!(found.culprit.id.as_deref(), Some(&*id));
        assert_eq!(
            found.sentence,
            "container ccccccccccccc is listed as ended, but lives on: no shim was found that serves \
             it"
        );
        let advice = found.advice.join("");
        assert!(advice.contains("`kill -KILL 100`"), "{advice}");
        assert!(!advice.contains("restart"), "{advice}");
        let stuck = listed().blocked(100, "nfs_wait_bit_killable");
        let advice = only(stuck).advice.join("");
        assert!(advice.contains("cannot be killed"), "{advice}");
    }

    #[test]
    fn a_container_that_no_stop_has_reached_is_suspected_and_the_runcs_are_counted() {
        let id = "c".repeat(64);
        let ended = || {
            node("cri-o", "1.37.0")
                .conmon(80, &id, Some("s1"))
                .sandbox_ended(&id)
        };
        let found = only(ended());
        assert_eq!(found.confidence, Confidence::Low);
        assert!(found.advice[0].contains("`kill -KILL 81`"), "{found:#?}");
        // The runc that was to send the signal is a separate finding.
        let kill = format!("runc kill {id} 9");
        let hung = ended()
            .process(200, 10, "runc")
            .process(201, 10, "runc")
            .commanded(200, &kill)
            .commanded(201, &kill);
        let blocked = ended().blocked(81, "request_wait_answer");
        assert_eq!(judge(&hung.facts()), Opinion::Clear);
        let blocked = blocked
            .process(200, 10, "runc")
            .process(201, 10, "runc")
            .commanded(200, &kill)
            .commanded(201, &kill);
        let evidence = only(blocked).evidence.join("\n");
        assert!(
            evidence.contains("2 processes of `runc kill`"),
            "{evidence}"
        );
    }

    #[test]
    fn without_a_runtime_nothing_is_known() {
        let mut facts = container().facts();
        facts.probes.tasks = crate::facts::Fact::default();
        let why = "the runtime was not probed".to_owned();
        assert_eq!(judge(&facts), Opinion::Unknown(why));
    }

    #[test]
    fn a_container_that_runs_and_one_that_ends_are_no_finding() {
        assert_eq!(judge(&container().facts()), Opinion::Clear);
        for signal in [EndSignal::Term, EndSignal::Kill] {
            let ends = container().pending(81, signal).in_state(81, 'R');
            assert_eq!(judge(&ends.facts()), Opinion::Clear);
        }
        // The process of a probe that was killed says nothing about its container.
        let id = "c".repeat(64);
        let probe = node("cri-o", "1.37.0")
            .conmon(80, &id, Some("s1"))
            .process(90, 80, "probe")
            .in_group(90, "freezer", &format!("/kubepods/{id}"))
            .pending(90, EndSignal::Kill)
            .blocked(90, "fuse_wait_answer");
        assert_eq!(judge(&probe.facts()), Opinion::Clear);
    }
}
