//! A container of CRI-O without its conmon. While it runs, its output is not read, and its exit will not be
//! noticed. Once it has ended, CRI-O waits for a record of its exit at each status call.

use causes::Cause;
use causes::finding::{Confidence, Finding, PodName};
use cri::Rpc;

use crate::evidence::lack::lack_of_processes;
use crate::evidence::owner::container_of;
use crate::evidence::phrases::{duration, name_of_call, name_of_task, subject};
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::probes::{End, MAX_SINGLED_OUT, Probe};
use crate::facts::tasks::Task;
use crate::judges::opinion::finding;
use crate::limits::EXIT_FILE_AWAITED_SECONDS;

/// One finding for each container that runs without a conmon, or whose exit no conmon has recorded.
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
    let alone = alone.take(MAX_SINGLED_OUT).map(of);
    let unrecorded = facts.probes.calls.iter();
    let unrecorded = unrecorded.filter(|probe| awaits_exit_file(facts, probe));
    let unrecorded = unrecorded.take(MAX_SINGLED_OUT).map(of_ended);
    alone.chain(unrecorded).collect()
}

/// Whether a status call took as long as CRI-O waits for a record of the exit, and no process is left that
/// could write it.
fn awaits_exit_file(facts: &NodeFacts, probe: &Probe) -> bool {
    let takes_long = probe.call == Rpc::ContainerStatus
        && probe.end == End::Answered
        && probe.seconds >= EXIT_FILE_AWAITED_SECONDS;
    let Some(id) = probe.id.as_deref().filter(|_| takes_long) else {
        return false;
    };
    let mut processes = facts.host.all_processes().iter();
    lack_of_processes(&facts.host).is_none() && !processes.any(|it| container_of(it) == Some(id))
}

fn of_ended(probe: &Probe) -> Finding {
    let took = format!("{} took {}", name_of_call(probe), duration(probe.seconds));
    let nothing_left = "neither a process of the container nor its conmon is left".to_owned();
    let culprit = culprit::of_hung_call(probe, None);
    let evidence = vec![took, nothing_left];
    let mut finding = finding(
        Cause::ShimUnresponsive,
        Confidence::Medium,
        culprit,
        evidence,
    );
    finding.sentence = format!(
        "no conmon has recorded the exit of {}: each of its status calls takes {}",
        subject(probe),
        duration(probe.seconds)
    );
    finding.advising(replace_pod(probe.pod.as_ref()))
}

pub(super) fn replace_pod(pod: Option<&PodName>) -> String {
    let namespace = pod.and_then(|pod| pod.namespace.as_deref());
    let name = pod.and_then(|pod| pod.name.as_deref());
    format!(
        "have the container started again at a convenient time, for example with `kubectl delete pod -n {} {}`; \
         only a new container has a conmon again",
        namespace.unwrap_or("NAMESPACE"),
        name.unwrap_or("POD")
    )
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
    finding.advising(replace_pod(task.pod.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::node::node;

    #[test]
    fn an_ended_container_whose_exit_no_conmon_has_recorded_is_named_with_its_slow_status() {
        let id = "c".repeat(64);
        let facts_of = |seconds: f64, group: &str| {
            let node = node("cri-o", "1.37.0").process(81, 1, "app");
            let node = node.in_group(81, "freezer", &format!("/kubepods/{group}"));
            let mut facts = node.facts();
            facts.probes.calls.push(Probe {
                id: Some(id.clone()),
                container: Some("app".to_owned()),
                ..Probe::new(Rpc::ContainerStatus, End::Answered, seconds)
            });
            facts
        };
        let findings = judge(&facts_of(3.7, "other"));
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0]
                .sentence
                .contains("no conmon has recorded the exit of container app"),
            "{}",
            findings[0].sentence
        );
        assert!(findings[0].advice[0].contains("kubectl delete pod"));
        assert_eq!(
            judge(&facts_of(1.5, "other")),
            [],
            "it may be slow for another reason"
        );
        assert_eq!(judge(&facts_of(3.7, &id)), [], "it runs");
    }

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
