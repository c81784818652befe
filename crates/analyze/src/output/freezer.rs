//! The state of the freezer of a pod, as `cat` prints it, or a recursive `grep`:
//! `/sys/fs/cgroup/freezer/…/freezer.state:FROZEN`.

use super::Seen;
use crate::table::TableRow;

/// Whether this command prints `cgroup.events` of a pod or of a container in one.
pub(super) fn prints_events(command: &str) -> bool {
    command.contains("kubepods") && command.contains("/cgroup.events")
}

pub(super) fn begins(text: &str) -> bool {
    state(text).is_some()
}

pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if let Some((cgroup, "FROZEN" | "FREEZING")) = state(text) {
        frozen(cgroup, line, seen);
    }
    if text == "frozen 1" {
        frozen("of a pod (kubepods)", line, seen);
    }
}

/// Reads a line that `command` printed from the freezer file of a cgroup. Returns whether it reads such a
/// file.
pub(super) fn read_file(command: &str, text: &str, line: u64, seen: &mut Seen) -> bool {
    let mut files = command.split_ascii_whitespace().filter_map(|word| {
        let (cgroup, file) = word.rsplit_once('/')?;
        let is_frozen = match file {
            "freezer.state" => matches!(text, "FROZEN" | "FREEZING"),
            // The file of version 2.
            "cgroup.freeze" => text == "1",
            _ => return None,
        };
        Some((cgroup, is_frozen))
    });
    let file = files.next();
    if let Some((cgroup, true)) = file {
        frozen(cgroup, line, seen);
    }
    file.is_some()
}

fn frozen(cgroup: &str, line: u64, seen: &mut Seen) {
    seen.row(TableRow::new("frozen-cgroups", line).text("cgroup", cgroup));
}

fn state(text: &str) -> Option<(&str, &str)> {
    let (path, state) = text.split_once("/freezer.state:")?;
    let is_state = matches!(state, "THAWED" | "FROZEN" | "FREEZING");
    (path.starts_with('/') && is_state).then_some((path, state))
}
