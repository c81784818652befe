//! Recognises what only `busctl`, `dbus-send` and `dbus-monitor` print.

use causes::facts::facts;

pub(super) fn begins(text: &str) -> bool {
    facts().begins("bus", text.as_bytes())
        || is_of_a_job(text)
        || (text.starts_with("method call ") || text.starts_with("signal "))
            && text.contains("sender=")
}

/// `Failed to restart docker.service: Connection timed out`: systemctl sends its requests on the bus.
fn is_of_a_job(text: &str) -> bool {
    ["Failed to start ", "Failed to stop ", "Failed to restart "]
        .into_iter()
        .filter_map(|what| text.strip_prefix(what))
        .filter_map(|rest| rest.split_once(".service: "))
        .any(|(unit, _)| !unit.contains(' '))
}
