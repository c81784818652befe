//! Containers whose process runs, but which the runtime does not list: it could not read its records of
//! them when it was started. A kubelet regards them as ended.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use pleg::out::words::counted;

use super::Opinion;
use crate::evidence::lack::lack_of_tasks;
use crate::evidence::phrases::{name_of_runtime, name_of_task};
use crate::evidence::runc::restart_runtime;
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::tasks::Task;

/// How many of these containers are named.
const MAX_NAMED: usize = 20;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let tasks = known(&facts.probes.tasks).iter();
    let unlisted: Vec<&Task> = tasks.filter(|task| task.unlisted).collect();
    let found = (!unlisted.is_empty()).then(|| of(facts, &unlisted));
    Opinion::of(found, [lack_of_tasks(&facts.probes)])
}

/// One finding for all these containers, because they have the same cause.
fn of(facts: &NodeFacts, unlisted: &[&Task]) -> Finding {
    let runtime = name_of_runtime(&facts.probes);
    let named: Vec<String> = unlisted.iter().map(|task| name_of_task(task)).collect();
    let sentence = match unlisted.len() {
        1 => format!("{} runs, but {runtime} does not list it any more", named[0]),
        all => format!(
            "{} and {} run, but {runtime} does not list them any more",
            named[0],
            counted(all - 1, "more container")
        ),
    };
    let runs = unlisted.iter().zip(&named).take(MAX_NAMED);
    let evidence = runs.map(|(task, named)| {
        let pid = task.init.unwrap_or_default();
        format!("process {pid} of {named} runs, but {runtime} did not list the container for several seconds")
    });
    let first = unlisted[0];
    let culprit = match unlisted.len() {
        1 => Culprit {
            pid: first.init,
            ..culprit::of_task(first)
        },
        _ => Culprit::default(),
    };
    let mut found = Finding {
        sentence,
        culprit,
        evidence: evidence.collect(),
        ..Finding::new(Cause::ContainerNotListed, Confidence::High)
    };
    // The first advice of the page remains; the others are replaced by those for this node.
    found.advice.truncate(1);
    let (restart, pid) = (restart_runtime(facts), first.init.unwrap_or_default());
    let again = format!("then have the runtime read its records again: {restart}");
    let end = format!(
        "if a container is not listed after that, end its first process (`kill -KILL {pid}`), \
         because the kubelet starts a second copy of its pod"
    );
    found.advice.extend([again.into(), end.into()]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{found, node};

    #[test]
    fn containers_that_run_and_are_not_listed_are_named_with_their_pods() {
        let one = node("containerd", "2.1.9").unlisted("c1", 81, "web");
        let finding = &found(judge(&one.facts()))[0];
        assert_eq!(
            finding.sentence,
            "container app of pod shop/web runs, but containerd does not list it any more"
        );
        assert_eq!(finding.culprit.pid, Some(81));
        assert!(finding.advice[0].contains("full disk"), "{finding:#?}");
        let two = node("containerd", "2.1.9")
            .unlisted("c1", 81, "web")
            .unlisted("c2", 82, "api");
        let findings = found(judge(&two.facts()));
        assert_eq!(findings.len(), 1, "they have the same cause");
        let finding = &findings[0];
        assert!(
            finding
                .sentence
                .starts_with("container app of pod shop/web and 1 more container run"),
            "{}",
            finding.sentence
        );
        let evidence = finding.evidence.join("\n");
        let said = "process 82 of container app of pod shop/api runs, but containerd did not list the container";
        assert!(evidence.contains(said), "{evidence}");
    }

    #[test]
    fn a_container_that_is_listed_is_no_finding() {
        let facts = node("containerd", "2.1.9").shim(99, false, &["c1"]).facts();
        assert_eq!(judge(&facts), Opinion::Clear);
    }
}
