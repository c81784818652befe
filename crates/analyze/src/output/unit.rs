//! `systemctl status`.

use super::{Seen, limits};
use crate::table::TableRow;

/// The unit of `● docker.service - Docker Application Container Engine`. Of a name with several dots, such
/// as that of a snap, only the last part is returned.
pub(super) fn begins(text: &str) -> Option<&str> {
    // "â—" is what is left of a "●" that was read as Windows-1252.
    let rest = text.trim_start_matches(['●', '○', '×', '*', '↻', 'â', '—', ' ']);
    let end = rest
        .find(".service - ")
        .or_else(|| rest.find(".service ● "))?;
    let name = &rest[..end];
    let begin = name.rfind('.').map_or(0, |dot| dot + 1);
    (!name.contains(' ')).then(|| &rest[begin..end + ".service".len()])
}

pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if let Some(unit) = begins(text) {
        seen.of = unit.to_owned();
        return;
    }
    // `Units: 350 loaded`, or `350 loaded`: the units that systemd keeps in memory. `Loaded: loaded` has no
    // number.
    if let Some((units, _)) = text.split_once(" loaded") {
        return seen.figure("kept-units", units.trim_start_matches("Units: "), line);
    }
    let unit = seen.of.clone();
    if unit.is_empty() {
        return;
    }
    if let Some(state) = text.strip_prefix("Active: ") {
        let state = state.split(" since").next().unwrap_or(state);
        let row = TableRow::new("units", line).text("unit", &*unit);
        seen.row(row.text("state", state));
    }
    // Tasks: 4915 (limit: 4915)
    let tasks = text.strip_prefix("Tasks: ");
    if let Some((tasks, limit)) = tasks.and_then(|rest| rest.split_once(" (limit: "))
        && let (Ok(tasks), Ok(limit)) = (tasks.parse(), limit.trim_end_matches(')').parse())
    {
        seen.row(limits::row("tasks", "", tasks, limit, line).text("unit", &*unit));
    }
}
