//! A daemon that runs and does not listen yet: containerd first loads its tasks, and a shim or runc that
//! does not return holds that up.

use causes::finding::{Confidence, Finding};
use pleg::runtime::NoConnection;

use super::finding;
use crate::evidence::owner::{culprit, is_in_a_pod};
use crate::evidence::remedy::{blame, release_runc};
use crate::evidence::runc::hung_runcs;
use crate::evidence::shims::{Shim, shims};
use crate::evidence::who::go;
use crate::facts::NodeFacts;
use crate::facts::host::Process;

/// A daemon listens within a second or two.
const LONG: f64 = 10.0;

/// The daemon of this socket, if it runs and has no socket to listen on.
pub(super) fn starting(facts: &NodeFacts, why: NoConnection) -> Option<Finding> {
    if !matches!(why, NoConnection::NoSocket | NoConnection::Refused) {
        return None;
    }
    let daemon = daemon(facts)?;
    let (label, age) = (daemon.label(), go(daemon.age_seconds.floor()));
    let shims = shims(facts).unwrap_or_default();
    let held: Vec<&Shim> = shims.iter().filter(|shim| shim.fault().is_some()).collect();
    let runcs = hung_runcs(facts);
    let mut finding = finding(facts, Confidence::High, String::new());
    finding.evidence.push(format!("{label} {}", daemon.doing()));
    let held_by = match (&held[..], &runcs[..]) {
        ([shim, ..], _) => {
            finding.culprit = culprit(shim.process);
            finding.culprit.pod = shim.pod.cloned();
            blame(&mut finding, shim, facts);
            format!("; {} is stuck", shim.named())
        }
        ([], [runc, ..]) => {
            finding.culprit = culprit(runc);
            finding.advise_first(release_runc(runc, &label, &[], facts));
            format!("; {} does not return", runc.label())
        }
        ([], []) => {
            finding.culprit = culprit(daemon);
            finding.advise_first(format!(
                "`ps -L -o tid,stat,wchan:30 -p {}` shows where it waits; do not restart it before \
                 that is known",
                daemon.pid
            ));
            String::new()
        }
    };
    finding.sentence = format!("{label} runs for {age} and does not listen yet{held_by}");
    Some(finding)
}

fn daemon(facts: &NodeFacts) -> Option<&Process> {
    let path = facts.probes.endpoint.strip_prefix("unix://")?;
    let (_, file) = path.rsplit_once('/')?;
    let name = file.strip_suffix(".sock")?;
    let host = &facts.host;
    let listeners = &host.sockets.value()?.listeners;
    let listens = |pid| listeners.iter().any(|it| it.held_by == Some(pid));
    let named = host.all_processes().iter().filter(|process| {
        process.comm == name && process.is_runtime() && process.uid == 0 && !is_in_a_pod(process)
    });
    named
        .filter(|process| process.age_seconds >= LONG && !listens(process.pid))
        .max_by(|one, other| one.age_seconds.total_cmp(&other.age_seconds))
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
            "containerd (10) runs for 1m35s and does not listen yet; shim containerd-shim (99) \
             is stuck"
        );
        assert_eq!(finding.culprit.pid, Some(99));
        assert!(finding.advice[0].contains("kill -CONT 99"), "{finding:#?}");
    }

    #[test]
    fn a_daemon_that_waits_for_nothing_that_we_see_is_named_itself() {
        let facts = facts_of(restarted(), None);
        let finding = &found(super::super::judge(&facts))[0];
        assert_eq!(finding.culprit.pid, Some(10));
        assert!(finding.advice[0].contains("-p 10"), "{finding:#?}");
    }

    #[test]
    fn one_that_has_just_been_started_or_listens_elsewhere_is_not_the_one() {
        let young = facts_of(restarted().aged(10, 2.0), None);
        let of_docker = facts_of(restarted(), Some(10));
        for facts in [young, of_docker] {
            let sentence = &found(super::super::judge(&facts))[0].sentence;
            assert!(
                sentence.contains("no container runtime listens"),
                "{sentence}"
            );
        }
    }
}
