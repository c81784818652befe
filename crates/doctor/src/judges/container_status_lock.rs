//! One container's status lock in containerd's CRI plugin, for which every list waits.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use cri::Rpc;

use super::Opinion;
use super::opinion::of_machine;
use crate::evidence::culprit;
use crate::evidence::disk::runtime_waits_for_disk;
use crate::evidence::lack::NOT_ANSWERED;
use crate::evidence::phrases::{duration, not_answered, stacks, subject};
use crate::evidence::remedy::{blame, look_for};
use crate::evidence::runc::container_of_runc;
use crate::evidence::shims::{Shim, ShimFault, serving, shims};
use crate::facts::NodeFacts;
use crate::facts::probes::{MAX_SINGLED_OUT, Outcome, Probe, ProbeFacts};

/// The symptom: `ListContainers` hangs, `ListPodSandbox` does not, and of the status calls only
/// that of the culprit hangs.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    match probes.outcome(Rpc::ListContainers) {
        None => return Opinion::unknown("ListContainers was not called"),
        Some(Outcome::Refused) => return Opinion::unknown("the runtime cannot be reached"),
        Some(Outcome::Ok) => return Opinion::Clear,
        Some(Outcome::Error) => return Opinion::unknown("ListContainers failed"),
        Some(Outcome::Hung) => {}
    }
    if probes.may_be_unresponsive() {
        return Opinion::unknown(NOT_ANSWERED);
    }
    if !probes.may_be_containerd() || probes.hung(Rpc::ContainerStatus).count() > MAX_SINGLED_OUT {
        return Opinion::Clear;
    }
    if probes.outcome(Rpc::ListPodSandbox) != Some(Outcome::Ok) {
        return Opinion::unknown("ListPodSandbox was not answered");
    }
    let shims = shims(facts).unwrap_or_default();
    let mut findings: Vec<Finding> = probes
        .hung(Rpc::ContainerStatus)
        .map(|probe| of_one(facts, probe, serving(&shims, probe)))
        .collect();
    if findings.is_empty() {
        findings.push(without_culprit(probes));
    }
    Opinion::Found(findings)
}

/// containerd holds the lock while it calls the shim, and while it syncs its metadata: without
/// evidence against the shim, the disk may be at fault.
fn of_one(facts: &NodeFacts, probe: &Probe, shim: Option<&Shim>) -> Finding {
    let probes = &facts.probes;
    let fault = shim.and_then(Shim::fault);
    let is_shim = matches!(fault, Some(ShimFault::Stopped | ShimFault::InKernel));
    // An old runc may be slow because of the same disk, or belong to another container of the pod.
    let disk = runtime_waits_for_disk(facts).filter(|_| !is_shim);
    let is_of_other = match fault {
        Some(ShimFault::Runc(runc)) => {
            container_of_runc(runc).is_some_and(|id| Some(id) != probe.id.as_deref())
        }
        _ => false,
    };
    let mut confidence = confidence(probes);
    if fault.is_none() || is_of_other || disk.is_some() {
        confidence = confidence.min(Confidence::High);
    }
    let why = match (shim, fault, &disk) {
        (Some(shim), Some(ShimFault::Stopped), _) => {
            format!(", whose shim {} is stopped", shim.process.label())
        }
        (_, _, Some(wait)) => format!(" while it waits for {}", wait.disk()),
        _ => String::new(),
    };
    let not_the_shim = match (shim, fault) {
        (Some(_), None) => "; its shim is not shown to be at fault",
        _ => "",
    };
    let mut finding = Finding {
        culprit: culprit::of_hung_call(probe, shim),
        sentence: format!(
            "containerd holds the status lock of {}{why}, so listing containers hangs for the whole \
             node{not_the_shim}",
            subject(probe)
        ),
        evidence: lists(probes),
        ..Finding::new(Cause::ContainerStatusLock, confidence)
    };
    finding.evidence.push(not_answered(probe));
    finding.evidence.extend(others(probes));
    finding.evidence.extend(stacks(probes));
    match shim {
        Some(shim) => blame(&mut finding, shim, facts),
        None => finding.advise_first(look_for(probe, probes)),
    }
    if let Some(wait) = disk {
        finding.evidence.extend(wait.says());
        finding.advise_first(wait.advice());
    }
    finding
}

/// If `ListPodSandbox`, which does not wait for that lock, takes this long, both lists may just be slow.
const SLOW_LIST_SECONDS: f64 = 2.0;

