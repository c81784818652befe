//! A runc that the runtime or a shim has started to create, start, kill, update or delete a container,
//! and that does not return: the kubelet's change of the pod is not done, whatever the lists and statuses
//! show.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack_of_processes;
use crate::evidence::phrases::{age, short, with_state};
use crate::evidence::remedy::release_runc;
use crate::evidence::runc::{container_of_runc, hung_runcs, started, starter, verb_of_runc};
use crate::evidence::shims::shims;
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::Process;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let findings = hung_runcs(facts).into_iter().map(|runc| of(facts, runc));
    Opinion::of(findings, [lack_of_processes(&facts.host)])
}

fn of(facts: &NodeFacts, runc: &Process) -> Finding {
    let mut evidence = vec![started(facts, runc)];
    let children = facts.host.children(runc.pid);
    evidence.extend(children.map(|child| format!("below it, {}", with_state(child))));
    let command = verb_of_runc(runc).map_or("runc".to_owned(), |verb| format!("`runc {verb}`"));
    let id = container_of_runc(runc);
    let container = id.map_or(String::new(), |id| format!(" of container {}", short(id)));
    // A slow disk may hold up a runc for as long.
    let (confidence, what) = match runc.is_stopped() {
        true => (Confidence::Certain, "is stopped".to_owned()),
        false => {
            let age = age(runc);
            (Confidence::High, format!("has not returned for {age}"))
        }
    };
    let mut found = finding(Cause::RuncHung, confidence, culprit(facts, runc), evidence);
    found.sentence = format!("{command}{container}, process {}, {what}", runc.pid);
    found.advising(release_runc(runc, &starter(facts, runc), id, facts))
}

/// The runc, the container that it is to change, and the pod of that container or, if that is not known, of
/// the shim that started the runc.
fn culprit(facts: &NodeFacts, runc: &Process) -> Culprit {
    let shims = shims(facts).unwrap_or_default();
    let shim = shims.iter().find(|shim| shim.process.pid == runc.ppid);
    let id = container_of_runc(runc);
    let mut tasks = known(&facts.probes.tasks).iter();
    let task = tasks.find(|task| Some(&*task.id) == id);
    let pod = task.and_then(|task| task.pod.as_ref());
    let container = Culprit {
        pod: pod.or(shim.and_then(|shim| shim.pod)).cloned(),
        container: task.and_then(|task| task.container.clone()),
        id: id.map(str::to_owned),
        ..Culprit::default()
    };
    culprit::with_process(container, runc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Node, found, node};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn of_shim(age: f64) -> Node {
        node("containerd", "2.3.4")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .aged(200, age)
    }

    #[test]
    fn a_runc_that_a_shim_has_waited_for_half_a_minute_is_named_although_all_calls_are_answered() {
        let command = format!("runc --root /run/containerd/runc/k8s.io kill {ID} 9");
        let facts = of_shim(127.0).commanded(200, &command).facts();
        let found = &found(judge(&facts))[0];
        assert_eq!(found.culprit.pid, Some(200));
        assert_eq!(found.culprit.id.as_deref(), Some(ID));
        assert_eq!(found.confidence, Confidence::High);
        assert_eq!(
            found.sentence,
            "`runc kill` of container 0123456789abc, process 200, has not returned for 2m7s"
        );
        assert!(found.evidence[0].contains("which containerd-shim (99) started 2m7s ago"));
        assert!(found.advice[0].contains("`kill -KILL 200`"), "{found:#?}");
    }

    #[test]
    fn a_stopped_runc_of_the_runtime_itself_is_resumed_and_its_pod_is_named() {
        let facts = node("cri-o", "1.37.0")
            .conmon(80, ID, Some("s1"))
            .process(200, 10, "runc")
            .commanded(200, &format!("runc --root /run/runc kill {ID} 9"))
            .aged(200, 3.0)
            .in_state(200, 'T')
            .facts();
        let found = &found(judge(&facts))[0];
        assert_eq!(found.confidence, Confidence::Certain);
        assert!(found.advice[0].starts_with("run `kill -CONT 200`"));
        let pod = found.culprit.pod.as_ref().unwrap();
        assert_eq!(pod.name.as_deref(), Some("web"));
        assert_eq!(found.culprit.container.as_deref(), Some("app"));
    }

    /// The shim of this runc serves nothing yet.
    #[test]
    fn a_runc_that_is_to_create_a_sandbox_is_named_by_the_task_that_has_no_process_yet() {
        let create = format!("runc --root /run/containerd/runc/k8s.io create --bundle b {ID}");
        let facts = node("containerd", "2.3.4")
            .process(98, 1, "containerd-shim")
            .process(200, 98, "runc")
            .commanded(200, &create)
            .aged(200, 35.0)
            .being_created(ID, "born")
            .facts();
        let found = &found(judge(&facts))[0];
        assert!(
            found
                .sentence
                .starts_with("`runc create` of container 0123456789abc")
        );
        let pod = found.culprit.pod.as_ref().unwrap();
        assert_eq!(pod.name.as_deref(), Some("born"));
    }

    #[test]
    fn a_young_runc_one_of_a_session_and_one_of_another_parent_are_no_findings() {
        assert_eq!(judge(&of_shim(12.0).facts()), Opinion::Clear);
        let session = node("cri-o", "1.37.0")
            .process(300, 10, "runc")
            .process(301, 300, "sh");
        assert_eq!(judge(&session.facts()), Opinion::Clear);
        // This runc is below a shim that serves another runtime.
        let elsewhere = of_shim(12.0).process(77, 1, "containerd-shim");
        let elsewhere = elsewhere.process(310, 77, "runc");
        assert_eq!(judge(&elsewhere.facts()), Opinion::Clear);
        let of_a_user = node("containerd", "2.3.4").process(310, 78, "runc");
        assert_eq!(judge(&of_a_user.facts()), Opinion::Clear);
        let exec = of_shim(300.0).commanded(200, "runc exec --detach");
        assert_eq!(judge(&exec.facts()), Opinion::Clear);
    }
}
