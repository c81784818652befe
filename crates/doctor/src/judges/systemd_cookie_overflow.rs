//! Each message that systemd sends on the bus uses up one of 2^32 serial numbers. Versions
//! without the fix cannot send any message after the last number.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use causes::versions::{SerialOverflow, serial_overflow};
use serde::Serialize;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Ping, Reach, Talk};
use crate::limits::BUSY_CPU_SHARE;

/// Half of all serial numbers: months before the overflow.
const WARN_SERIAL: u32 = 0x8000_0000;
/// The last serial number of 32 bits.
const LAST_SERIAL: f64 = 4_294_967_295.0;

/// How long the serial numbers of systemd's messages last: a number of seconds in JSON, `null` if
/// they never run out, and absent if that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SerialsLeft {
    /// The seconds until the last number, at the higher of the current and the average rate.
    Seconds(f64),
    /// This systemd continues after the last number.
    Unlimited,
    /// The bus, or systemd on it, did not answer.
    #[default]
    Unknown,
}

impl SerialsLeft {
    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    // Without a system bus, there is no such counter.
    if matches!(host.bus.reach.value(), Some(Reach::NoSocket)) {
        return Opinion::Clear;
    }
    let overflow = overflow(host);
    if overflow == SerialOverflow::Repaired {
        return Opinion::Clear;
    }
    let found = match (host.bus.ping.value(), serial(host)) {
        (_, Some(serial)) if serial >= WARN_SERIAL => Some(near_overflow(host, serial, overflow)),
        (Some(Ping::Silent { seconds }), _) => after_overflow(host, *seconds, overflow),
        _ => None,
    };
    Opinion::of(found, [lack(&host.bus.ping)])
}

/// How long it is until systemd stops answering, at the higher of the current and the average rate.
pub(crate) fn serials_left(facts: &NodeFacts) -> SerialsLeft {
    let host = &facts.host;
    if overflow(host) == SerialOverflow::Repaired {
        return SerialsLeft::Unlimited;
    }
    let left = || {
        let serial = serial(host)?;
        let (rate, _) = rate(host, serial)?;
        Some((LAST_SERIAL - f64::from(serial)) / rate)
    };
    left().map_or(SerialsLeft::Unknown, SerialsLeft::Seconds)
}

/// The newest serial number that systemd gave to a message on the system bus.
fn serial(host: &HostFacts) -> Option<u32> {
    match host.bus.ping.value()? {
        Ping::Answered { serial, .. } => {
            let two = host.bus.serial.value();
            Some(two.map_or(*serial, |two| two.later))
        }
        Ping::Silent { .. } => None,
    }
}

/// Whether systemd stops at the last serial number. Judged by the running version: an updated package does
/// not change a process that was started before the update.
fn overflow(host: &HostFacts) -> SerialOverflow {
    let replaced = host.versions.init_replaced.value() == Some(&true);
    let package = host.versions.package("systemd").filter(|_| !replaced);
    match (host.bus.systemd.value(), package) {
        (Some(running), package) => serial_overflow(running, package),
        (None, Some(package)) => serial_overflow(package, Some(package)),
        (None, None) => SerialOverflow::Unknown,
    }
}

fn near_overflow(host: &HostFacts, serial: u32, overflow: SerialOverflow) -> Finding {
    let used = f64::from(serial) / LAST_SERIAL * 100.0;
    let mut evidence = vec![format!(
        "systemd's reply on the system bus has the serial number {serial} ({serial:#010x}): \
         {used:.1} % of all numbers are used"
    )];
    if let Some((rate, how)) = rate(host, serial) {
        let left = (LAST_SERIAL - f64::from(serial)) / rate;
        evidence.push(format!(
            "{rate:.1} messages per second ({how}): {} left until systemd stops answering",
            days(left)
        ));
    }
    evidence.push(version_says(host, overflow));
    let confidence = match overflow {
        SerialOverflow::Affected => Confidence::Certain,
        _ => Confidence::Medium,
    };
    of_systemd(confidence, evidence)
}

