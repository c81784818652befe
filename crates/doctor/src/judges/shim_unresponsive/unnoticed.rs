//! A container whose process has exited, but which the runtime still lists as running: its shim
//! or conmon did not report the exit, so a kubelet does not restart it.

use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::without_conmon::replace_pod;
use crate::evidence::culprit;
use crate::evidence::exits::{listed_though_dead, says};
use crate::evidence::owner::processes_of;
use crate::evidence::phrases::{name_of_runtime, name_of_task, short};
use crate::evidence::remedy::{blame, release_runc};
use crate::evidence::runc::{container_of_runc, restart_runtime, verb_of_runc};
use crate::evidence::shims::{Shim, role};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::MAX_SINGLED_OUT;
use crate::facts::tasks::Task;
use crate::judges::disk_full;

/// The advice not to restart: when it starts, containerd 2.3 waits for each leftover shim.
const NO_RESTART: &str = "do not restart the runtime until the container has been deleted, because it \
                          may not finish starting";

/// One finding for each container. Containers of a stopped shim or conmon are left out, because that is a
/// separate finding.
pub(super) fn judge(facts: &NodeFacts, shims: &[Shim]) -> Vec<Finding> {
    let cannot_write = disk_full::cannot_write(&facts.host);
    let is_served_by_stopped = |task: &Task| {
        let mut stopped = shims.iter().filter(|shim| shim.process.is_stopped());
        stopped.any(|shim| shim.serves(&task.id))
    };
    // Without a task, it is not known which process was the first of the container, so none of them may be
    // alive.
    let lives = |task: &Task| {
        let mut its = processes_of(&facts.host, &task.id);
        its.any(|process| !process.has_ended())
    };
    let is_explained = |task: &Task| {
        is_served_by_stopped(task) || task.init.is_none() && (cannot_write || lives(task))
    };
    let tasks = listed_though_dead(&facts.probes).filter(|task| !is_explained(task));
    let findings = tasks.take(MAX_SINGLED_OUT);
    findings.map(|task| of(facts, task, shims)).collect()
}

fn of(facts: &NodeFacts, task: &Task, shims: &[Shim]) -> Finding {
    let probes = &facts.probes;
    let mut finding = Finding {
        sentence: format!(
            "{} has exited, but {} lists it as running, so it is not restarted",
            name_of_task(task),
            name_of_runtime(probes)
        ),
        culprit: culprit::of_task(task),
        evidence: vec![says(task)],
        ..Finding::new(Cause::ShimUnresponsive, Confidence::High)
    };
    let shim = shim_of(task, shims);
    match shim {
        // The exit is reported once runc has deleted the container. A container without a task has already
        // been deleted, so a runc below its shim serves another container of the pod.
        Some(shim) if task.init.is_some() && !shim.is_conmon() => {
            match shim.runc.iter().find(|runc| deletes(runc, task)) {
                Some(runc) => blame_deletion(&mut finding, shim, runc, facts),
                // Another runc, or the fault of the shim, explains why nothing deletes the container.
                None if !shim.runc.is_empty() || shim.fault().is_some() => {
                    blame(&mut finding, shim, facts);
                }
                None => deletion_failed(&mut finding, shim, task),
            }
        }
        _ => {
            finding.evidence.push(match shim {
                Some(shim) => shim.says(),
                None => format!(
                    "the {} that would report the exit was not found",
                    role(probes)
                ),
            });
            finding.advise_first(match shim {
                // CRI-O looks for the recorded exit after pauses that grow up to two minutes while it stops a
                // container.
                None if probes.is_crio() => format!(
                    "wait for two minutes: if the conmon has recorded the exit before it ended, CRI-O notices it \
                     by then. If not, {}",
                    replace_pod(task.pod.as_ref())
                ),
                _ => format!(
                    "{}; it then checks every container again",
                    restart_runtime(facts)
                ),
            });
        }
    }
    finding
}

fn deletes(runc: &Process, task: &Task) -> bool {
    verb_of_runc(runc) == Some("delete") && container_of_runc(runc) == Some(&*task.id)
}

/// Blames a `runc delete` that has not returned seconds after the exit. The age of that process shows
/// nothing, because containerd ends it after ten seconds and starts another one.
fn blame_deletion(finding: &mut Finding, shim: &Shim, runc: &Process, facts: &NodeFacts) {
    let container = std::mem::take(&mut finding.culprit);
    finding.culprit = culprit::with_process(container, runc);
    finding.evidence.push(shim.says());
    finding.evidence.push(format!(
        "below it, {} is to delete the container and {}; containerd ends it after ten seconds and \
         tries again",
        runc.label(),
        runc.doing()
    ));
    let release = match runc.is_stopped() {
        true => release_runc(runc, "the shim", container_of_runc(runc), facts),
        false => format!(
            "find out what `runc delete` waits for (`cat /proc/{}/stack`), usually the removal of \
             the container's cgroup or a process that does not end, and repair that: ending the \
             runc alone does not help, as it is started again",
            runc.pid
        ),
    };
    finding.advise_first(format!("{release}; {NO_RESTART}"));
}

