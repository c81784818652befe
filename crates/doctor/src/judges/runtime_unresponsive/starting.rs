//! A daemon that runs but does not listen yet: containerd first loads its tasks, which is held up by a shim
//! that does not respond or a runc that does not return. containerd 2.3 waits five seconds for each stopped
//! shim, and then gives up its containers (exit code 255).

use causes::finding::{Confidence, Finding};
use pleg::runtime::NoConnection;

use super::finding;
use crate::evidence::culprit;
use crate::evidence::owner::{is_in_a_pod, is_of_another_node};
use crate::evidence::phrases::{age, with_state};
use crate::evidence::remedy::{is_traced, release_runc, resume, resume_all};
use crate::evidence::runc::{container_of_runc, hung_runcs};
use crate::evidence::shims::{Shim, ShimFault, shims};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::limits::STARTS_WITHIN_SECONDS;

/// What containerd 2.3 does with stopped shims while it starts.
const RESUME_AT_ONCE: &str = " at once: a containerd that starts waits for five seconds for each of them, and then gives up \
                        its containers (exit code 255)";

/// A finding about the daemon of this socket, if it runs but does not listen yet.
pub(super) fn starting(facts: &NodeFacts, why: NoConnection) -> Option<Finding> {
    if !matches!(why, NoConnection::NoSocket | NoConnection::Refused) {
        return None;
    }
    let daemon = daemon(facts)?;
    let (label, age) = (daemon.label(), age(daemon));
    let shims = shims(facts).unwrap_or_default();
    let held: Vec<&Shim> = shims.iter().filter(|shim| shim.fault().is_some()).collect();
    let runcs = hung_runcs(facts);
    let is_late = daemon.age_seconds >= STARTS_WITHIN_SECONDS;
    let confidence = match is_late || !held.is_empty() || !runcs.is_empty() {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let mut finding = finding(facts, confidence, String::new(), [with_state(daemon)]);
    let is_stopped = |shim: &&Shim| shim.process.is_stopped() && !is_traced(shim.process);
    let stopped: Vec<&Shim> = held.iter().copied().filter(is_stopped).collect();
    let held_by = match (&held[..], &runcs[..]) {
        _ if let [shim, others @ ..] = &stopped[..] => {
            finding.culprit = culprit::of_process(shim.process);
            finding.culprit.pod = shim.pod.cloned();
            resume_all(&mut finding, &stopped, RESUME_AT_ONCE);
            match others.len() {
                0 => format!("; {} is stopped", shim.named()),
                _ => format!("; {} shims are stopped", stopped.len()),
            }
        }
        ([shim, ..], _) => {
            finding.culprit = culprit::of_process(shim.process);
            finding.culprit.pod = shim.pod.cloned();
            resume(&mut finding, shim, facts);
            match shim.fault() {
                Some(ShimFault::Runc(runc)) => {
                    format!("; {} below {} does not return", runc.label(), shim.named())
                }
                Some(ShimFault::InKernel) => format!("; {} waits in the kernel", shim.named()),
                Some(ShimFault::Stopped) | None => format!("; {} is stopped", shim.named()),
            }
        }
        ([], [runc, ..]) => {
            finding.culprit = culprit::of_process(runc);
            finding.advise_first(release_runc(runc, &label, container_of_runc(runc), facts));
            format!("; {} does not return", runc.label())
        }
        ([], []) => {
            finding.culprit = culprit::of_process(daemon);
            let wait = match is_late {
                true => String::new(),
                false => format!(
                    "wait until it is {STARTS_WITHIN_SECONDS:.0} s old: it loads its containers \
                     first, many of them for longer. If it does not listen then, "
                ),
            };
            finding.advise_first(format!(
                "{wait}`ps -L -o tid,stat,wchan:30 -p {}` shows where it waits; do not restart it \
                 before that is known",
                daemon.pid
            ));
            String::new()
        }
    };
    finding.sentence = format!("{label} was started {age} ago and does not listen yet{held_by}");
    Some(finding)
}

fn daemon(facts: &NodeFacts) -> Option<&Process> {
    let path = facts.probes.endpoint.strip_prefix("unix://")?;
    let (_, file) = path.rsplit_once('/')?;
    let name = file.strip_suffix(".sock")?;
    let host = &facts.host;
    let listeners = &host.sockets.value()?.listeners;
    // A daemon that listens on another path is not starting.
    let listens = |pid| listeners.iter().any(|it| it.held_by == Some(pid));
    let starting = host.all_processes().iter().filter(|process| {
        process.comm == name
            && process.is_runtime()
            && process.uid == 0
            && !process.has_ended()
            && !is_in_a_pod(process)
            && !is_of_another_node(host, process)
            && !listens(process.pid)
    });
    starting.min_by(|one, other| one.age_seconds.total_cmp(&other.age_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{Listener, UnixSockets};
    use crate::node::{Node, found, node};

    fn facts_of(node: Node, held_by: Option<u32>) -> NodeFacts {
        let mut facts = node.refused(NoConnection::NoSocket).facts();
        facts.probes.endpoint = "unix:///run/containerd/containerd.sock".to_owned();
        let listener = Listener {
            path: "/run/docker/containerd.sock".to_owned(),
            held_by,
            ..Listener::default()
        };
        let sockets = UnixSockets {
            listeners: vec![listener],
            ..UnixSockets::default()
        };
        facts.host.sockets = Fact::known(sockets, "sock_diag(7)");
        facts
    }

    fn restarted() -> Node {
        node("containerd", "2.3.4").aged(10, 95.0)
    }

    #[test]
    fn a_shim_that_keeps_a_restarted_containerd_from_listening_is_named() {
        let facts = facts_of(restarted().shim(99, true, &["c1"]), None);
        let finding = &found(super::super::judge(&facts))[0];
        assert_eq!(
            finding.sentence,
            "containerd (10) was started 1m35s ago and does not listen yet; shim containerd-shim (99) \
             is stopped"
        );
        assert_eq!(finding.culprit.pid, Some(99));
        assert!(finding.advice[0].contains("kill -CONT 99"), "{finding:#?}");
    }

    #[test]
    fn all_shims_that_are_stopped_while_containerd_starts_are_to_be_resumed_and_none_is_killed() {
        let node = restarted().shim(99, true, &["c1"]).shim(109, true, &["c2"]);
        let finding = &found(super::super::judge(&facts_of(node, None)))[0];
        let first = &finding.advice[0];
        assert!(first.starts_with("run `kill -CONT 99 109`"), "{first}");
        assert!(!first.contains("-KILL"), "{first}");
        assert!(
            finding.sentence.ends_with("; 2 shims are stopped"),
            "{finding:#?}"
        );
    }

    #[test]
    fn a_daemon_that_has_ended_is_not_starting() {
        let facts = facts_of(restarted().in_state(10, 'Z'), None);
        let sentence = &found(super::super::judge(&facts))[0].sentence;
        assert!(!sentence.contains("does not listen yet"), "{sentence}");
    }

    #[test]
    fn a_daemon_is_named_itself_if_no_shim_or_runc_delays_it() {
        let facts = facts_of(restarted(), None);
        let finding = &found(super::super::judge(&facts))[0];
        assert_eq!(finding.culprit.pid, Some(10));
        assert!(finding.advice[0].contains("-p 10"), "{finding:#?}");
    }

    #[test]
    fn a_runc_that_delays_a_daemon_is_ended_only_after_its_container_is_thawed() {
        let id = "c".repeat(64);
        let file = "/sys/fs/cgroup/freezer/kubepods/c1/freezer.state";
        let node = restarted()
            .shim(99, false, &[&id])
            .in_group(100, "freezer", "/kubepods/c1")
            .frozen("/kubepods/c1", file, "THAWED")
            .process(200, 10, "runc")
            .commanded(200, &format!("runc delete {id}"));
        let finding = &found(super::super::judge(&facts_of(node, None)))[0];
        assert_eq!(finding.culprit.pid, Some(200));
        let advice = &finding.advice[0];
        let thaw = advice.find(&format!("`echo THAWED > {file}`")).unwrap();
        assert!(thaw < advice.find("`kill -KILL 200`").unwrap(), "{advice}");
    }

    #[test]
    fn the_advice_for_a_daemon_that_has_just_been_started_is_to_wait_unless_a_shim_delays_it() {
        let young = restarted().aged(10, 2.0);
        let finding = &found(super::super::judge(&facts_of(young, None)))[0];
        assert_eq!(finding.confidence, Confidence::Medium);
        assert_eq!(
            finding.sentence,
            "containerd (10) was started 2s ago and does not listen yet"
        );
        assert!(finding.advice[0].starts_with("wait until"), "{finding:#?}");
        let delayed = restarted().aged(10, 2.0).shim(99, true, &["c1"]);
        let finding = &found(super::super::judge(&facts_of(delayed, None)))[0];
        assert_eq!(finding.confidence, Confidence::High);
        assert_eq!(finding.culprit.pid, Some(99));
    }

    #[test]
    fn a_daemon_of_a_node_in_a_container_is_not_named() {
        for (network, is_named) in [("net:[1]", true), ("net:[2]", false)] {
            let node = restarted().process(1, 0, "systemd");
            let node = node.in_network(1, "net:[1]").in_network(10, network);
            let sentence = &found(super::super::judge(&facts_of(node, None)))[0].sentence;
            assert_eq!(
                sentence.starts_with("containerd (10)"),
                is_named,
                "{sentence}"
            );
        }
    }

    #[test]
    fn a_daemon_that_listens_elsewhere_is_not_named() {
        let facts = facts_of(restarted(), Some(10));
        let sentence = &found(super::super::judge(&facts))[0].sentence;
        assert!(
            sentence.contains("no container runtime listens"),
            "{sentence}"
        );
    }
}
