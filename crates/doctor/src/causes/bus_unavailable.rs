//! runc asks systemd over the system bus; without the bus, or without systemd on it, it
//! waits.

use super::Opinion;
use super::opinion::{finding, lack};
use crate::cause::Cause;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Reach};
use crate::finding::{Confidence, Culprit};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let Some(init) = host.process(1) else {
        return Opinion::of(None, [lack(&host.processes)]);
    };
    // Another process 1 is asked by nobody.
    if init.comm != "systemd" {
        return Opinion::Clear;
    }
    let Some((confidence, says)) = trouble(host) else {
        return Opinion::of(None, [lack(&host.bus.reach), lack(&host.bus.owner)]);
    };
    let daemon = host
        .all_processes()
        .iter()
        .find(|process| process.comm.starts_with("dbus-"));
    let mut evidence = vec![says];
    evidence.push(match daemon {
        Some(daemon) => format!("the bus is {}, state {}", daemon.label(), daemon.state),
        None => "no process of a bus runs".to_owned(),
    });
    let culprit = daemon.map_or_else(Culprit::default, |daemon| Culprit {
        pid: Some(daemon.pid),
        process: Some(daemon.comm.clone()),
        ..Culprit::default()
    });
    Opinion::Found(vec![finding(
        Cause::BusUnavailable,
        confidence,
        culprit,
        evidence,
    )])
}

fn trouble(host: &HostFacts) -> Option<(Confidence, String)> {
    let source = host.bus.reach.source();
    let reach = host.bus.reach.value()?;
    Some(match reach {
        Reach::Connected => match host.bus.owner.value()? {
            Some(_) => return None,
            None => (
                Confidence::Certain,
                "nobody owns org.freedesktop.systemd1 on the system bus".to_owned(),
            ),
        },
        // Small images have systemd without a bus, and a cgroup driver without it.
        Reach::NoSocket => (
            Confidence::Medium,
            format!("systemd is process 1, and there is no {source}"),
        ),
        Reach::Refused => (Confidence::High, format!("nobody listens at {source}")),
        Reach::Rejected { error, message } => (
            Confidence::Certain,
            format!("the bus takes no connection: {error}: {message}"),
        ),
        Reach::Silent { seconds } => (
            Confidence::High,
            format!("the bus did not take a connection within {seconds:.0} s"),
        ),
    })
}
