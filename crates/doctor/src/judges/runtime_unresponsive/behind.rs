//! The daemons behind the socket: cri-dockerd calls dockerd, which calls a containerd. One of
//! them may be stopped or dead while cri-dockerd still answers.

use causes::finding::{Confidence, Finding};

use super::finding;
use crate::evidence::culprit;
use crate::evidence::owner::{is_in_a_pod, is_of_another_node};
use crate::evidence::phrases::{name_of_runtime, with_state};
use crate::evidence::remedy::resume_daemon;
use crate::evidence::runc::restart;
use crate::facts::NodeFacts;
use crate::facts::host::Process;

/// The daemons behind cri-dockerd, in the order in which they call each other.
const CHAIN: [&str; 2] = ["dockerd", "containerd"];

pub(super) fn judge(facts: &NodeFacts) -> Option<Finding> {
    if !is_docker(facts) || facts.host.processes.value().is_none() {
        return None;
    }
    let chain = || CHAIN.into_iter().map(|name| (name, running(facts, name)));
    let mut daemons = chain().flat_map(|(_, daemons)| daemons);
    if let Some(daemon) = daemons.find(|process| process.is_stopped()) {
        return Some(stopped(facts, daemon));
    }
    // From another PID namespace, no daemon would be visible.
    let sees_all = facts.runtime_process().is_some() && facts.host.shows_all_processes();
    let mut gone = chain().filter(|(_, daemons)| daemons.is_empty());
    let (name, _) = gone.next().filter(|_| sees_all)?;
    Some(absent(facts, name))
}

/// The daemons with this name that serve the node: of several containerds, the one that dockerd
/// started.
fn running<'a>(facts: &'a NodeFacts, name: &str) -> Vec<&'a Process> {
    let host = &facts.host;
    let is_one = |process: &&Process| {
        is_named(process, name)
            && !process.has_ended()
            && !is_in_a_pod(process)
            && !is_of_another_node(host, process)
    };
    let mut daemons: Vec<&Process> = host.all_processes().iter().filter(is_one).collect();
    let is_of_dockerd = |process: &&Process| {
        let parent = host.process(process.ppid);
        parent.is_some_and(|parent| parent.comm == "dockerd")
    };
    if daemons.iter().any(is_of_dockerd) {
        daemons.retain(is_of_dockerd);
    }
    daemons
}

/// Before 18.09, docker's containerd was named `docker-containerd`, which the kernel truncates.
fn is_named(process: &Process, name: &str) -> bool {
    process.comm == name || name == "containerd" && process.comm == "docker-containe"
}

fn stopped(facts: &NodeFacts, daemon: &Process) -> Finding {
    let label = daemon.label();
    let sentence = format!("{label}, on which the runtime behind the socket depends, is stopped");
    let mut found = finding(facts, Confidence::Certain, sentence, [with_state(daemon)]);
    found.culprit = culprit::of_process(daemon);
    found.advising(resume_daemon(daemon))
}

fn absent(facts: &NodeFacts, name: &str) -> Finding {
    let sentence =
        format!("{name}, on which the runtime behind the socket depends, is not running");
    let absent = format!("there is no process named {name}");
    let advice = match name {
        "dockerd" => "start it with `systemctl start docker`; `journalctl -u docker -n 100` shows \
                      why it exited"
            .to_owned(),
        _ => format!(
            "start it with `systemctl start containerd`; `journalctl -u containerd -u docker -n \
             100` shows why it exited. If dockerd starts its own containerd: {}",
            restart(facts, "run `systemctl restart docker`")
        ),
    };
    finding(facts, Confidence::High, sentence, [absent]).advising(advice)
}

fn is_docker(facts: &NodeFacts) -> bool {
    let listener = facts.runtime_process();
    name_of_runtime(&facts.probes) == "docker"
        || listener.is_some_and(|listener| listener.comm == "cri-dockerd")
}

#[cfg(test)]
mod tests {
    use cri::Rpc;

    use super::super::judge;
    use causes::Cause;

    use crate::facts::Fact;
    use crate::judges::{Opinion, opinion};
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
    fn for_many_statuses_that_hang_the_daemon_is_blamed_and_no_container() {
        let mut facts = node("docker", "20.10.24")
            .process(20, 1, "dockerd")
            .process(21, 20, "containerd")
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
        assert_eq!(opinion(&facts, Cause::ContainerLock), Opinion::Clear);
    }

    #[test]
    fn a_dockerd_that_no_call_needs_is_not_blamed() {
        let facts = node("containerd", "1.7.24")
            .process(20, 1, "dockerd")
            .in_state(20, 'T');
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn a_containerd_behind_dockerd_that_does_not_run_is_reported() {
        let alone = node("docker", "20.10.24").process(20, 1, "dockerd");
        let findings = found(judge(&alone.facts()));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].sentence.starts_with("containerd, on which"));
        assert!(findings[0].advice[0].contains("systemctl"));
        let both = node("docker", "20.10.24")
            .process(20, 1, "dockerd")
            .process(21, 20, "containerd");
        assert_eq!(judge(&both.facts()), Opinion::Clear);
    }

    #[test]
    fn a_containerd_that_dockerd_does_not_use_is_not_blamed() {
        let facts = node("docker", "20.10.24")
            .process(20, 1, "dockerd")
            .process(21, 20, "containerd")
            .process(22, 1, "containerd")
            .in_state(22, 'T');
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn from_another_pid_namespace_no_daemon_is_reported_as_absent() {
        let mut facts = node("docker", "20.10.24").facts();
        facts.probes.listener = Fact::missing("its process is not visible from here", "peer");
        assert_eq!(judge(&facts), Opinion::Clear);
    }
}