fn confidence(probes: &ProbeFacts) -> Confidence {
    let other = probes.node(Rpc::ListPodSandbox);
    if other.is_some_and(|list| list.seconds >= SLOW_LIST_SECONDS) {
        return Confidence::Medium;
    }
    match (probes.is_containerd(), probes.cost(Rpc::ContainerStatus)) {
        (true, Some(_)) => Confidence::Certain,
        (true, None) | (false, Some(_)) => Confidence::High,
        (false, None) => Confidence::Medium,
    }
}

fn lists(probes: &ProbeFacts) -> Vec<String> {
    let hangs = probes.node(Rpc::ListContainers).map(not_answered);
    let answers = probes
        .node(Rpc::ListPodSandbox)
        .map(|probe| match probe.by_agent {
            true => format!("ListPodSandbox is answered{}", probe.source()),
            false => format!("ListPodSandbox answered in {}", duration(probe.seconds)),
        });
    hangs.into_iter().chain(answers).collect()
}

fn others(probes: &ProbeFacts) -> Option<String> {
    let cost = probes.cost(Rpc::ContainerStatus)?;
    let max = duration(cost.max);
    Some(match cost.count {
        1 => format!("one ContainerStatus of another container was answered in {max}"),
        count => {
            format!("{count} ContainerStatus calls for other containers were answered within {max}")
        }
    })
}