/// systemd owns its name but does not answer on the bus, while it answers on its private socket, which has
/// its own serial numbers.
fn after_overflow(host: &HostFacts, seconds: f64, overflow: SerialOverflow) -> Option<Finding> {
    host.bus.owner.value()?.as_ref()?;
    let private = match host.bus.private.value() {
        Some(Ping::Answered { .. }) => Some(true),
        Some(Ping::Silent { .. }) => Some(false),
        None => None,
    };
    let busy = host.process(1).and_then(|init| init.cpu_share);
    if private == Some(false) || busy.is_some_and(|busy| busy > BUSY_CPU_SHARE) {
        return None;
    }
    let mut evidence = vec![format!(
        "org.freedesktop.systemd1 has an owner on the system bus but did not answer a ping within \
         {seconds:.0} s"
    )];
    if private == Some(true) {
        evidence.push(
            "on its private socket, which has its own serial numbers, it answers at once".into(),
        );
    }
    let unread = unread(host);
    evidence.extend(unread.map(|unread| {
        format!("{unread} bytes from the bus wait unread: systemd has stopped reading")
    }));
    evidence.push(version_says(host, overflow));
    let confidence = match (private, overflow) {
        (Some(true), SerialOverflow::Affected) => Confidence::High,
        (Some(true), _) if unread.is_some() => Confidence::High,
        (Some(true), _) | (_, SerialOverflow::Affected) => Confidence::Medium,
        _ => Confidence::Low,
    };
    Some(of_systemd(confidence, evidence))
}

/// Bytes from the bus that process 1 has not read: after the overflow it never reads them
/// (systemd disables the connection's event source).
fn unread(host: &HostFacts) -> Option<u32> {
    let sockets = host.sockets.value()?;
    let of_bus = |talk: &&Talk| talk.to.ends_with("/dbus/system_bus_socket");
    let unread = sockets.talks_of(1).filter(of_bus).map(|talk| talk.unread);
    unread.max().filter(|unread| *unread > 0)
}

/// The current rate or the average since the start of the machine, whichever is higher, because
/// the load varies.
fn rate(host: &HostFacts, serial: u32) -> Option<(f64, &'static str)> {
    let now = host
        .bus
        .serial
        .value()
        .filter(|two| two.seconds > 0.0)
        .map(|two| {
            // The doctor's own calls use up numbers too: the version, and the second ping.
            let others = two.later.saturating_sub(two.first).saturating_sub(2);
            (f64::from(others) / two.seconds, "now")
        });
    let uptime = host.uptime_seconds.value().filter(|uptime| **uptime > 0.0);
    let ever = uptime.map(|uptime| (f64::from(serial) / uptime, "since the machine started"));
    let rates = [now, ever].into_iter().flatten();
    rates
        .filter(|(rate, _)| *rate > 0.0)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
}

fn days(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 2.0 * 3600.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds if seconds < 2.0 * 86_400.0 => format!("{:.0} hours", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

fn version_says(host: &HostFacts, overflow: SerialOverflow) -> String {
    let unknown = "of unknown version";
    let running = host.bus.systemd.value().map_or(unknown, String::as_str);
    let package = host.versions.package("systemd").unwrap_or("not known");
    let is = match overflow {
        SerialOverflow::Affected => "which stops at the last serial number",
        _ => "for which it is not known whether it stops at the last serial number",
    };
    let old = match host.versions.init_replaced.value() {
        Some(true) => "; process 1 still runs an executable that has since been replaced",
        _ => "",
    };
    format!("systemd {running} (package {package}), {is}{old}")
}

fn of_systemd(confidence: Confidence, evidence: Vec<String>) -> Finding {
    let systemd = Culprit::of_process(Some("systemd".to_owned()), Some(1));
    finding(Cause::SystemdCookieOverflow, confidence, systemd, evidence)
}