/// Adds that the container is not deleted although no `runc delete` runs now, and what to do about it.
fn deletion_failed(finding: &mut Finding, shim: &Shim, task: &Task) {
    finding.evidence.push(format!(
        "{}, and the container is not deleted: `runc delete` has failed or was ended, and no new \
         one runs at the moment. containerd starts it again after a pause, which grows from one \
         second to five minutes",
        shim.says()
    ));
    let id = &task.id;
    finding.advise_first(format!(
        "read why `runc delete` of container {} failed in the log of the runtime (\"failed to delete \
         task\"), or run `runc --root ROOT delete --force {id}`, which shows what it waits for. ROOT \
         is `/run/containerd/runc/k8s.io`, unless the configuration of containerd sets another \
         `Root` for runc; {NO_RESTART}",
        short(id)
    ));
}

/// The shim that serves a container or, because a shim serves a whole pod, another container of its pod.
fn shim_of<'a, 'b>(task: &Task, shims: &'b [Shim<'a>]) -> Option<&'b Shim<'a>> {
    let serves = |shim: &&Shim| shim.serves(&task.id);
    let of_pod =
        |shim: &&Shim| !shim.is_conmon() && task.pod.is_some() && shim.pod == task.pod.as_ref();
    let mut shims = shims.iter();
    shims.clone().find(serves).or_else(|| shims.find(of_pod))
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use crate::facts::Fact;
    use crate::facts::host::Filesystem;
    use crate::judges::{Opinion, disk_full};
    use crate::node::{found, node};

    #[test]
    fn a_container_that_is_dead_and_listed_as_running_is_named_with_its_stopped_conmon() {
        let facts = node("cri-o", "1.36.3")
            .conmon(80, "c1", Some("s1"))
            .in_state(80, 'T')
            .listed_though_dead("c1");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].culprit.pid, Some(80));
        let evidence = findings[0].evidence.join("\n");
        assert!(
            evidence.contains("process 81 of container app"),
            "{evidence}"
        );
    }

    #[test]
    fn without_a_conmon_too_no_process_is_to_be_killed() {
        let mut facts = node("cri-o", "1.36.3")
            .conmon(80, "c1", Some("s1"))
            .listed_though_dead("c1")
            .facts();
        if let crate::facts::Fact::Known { value, .. } = &mut facts.host.processes {
            value.retain(|process| process.pid < 80);
        }
        let findings = found(judge(&facts));
        assert_eq!(findings.len(), 1);
        let said = "container app of pod shop/web has exited, but cri-o lists it as running";
        assert!(findings[0].sentence.starts_with(said));
        assert!(findings[0].advice[0].starts_with("wait for two minutes"));
        assert!(findings[0].advice[0].contains("`kubectl delete pod -n shop web`"));
        assert!(!findings[0].advice.join("").contains("-KILL"));
    }

    #[test]
    fn while_its_conmon_waits_for_a_disk_no_runtime_is_restarted() {
        let facts = node("cri-o", "1.37.0")
            .conmon(80, "c1", Some("s1"))
            .blocked(80, "percpu_rwsem_wait")
            .listed_though_dead("c1");
        let advice = found(judge(&facts.facts()))[0].advice[0].clone();
        let first = "do not restart the runtime yet: it may not finish starting. conmon (80) waits in the kernel";
        assert!(advice.starts_with(first), "{advice}");
        assert!(advice.contains("fsfreeze"), "{advice}");
    }

    #[test]
    fn a_container_without_a_task_whose_process_lives_has_not_exited() {
        let id = "c".repeat(64);
        let node = || node("containerd", "2.3.4").shim(99, false, &[&id]);
        let dead = node().listed_without_task(&id);
        assert_eq!(found(judge(&dead.facts())).len(), 1);
        let path = format!("/kubepods/pod1/{id}");
        let lives = node().in_group(100, "", &path).listed_without_task(&id);
        assert!(!matches!(judge(&lives.facts()), Opinion::Found(_)));
    }

    /// containerd ends a `runc delete` after ten seconds, and starts another one after a pause.
    #[test]
    fn a_deletion_that_does_not_return_is_found_even_between_two_attempts() {
        let id = "c".repeat(64);
        let node = || {
            node("containerd", "2.3.4")
                .shim(99, false, &[&id])
                .listed_though_dead(&id)
        };
        let deletes = node()
            .process(200, 99, "runc")
            .commanded(
                200,
                &format!("runc --root /run/containerd/runc/k8s.io delete {id}"),
            )
            .aged(200, 1.0);
        let stopped = deletes.in_state(200, 'T');
        let finding = &found(judge(&stopped.facts()))[0];
        assert_eq!(finding.culprit.pid, Some(200));
        assert!(
            finding.advice[0].starts_with("run `kill -CONT 200`"),
            "{finding:#?}"
        );
        let sleeps = node()
            .process(200, 99, "runc")
            .commanded(
                200,
                &format!("runc --root /run/containerd/runc/k8s.io delete {id}"),
            )
            .aged(200, 1.0);
        for (node, advised) in [
            (sleeps, "`cat /proc/200/stack`"),
            (node(), "`runc --root ROOT delete"),
        ] {
            let finding = &found(judge(&node.facts()))[0];
            let advice = &finding.advice[0];
            assert!(advice.contains(advised), "{advice}");
            assert!(advice.contains("do not restart the runtime"), "{advice}");
            assert!(
                !advice.contains("-KILL") && !advice.contains("again in ten"),
                "{advice}"
            );
        }
    }

    #[test]
    fn a_runc_below_the_shim_is_to_be_ended_and_no_runtime_is_to_be_restarted() {
        let facts = |age| {
            let node = node("containerd", "1.7.24")
                .shim(99, false, &["c1"])
                .process(200, 99, "runc")
                .aged(200, age)
                .listed_though_dead("c1");
            found(judge(&node.facts()))
        };
        let findings = facts(60.0);
        assert_eq!(findings.len(), 1);
        let first = &findings[0].advice[0];
        assert!(first.starts_with("run `kill -KILL 200`"), "{first}");
        let advice = findings[0].advice.join("");
        assert!(!advice.contains("restart the runtime"), "{advice}");
        let evidence = findings[0].evidence.join("\n");
        assert!(!evidence.contains("gone"), "{evidence}");
        let young = facts(2.0);
        assert!(young[0].advice[0].contains("again in ten seconds"));
    }

    #[test]
    fn a_container_without_a_task_is_named_without_its_process() {
        let facts = node("containerd", "1.7.24")
            .shim(99, false, &["c1"])
            .listed_without_task("c1");
        let findings = found(judge(&facts.facts()));
        let says = "container c1 has exited, and the runtime has no task for it, but";
        assert!(findings[0].evidence[0].starts_with(says), "{findings:?}");
    }

    #[test]
    fn no_runc_below_the_shim_is_blamed_for_a_container_that_has_no_task_any_more() {
        let facts = node("containerd", "1.7.24")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .aged(200, 60.0)
            .listed_without_task("c1");
        let findings = found(judge(&facts.facts()));
        let advice = findings[0].advice.join("");
        assert!(!advice.contains("-KILL"), "{advice}");
        assert_eq!(findings[0].culprit.pid, None);
        // A containerd that starts before the runc has returned does not finish starting.
        let first = &findings[0].advice[0];
        assert!(
            first.starts_with("do not restart the runtime yet"),
            "{first}"
        );
        assert!(first.contains("runc (200)"), "{first}");
    }

    #[test]
    fn no_runtime_is_to_be_restarted_while_a_runc_of_another_pod_does_not_return() {
        let facts = node("containerd", "2.3.4")
            .shim(99, false, &["c1"])
            .process(50, 1, "containerd-shim")
            .process(200, 50, "runc")
            .aged(200, 2.0)
            .listed_without_task("c1");
        let first = &found(judge(&facts.facts()))[0].advice[0];
        assert!(
            first.starts_with("do not restart the runtime yet"),
            "{first}"
        );
    }

    #[test]
    fn an_exit_that_a_full_disk_keeps_from_being_recorded_is_reported_with_the_disk() {
        let mut facts = node("containerd", "1.7.24")
            .shim(99, false, &["c1"])
            .listed_without_task("c1")
            .facts();
        let root = Filesystem {
            path: "/var/lib/containerd".to_owned(),
            bytes: 1 << 20,
            ..Filesystem::default()
        };
        facts.host.filesystems = vec![Fact::known(root, "statvfs")];
        assert_eq!(judge(&facts), Opinion::Clear);
        let finding = &found(disk_full::judge(&facts))[0];
        assert!(finding.evidence[1].starts_with("container c1 has exited"));
    }

    #[test]
    fn a_container_that_runs_is_no_finding() {
        let facts = node("cri-o", "1.36.3").conmon(80, "c1", Some("s1"));
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }
}
