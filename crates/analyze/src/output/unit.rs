//! `systemctl status`.

use super::Seen;
use crate::table::{Table, TableRow};

/// The unit of `● docker.service - Docker Application Container Engine`; of a snap its last part.
pub(super) fn begins(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(['●', '○', '×', '*', '↻', 'â', '—', ' ']);
    let end = rest
        .find(".service - ")
        .or_else(|| rest.find(".service ● "))?;
    let name = &rest[..end];
    let begin = name.rfind('.').map_or(0, |dot| dot + 1);
    (!name.contains(' ')).then(|| &rest[begin..end + ".service".len()])
}

/// Reads a line of the page of a unit.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if let Some(unit) = begins(text) {
        seen.of = unit.to_owned();
    } else if let Some((units, _)) = text.split_once(" loaded") {
        seen.figure(Table::KeptUnits, units.trim_start_matches("Units: "), line);
    } else if seen.of.is_empty() {
    } else if let Some(state) = text.strip_prefix("Active: ") {
        let state = state.split(" since").next().unwrap_or(state);
        let row = TableRow::new(Table::Units, line).text("unit", &*seen.of);
        seen.row(row.text("state", state));
    } else if let Some((tasks, limit)) = text
        .strip_prefix("Tasks: ")
        .and_then(|rest| rest.split_once(" (limit: "))
        && let (Ok(tasks), Ok(limit)) = (tasks.parse(), limit.trim_end_matches(')').parse())
    {
        let row = super::limits::row("unit-tasks", &seen.of, tasks, limit, line);
        seen.row(row);
    }
}
