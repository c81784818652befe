//! runc calls systemd over the system bus; without the bus, or without systemd on it, runc
//! waits.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::{advised, finding};
use crate::evidence::culprit;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Ping, Process, Reach};
use crate::limits::BUSY_CPU_SHARE;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let Some(init) = host.process(1) else {
        return Opinion::of(None, [lack_of_processes(host)]);
    };
    // A process 1 other than systemd is not called over the bus.
    if init.comm != "systemd" {
        return Opinion::Clear;
    }
    let found = of_bus(host).or_else(|| unresponsive(host, init));
    Opinion::of(found, [lack(&host.bus.reach), lack(&host.bus.owner)])
}

/// The bus cannot be reached, or systemd is not on it.
fn of_bus(host: &HostFacts) -> Option<Finding> {
    let (confidence, says) = trouble(host)?;
    let mut processes = host.all_processes().iter();
    let daemon = processes.find(|process| process.comm.starts_with("dbus-"));
    let daemon_says = match daemon {
        Some(daemon) => format!(
            "the bus daemon is {}, in state {}",
            daemon.label(),
            daemon.state
        ),
        None => "no bus daemon is running".to_owned(),
    };
    let mut evidence = vec![says, daemon_says];
    evidence.extend(host.sockets.value().and_then(|sockets| {
        let open = sockets.connections_to(host.bus.reach.source())?;
        Some(format!("{open} connections to the bus are open"))
    }));
    let advice = match (host.bus.reach.value(), daemon) {
        (Some(Reach::Refused), _) => {
            Some("start the bus with `systemctl start dbus`, then restart the kubelet".to_owned())
        }
        (_, Some(daemon)) if daemon.is_stopped() => Some(format!(
            "run `kill -CONT {0}` to resume {1} ({0})",
            daemon.pid, daemon.comm
        )),
        _ => None,
    };
    let culprit = daemon.map_or_else(Culprit::default, culprit::of_process);
    let found = finding(Cause::BusUnavailable, confidence, culprit, evidence);
    Some(advised(found, advice))
}

fn trouble(host: &HostFacts) -> Option<(Confidence, String)> {
    let source = host.bus.reach.source();
    let reach = host.bus.reach.value()?;
    Some(match reach {
        Reach::Connected => match host.bus.owner.value()? {
            Some(_) => return None,
            None => (
                Confidence::Certain,
                "org.freedesktop.systemd1 has no owner on the system bus".to_owned(),
            ),
        },
        // Small images have systemd without a bus, and use the cgroupfs driver.
        Reach::NoSocket => (
            Confidence::Medium,
            format!("systemd is process 1, but {source} does not exist"),
        ),
        Reach::Refused => (Confidence::High, format!("no process listens on {source}")),
        Reach::Rejected { error, message } => (
            Confidence::Certain,
            format!("the bus rejects new connections: {error}: {message}"),
        ),
        Reach::Silent { seconds } => (
            Confidence::High,
            format!("the bus did not accept a connection within {seconds:.0} s"),
        ),
    })
}

/// systemd owns its name but answers neither on the bus nor on its private socket, without
/// being busy: it is stopped, has frozen, or waits in the kernel.
fn unresponsive(host: &HostFacts, init: &Process) -> Option<Finding> {
    let is_overdue = |ping: Option<&Ping>| matches!(ping, Some(Ping::Silent { .. }));
    let is_idle = init.cpu_share.is_none_or(|share| share < BUSY_CPU_SHARE);
    if !is_overdue(host.bus.ping.value()) || !is_idle {
        return None;
    }
    let cannot_run = matches!(init.state, 'D' | 'T' | 't' | 'Z');
    let confidence = match (is_overdue(host.bus.private.value()), cannot_run) {
        (true, true) => Confidence::Certain,
        (true, false) | (false, true) => Confidence::High,
        (false, false) => return None,
    };
    let wchan = init.wchan.as_deref().map(|wchan| format!(", in {wchan}"));
    let evidence = vec![format!(
        "process 1 owns org.freedesktop.systemd1 but does not answer; it is in state {}{}",
        init.state,
        wchan.unwrap_or_default()
    )];
    let culprit = culprit::of_process(init);
    let found = finding(Cause::BusUnavailable, confidence, culprit, evidence);
    let resume = "run `kill -CONT 1` to resume systemd";
    Some(advised(found, init.is_stopped().then(|| resume.to_owned())))
}
