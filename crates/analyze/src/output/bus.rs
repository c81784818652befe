//! `busctl`, `dbus-send` and `dbus-monitor`.

use causes::Cause;
use causes::finding::Confidence;

use super::{Seen, has_any};
use crate::proof::Proof;

/// Whether only such output has this line.
pub(super) fn begins(text: &str) -> bool {
    text.starts_with("Failed to introspect object")
        || text.starts_with("Error org.freedesktop.DBus.Error")
        || text.starts_with("Failed to get properties: ")
        || text.starts_with("Failed to get property ")
        || text.starts_with("Failed to list units: ")
        || text.starts_with("Failed to read server status: ")
        || is_of_a_job(text)
        || (text.starts_with("method call ") || text.starts_with("signal "))
            && text.contains("sender=")
}

/// `Failed to restart docker.service: Connection timed out`: systemctl has asked for it on the bus.
fn is_of_a_job(text: &str) -> bool {
    ["Failed to start ", "Failed to stop ", "Failed to restart "]
        .into_iter()
        .filter_map(|what| text.strip_prefix(what))
        .any(|rest| {
            rest.split_once(".service: ")
                .is_some_and(|(unit, _)| !unit.contains(' '))
        })
}

/// Reads a line.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let silent = [
        "Connection timed out",
        "Did not receive a reply",
        "DBus.Error.NoReply",
        "DBus.Error.Timeout",
        "TimedOut",
    ];
    let gone = [
        "NameHasNoOwner",
        "Connection refused",
        "was not provided by any .service",
        "ServiceUnknown",
    ];
    let mut cause = Cause::BusUnavailable;
    let says = if has_any(text, &silent) && text.contains("interface org.freedesktop.systemd1") {
        cause = Cause::SystemdOverloaded;
        "systemd does not answer in time"
    } else if has_any(text, &silent) {
        "a call on the system bus was not answered"
    } else if has_any(text, &gone)
        && has_any(text, &["systemd1", "system bus", "Failed to connect"])
    {
        "systemd is not reachable on the system bus"
    } else if text.starts_with("Failed to get properties: Connection reset by peer") {
        "systemd closed the connection instead of answering"
    } else {
        return;
    };
    seen.proof(Proof::new(cause, Confidence::Medium, line, says));
}
