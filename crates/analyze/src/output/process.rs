//! `/proc/PID/status`.

use super::Seen;
use crate::table::TableRow;

/// The process of `Name:\tcontainerd-shim`: with one tab, where `kubectl describe` has spaces.
pub(super) fn name(line: &str) -> Option<&str> {
    let name = line.strip_prefix("Name:\t")?;
    (!name.starts_with(['\t', ' '])).then(|| name.trim())
}

pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if let Some(name) = text.strip_prefix("Name:") {
        seen.of = name.trim().to_owned();
    } else if let Some(state) = text.strip_prefix("State:") {
        let row = TableRow::new("process-status", line).text("process", &*seen.of);
        seen.row(row.text("state", state.trim()));
    }
}
