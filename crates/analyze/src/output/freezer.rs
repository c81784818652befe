//! What a recursive `grep` prints of the freezer: `/sys/fs/cgroup/freezer/…/freezer.state:FROZEN`.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// Whether only such an output has this line.
pub(super) fn begins(text: &str) -> bool {
    state(text).is_some()
}

/// Reads a line.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let Some((cgroup, "FROZEN" | "FREEZING")) = state(text) else {
        return;
    };
    // A pod is frozen for moments while its limits change; somebody may have paused it.
    let of_pod = cgroup.contains("kubepods");
    if of_pod {
        let says = format!("the cgroup {cgroup} is frozen");
        let cause = Cause::RuncInitFrozen;
        seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
}

/// The cgroup, and its state.
fn state(text: &str) -> Option<(&str, &str)> {
    let (path, state) = text.split_once("/freezer.state:")?;
    let is_state = matches!(state, "THAWED" | "FROZEN" | "FREEZING");
    (path.starts_with('/') && is_state).then_some((path, state))
}
