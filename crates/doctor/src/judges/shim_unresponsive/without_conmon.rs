//! A container of CRI-O that runs without its conmon: its output is not read, and its exit will not be
//! noticed.

use causes::Cause;
use causes::finding::{Confidence, Finding};

use crate::evidence::owner::container_of;
use crate::evidence::phrases::name_of_task;
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::probes::MAX_SINGLED_OUT;
use crate::facts::tasks::Task;
use crate::judges::opinion::finding;

/// One finding for each container.
pub(super) fn judge(facts: &NodeFacts) -> Vec<Finding> {
    if !facts.probes.is_crio() {
        return Vec::new();
    }
    let runs_alone = |task: &&Task| {
        let process = task.init.and_then(|init| facts.host.process(init));
        // The PID in an old record may have been reused.
        let is_its = process.is_some_and(|process| {
            !process.has_ended() && container_of(process) == Some(task.id.as_str())
        });
        task.conmon.is_none() && is_its
    };
    let alone = known(&facts.probes.tasks).iter().filter(runs_alone);
    alone.take(MAX_SINGLED_OUT).map(of).collect()
}

fn of(task: &Task) -> Finding {
    let (name, pid) = (name_of_task(task), task.init.unwrap_or_default());
    let evidence = vec![format!(
        "process {pid} of {name} runs, and no process is the conmon that CRI-O has recorded for it"
    )];
    let culprit = culprit::of_task(task);
    let mut finding = finding(Cause::ShimUnresponsive, Confidence::High, culprit, evidence);
    finding.sentence = format!(
        "the conmon of {name} has ended: the output of the container is not read, and its exit will \
         not be noticed"
    );
    let pod = task.pod.clone().unwrap_or_default();
    let namespace = pod.namespace.as_deref().unwrap_or("NAMESPACE");
    let pod = pod.name.as_deref().unwrap_or("POD");
    finding.advising(format!(
        "have the container started again at a convenient time, for example with `kubectl delete \
         pod -n {namespace} {pod}`; a restart of the runtime does not help, because it starts no \
         conmon"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::node::node;

    #[test]
    fn a_container_that_runs_without_its_conmon_is_named() {
        let id = "c".repeat(64);
        let facts_of = |group: &str| {
            let node = node("cri-o", "1.37.0").conmon(80, &id, Some("s1"));
            node.in_group(81, "freezer", &format!("/kubepods/{group}"))
                .facts()
        };
        let mut facts = facts_of(&id);
        assert_eq!(judge(&facts), []);
        let without = |facts: &mut NodeFacts| {
            if let Fact::Known { value, .. } = &mut facts.probes.tasks {
                value[0].conmon = None;
            }
        };
        without(&mut facts);
        let findings = judge(&facts);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0]
                .sentence
                .starts_with("the conmon of container app of pod shop/web has ended"),
            "{}",
            findings[0].sentence
        );
        assert!(findings[0].advice[0].contains("`kubectl delete pod -n shop web`"));
        // Another process has the PID of a container that has exited.
        let mut reused = facts_of("other");
        without(&mut reused);
        assert_eq!(judge(&reused), []);
    }
}
