//! The daemons behind the socket: cri-dockerd asks dockerd, which asks a containerd. One of
//! them may be stopped or dead while cri-dockerd still answers.

use causes::finding::{Confidence, Finding};

use super::finding;
use crate::evidence::owner::{culprit, is_in_a_pod};
use crate::facts::NodeFacts;
use crate::facts::host::Process;

/// In the order in which they ask each other.
const CHAIN: [&str; 2] = ["dockerd", "containerd"];

pub(super) fn judge(facts: &NodeFacts) -> Option<Finding> {
    if !is_docker(facts) || facts.host.processes.value().is_none() {
        return None;
    }
    let named = |name: &str| -> Vec<&Process> {
        let all = facts.host.all_processes().iter();
        all.filter(|process| process.comm == name && !is_in_a_pod(process))
            .collect()
    };
    let stopped = CHAIN.iter().flat_map(|name| named(name));
    if let Some(who) = stopped.into_iter().find(|process| process.is_stopped()) {
        let label = who.label();
        let sentence = format!("{label}, which the runtime behind the socket asks, is stopped");
        let mut found = finding(facts, Confidence::Certain, sentence);
        found.culprit = culprit(who);
        found.evidence.push(format!("{label} {}", who.doing()));
        found.advise_first(format!(
            "find out who stopped it (a debugger, a snapshot, SIGSTOP); `kill -CONT {}` lets it \
             go on, and its containers have not noticed",
            who.pid
        ));
        return Some(found);
    }
    if named("dockerd").is_empty() && facts.host.shows_all_processes() {
        let sentence = "dockerd, which the runtime behind the socket asks, does not run".to_owned();
        let mut found = finding(facts, Confidence::High, sentence);
        found
            .evidence
            .push("no process is called dockerd".to_owned());
        found.advise_first(
            "`systemctl start docker` starts it; `journalctl -u docker -n 100` shows why it ended",
        );
        return Some(found);
    }
    None
}

fn is_docker(facts: &NodeFacts) -> bool {
    let runtime = facts.probes.runtime.as_ref();
    runtime.is_some_and(|runtime| &*runtime.name == "docker")
        || facts
            .runtime_process()
            .is_some_and(|listener| listener.comm == "cri-dockerd")
}

#[cfg(test)]
mod tests {
    use cri::Rpc;

    use super::super::judge;
    use causes::Cause;

    use crate::judges::{JUDGES, Opinion};
    use crate::node::{found, node};

    #[test]
    fn a_stopped_dockerd_or_its_containerd_is_named_while_cri_dockerd_answers() {
        for name in ["dockerd", "containerd"] {
            let facts = node("docker", "20.10.24")
                .process(20, 1, "dockerd")
                .process(21, 20, "containerd")
                .in_state(if name == "dockerd" { 20 } else { 21 }, 'T');
            let findings = found(judge(&facts.facts()));
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].culprit.process.as_deref(), Some(name));
            assert!(findings[0].advice[0].contains("kill -CONT"));
        }
    }

    #[test]
    fn many_statuses_that_hang_accuse_the_daemon_and_no_container() {
        let mut facts = node("docker", "20.10.24")
            .process(20, 1, "dockerd")
            .answered(Rpc::ContainerStatus, 7, 0.002);
        for id in ["c1", "c2", "c3", "c4", "c5"] {
            facts = facts.status(Rpc::ContainerStatus, id, "shop", id, "app");
        }
        let facts = facts.facts();
        let findings = found(judge(&facts));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].culprit.id.is_none());
        assert!(
            !findings[0]
                .advice
                .iter()
                .any(|advice| advice.contains("KILL"))
        );
        let lock = JUDGES
            .iter()
            .find(|(cause, _)| *cause == Cause::ContainerLock);
        assert_eq!(lock.unwrap().1(&facts), Opinion::Clear);
    }

    #[test]
    fn a_dockerd_that_nobody_asks_is_not_accused() {
        let facts = node("containerd", "1.7.24")
            .process(20, 1, "dockerd")
            .in_state(20, 'T');
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }
}
