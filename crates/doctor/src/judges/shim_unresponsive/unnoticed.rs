//! A container whose process has exited, but which the runtime still lists as running: its shim
//! or conmon did not report the exit, so a kubelet does not restart it.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use crate::evidence::shims::Shim;
use crate::evidence::who::short;
use crate::facts::NodeFacts;
use crate::facts::probes::{MAX_SINGLED_OUT, ProbeFacts};
use crate::facts::tasks::Task;

/// One finding for each container; a stopped shim or conmon has a finding of its own.
pub(super) fn judge(facts: &NodeFacts, shims: &[Shim]) -> Vec<Finding> {
    let stopped: Vec<&Shim> = shims
        .iter()
        .filter(|shim| shim.process.is_stopped())
        .collect();
    let explained = |task: &Task| stopped.iter().any(|shim| shim.ids.contains(&&*task.id));
    let tasks = all(&facts.probes).filter(|task| !explained(task));
    let findings = tasks.take(MAX_SINGLED_OUT).map(|task| {
        let mut finding = Finding::new(Cause::ShimUnresponsive, Confidence::High);
        let who = who(task);
        let runtime = runtime(&facts.probes);
        finding.sentence =
            format!("{who} has exited, but {runtime} lists it as running, so it is not restarted");
        finding.culprit = Culprit {
            pod: task.pod.clone(),
            container: task.container.clone(),
            id: Some(task.id.clone()),
            ..Culprit::default()
        };
        finding.evidence.push(says(task));
        let serves = |shim: &&Shim| shim.ids.contains(&&*task.id);
        let shim = shims.iter().find(serves);
        finding.evidence.push(match shim {
            Some(shim) => format!(
                "its {} {} {}",
                shim.role(),
                shim.process.label(),
                shim.process.doing()
            ),
            None => "its shim or conmon, which would have reported the exit, is gone".to_owned(),
        });
        let process = facts.runtime_process();
        let unit = process.and_then(|process| process.service());
        let restart = match unit {
            Some(unit) => format!("run `systemctl restart {unit}`"),
            None => "restart the runtime".to_owned(),
        };
        finding.advise_first(format!(
            "{restart}: it checks every container again and leaves running containers running"
        ));
        finding
    });
    findings.collect()
}

/// The containers whose exit this shim or conmon should have reported.
pub(super) fn of<'a>(probes: &'a ProbeFacts, shim: &Shim) -> impl Iterator<Item = &'a Task> {
    let its = all(probes).filter(|task| shim.ids.contains(&&*task.id));
    its.collect::<Vec<_>>().into_iter()
}

pub(super) fn says(task: &Task) -> String {
    format!(
        "process {} of {} has exited, but seconds later it was still listed as running",
        task.init,
        who(task)
    )
}

fn all(probes: &ProbeFacts) -> impl Iterator<Item = &Task> {
    let tasks = probes.tasks.value().into_iter().flatten();
    tasks.filter(|task| task.listed_though_dead)
}

fn who(task: &Task) -> String {
    let of_pod = task.pod.as_ref().map(|pod| {
        let namespace = pod.namespace.as_deref().unwrap_or("?");
        format!("pod {namespace}/{}", pod.name.as_deref().unwrap_or("?"))
    });
    match (&task.container, of_pod) {
        (Some(name), Some(pod)) => format!("container {name} of {pod}"),
        (None, Some(pod)) => format!("the sandbox of {pod}"),
        (_, None) => format!("container {}", short(&task.id)),
    }
}

fn runtime(probes: &ProbeFacts) -> &str {
    let runtime = probes.runtime.as_ref();
    runtime.map_or("the runtime", |runtime| &runtime.name)
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use crate::judges::Opinion;
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
    fn where_its_conmon_is_gone_as_well_nobody_is_to_be_killed() {
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
        assert!(findings[0].advice[0].contains("checks every container again"));
        assert!(!findings[0].advice.join("").contains("-KILL"));
    }

    #[test]
    fn a_container_that_runs_is_no_finding() {
        let facts = node("cri-o", "1.36.3").conmon(80, "c1", Some("s1"));
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }
}