fn without_culprit(probes: &ProbeFacts) -> Finding {
    let mut evidence = lists(probes);
    evidence.extend(others(probes));
    evidence.push(
        "no container with a hanging ContainerStatus was found; container ids are known only from \
         an agent or, as root, from the runtime's state directories"
            .to_owned(),
    );
    let mut found = of_machine(Cause::ContainerStatusLock, Confidence::Medium, evidence);
    found.sentence = "containerd may hold one container's status lock: ListContainers hangs, and \
                      ListPodSandbox does not"
        .to_owned();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{Disk, FdUse, Mounts, RootMount};
    use crate::node::{found, node};
    use causes::finding::Verdict;

    #[test]
    fn the_container_whose_status_hangs_is_named_with_its_shim_and_how_to_resume_it() {
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 5, 0.004)
            .shim(4711, true, &["s1", "c1"])
            .facts();
        let [finding] = &found(judge(&facts))[..] else {
            panic!("one culprit");
        };
        assert_eq!(finding.confidence, Confidence::Certain);
        assert_eq!(finding.culprit.pid, Some(4711));
        let said = &finding.sentence;
        assert!(said.contains("container app of pod shop/web"), "{said}");
        assert!(
            finding.advice[0].contains("kill -CONT 4711"),
            "{:?}",
            finding.advice
        );
        let evidence = finding.evidence.join("\n");
        assert!(
            evidence
                .contains("5 ContainerStatus calls for other containers were answered within 4ms"),
            "{evidence}"
        );
    }

    #[test]
    fn a_runc_of_another_container_of_the_pod_makes_it_uncertain() {
        let of = |container: &str| {
            let id = "a".repeat(64);
            let facts = node("containerd", "1.7.24")
                .call(Rpc::ListContainers, Outcome::Hung, 2.0)
                .status(Rpc::ContainerStatus, &id, "shop", "web", "app")
                .answered(Rpc::ContainerStatus, 5, 0.004)
                .shim(99, false, &[&id])
                .process(200, 99, "runc")
                .commanded(200, &format!("runc update {}", container.repeat(64)));
            found(judge(&facts.facts()))[0].confidence
        };
        assert_eq!(of("a"), Confidence::Certain);
        assert_eq!(of("b"), Confidence::High);
    }

    #[test]
    fn containerd_2_has_the_same_lock_and_an_unknown_runtime_may_have_it() {
        let at = |runtime: (&str, &str)| {
            let facts = node(runtime.0, runtime.1)
                .call(Rpc::ListContainers, Outcome::Hung, 2.0)
                .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
                .answered(Rpc::ContainerStatus, 5, 0.004)
                .shim(4711, true, &["s1", "c1"]);
            found(judge(&facts.facts()))[0].confidence
        };
        assert_eq!(at(("containerd", "2.1.9+unknown")), Confidence::Certain);
        assert_eq!(at(("something", "1.0")), Confidence::High);
    }

    #[test]
    fn without_ids_it_is_suspected_and_no_culprit_is_reported() {
        let facts = node("containerd", "1.7.24").call(Rpc::ListContainers, Outcome::Hung, 2.0);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        assert!(findings[0].culprit.is_empty());
    }

    #[test]
    fn a_node_that_answers_is_clear_and_one_where_every_call_hangs_cannot_be_judged() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .call(Rpc::ListPodSandbox, Outcome::Hung, 2.0);
        assert!(matches!(judge(&facts.facts()), Opinion::Unknown(_)));
        let facts = node("cri-o", "1.29.1").call(Rpc::ListContainers, Outcome::Hung, 2.0);
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn a_lock_is_only_suspected_if_the_other_list_is_slow_too() {
        let facts = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 10.0)
            .call(Rpc::ListPodSandbox, Outcome::Ok, 4.9)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 5, 0.004)
            .facts();
        let finding = &found(judge(&facts))[0];
        assert_eq!(finding.verdict, Verdict::Suspect);
    }

    fn locked() -> crate::node::Node {
        node("containerd", "2.4.0")
            .call(Rpc::ListContainers, Outcome::Hung, 20.0)
            .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
            .answered(Rpc::ContainerStatus, 5, 0.004)
            .shim(99, false, &["s1", "c1"])
    }

    #[test]
    fn without_evidence_against_the_shim_it_is_not_certain_and_no_process_is_to_be_killed() {
        let finding = &found(judge(&locked().facts()))[0];
        assert_eq!(finding.confidence, Confidence::High);
        let said = &finding.sentence;
        assert!(
            said.ends_with("; its shim is not shown to be at fault"),
            "{said}"
        );
        assert_eq!(finding.culprit.pid, None);
        let advice = finding.advice.join("\n");
        assert!(!advice.contains("-KILL"), "{advice}");
        // Each of these is evidence against the shim.
        let update = locked().process(200, 99, "runc");
        for facts in [
            locked().in_state(99, 'T'),
            locked().blocked(99, "ovl_sync_fs"),
            update,
        ] {
            let finding = &found(judge(&facts.facts()))[0];
            assert_eq!(finding.confidence, Confidence::Certain, "{finding:?}");
        }
    }

    #[test]
    fn for_a_containerd_that_syncs_its_metadata_the_disk_is_named_and_not_the_shim() {
        let mut facts = locked().blocked(10, "jbd2_log_wait_commit").facts();
        if let Fact::Known { value, .. } = &mut facts.host.processes {
            let containerd = value.iter_mut().find(|one| one.pid == 10).unwrap();
            let opened = FdUse {
                root: Some("/data/containerd".to_owned()),
                ..FdUse::default()
            };
            containerd.fds = Fact::known(opened, "/proc/10/fd");
        }
        let mounts = Mounts {
            roots: vec![RootMount {
                root: "/data/containerd".to_owned(),
                device: "8:16".to_owned(),
                kind: "ext4".to_owned(),
            }],
            ..Mounts::default()
        };
        facts.host.mounts = Fact::known(mounts, "mountinfo");
        let disk = Disk {
            device: "8:16".to_owned(),
            name: "sdb".to_owned(),
            in_flight: 1,
            busy: 1.0,
            ..Disk::default()
        };
        facts.host.disks = Fact::known(vec![disk], "diskstats");
        let finding = &found(judge(&facts))[0];
        assert_eq!(
            finding.sentence,
            "containerd holds the status lock of container app of pod shop/web while it waits for \
             the disk sdb, so listing containers hangs for the whole node; its shim is not shown \
             to be at fault"
        );
        assert!(finding.confidence < Confidence::Certain);
        let evidence = finding.evidence.join("\n");
        assert!(evidence.contains("jbd2_log_wait_commit"), "{evidence}");
        assert!(
            evidence.contains("sdb (holds /data/containerd)"),
            "{evidence}"
        );
        assert!(finding.advice[0].contains("the disk sdb"), "{finding:?}");
        assert!(!finding.advice.join("\n").contains("-KILL"), "{finding:?}");
        // With an old runc below the shim, either the runc or the disk may be at fault.
        let mut either = facts.clone();
        if let Fact::Known { value, .. } = &mut either.host.processes {
            let mut runc = value[0].clone();
            (runc.pid, runc.ppid, runc.comm) = (200, 99, "runc".to_owned());
            runc.threads.clear();
            value.push(runc);
        }
        let finding = &found(judge(&either))[0];
        assert_eq!(finding.confidence, Confidence::High);
        assert!(finding.advice[0].contains("the disk sdb"), "{finding:?}");
        // A shim that is stopped is at fault, whatever the disk does.
        facts.host.disks = Fact::missing("none", "diskstats");
        if let Fact::Known { value, .. } = &mut facts.host.processes {
            value.iter_mut().find(|one| one.pid == 99).unwrap().state = 'T';
        }
        let finding = &found(judge(&facts))[0];
        assert!(finding.sentence.contains("is stopped"), "{finding:?}");
        assert!(!finding.sentence.contains("disk"), "{finding:?}");
    }
}
