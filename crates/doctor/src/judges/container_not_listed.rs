//! Containers whose process runs and that the runtime does not list: it could not read its records of
//! them when it was started. A kubelet takes them for ended.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::exits::who;
use crate::evidence::lack::lack;
use crate::evidence::runc::restart_runtime;
use crate::facts::NodeFacts;
use crate::facts::tasks::Task;

/// How many of them are named.
const MAX_NAMED: usize = 20;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let tasks = facts.probes.tasks.value().map_or(&[][..], Vec::as_slice);
    let unlisted: Vec<&Task> = tasks.iter().filter(|task| task.unlisted).collect();
    let found = (!unlisted.is_empty()).then(|| of(facts, &unlisted));
    Opinion::of(found, [lack(&facts.probes.tasks)])
}

/// One finding of all: they have one reason.
fn of(facts: &NodeFacts, unlisted: &[&Task]) -> Finding {
    let runtime = facts.probes.runtime.as_ref();
    let runtime = runtime.map_or("the runtime", |runtime| &runtime.name);
    let named: Vec<String> = unlisted.iter().map(|task| who(task)).collect();
    let sentence = match (&named[..], unlisted.len() - 1) {
        ([one], _) => format!("{one} runs, but {runtime} does not list it any more"),
        ([first, ..], others) => format!(
            "{first} and {others} more {} run, but {runtime} does not list them any more",
            match others {
                1 => "container",
                _ => "containers",
            }
        ),
        ([], _) => String::new(),
    };
    let process = |task: &Task| {
        task.init
            .map_or(String::new(), |pid| format!("process {pid} of "))
    };
    let runs = unlisted.iter().zip(&named).take(MAX_NAMED);
    let mut evidence: Vec<String> = runs
        .map(|(task, named)| {
            let process = process(task);
            format!("{process}{named} runs, and for seconds its container was not listed")
        })
        .collect();
    if let Some(more @ 1..) = unlisted.len().checked_sub(MAX_NAMED) {
        evidence.push(format!("{more} more run and are not listed"));
    }
    let first = unlisted[0];
    let culprit = match unlisted.len() {
        1 => Culprit {
            container: first.container.clone(),
            id: Some(first.id.clone()),
            pid: first.init,
            pod: first.pod.clone(),
            ..Culprit::default()
        },
        _ => Culprit::default(),
    };
    let mut found = finding(
        Cause::ContainerNotListed,
        Confidence::High,
        culprit,
        evidence,
    );
    found.sentence = sentence;
    let restart = restart_runtime(facts);
    let pid = first.init.map_or("PID".to_owned(), |pid| pid.to_string());
    found.advice.truncate(1);
    found
        .advice
        .push(format!("then read the records again: {restart}").into());
    found.advice.push(
        format!(
            "if a container is not listed after that, end its first process (`kill -KILL {pid}`): the \
             kubelet starts its pod again beside it"
        )
        .into(),
    );
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
        assert_eq!(findings.len(), 1, "they have one reason");
        let finding = &findings[0];
        assert!(
            finding
                .sentence
                .starts_with("container app of pod shop/web and 1 more container run"),
            "{}",
            finding.sentence
        );
        let evidence = finding.evidence.join("\n");
        assert!(evidence.contains("process 82 of container app of pod shop/api"));
    }

    #[test]
    fn a_container_that_is_listed_is_no_finding() {
        let facts = node("containerd", "2.1.9").shim(99, false, &["c1"]).facts();
        assert_eq!(judge(&facts), Opinion::Clear);
    }
}
