//! How often the kubelet started, and how often with its machine.

use causes::Cause;
use causes::finding::Confidence;

use super::Trouble;
use crate::proof::Proof;

/// Starts and boots, as events tell of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Starts {
    kubelet: u64,
    reboots: u64,
    /// Of the last start.
    line: u64,
}

/// So often a kubelet starts that somebody restarts.
const OFTEN: u64 = 3;

impl Starts {
    pub(super) fn kubelet(&mut self, count: u64, line: u64) {
        self.kubelet = self.kubelet.saturating_add(count);
        self.line = line;
    }

    pub(super) fn reboot(&mut self, count: u64, line: u64) {
        self.reboots = self.reboots.saturating_add(count);
        self.line = line;
    }

    /// Somebody restarts the kubelet: each boot of the machine explains one start.
    pub(super) fn proof(self) -> Option<Proof> {
        let restarts = self.kubelet.saturating_sub(self.reboots);
        let says = format!("the kubelet was started {restarts} times");
        (restarts >= OFTEN)
            .then(|| Proof::new(Cause::RepairLoop, Confidence::Medium, self.line, says))
    }

    /// The machine itself starts again and again.
    pub(super) fn trouble(self) -> Option<Trouble> {
        (self.reboots >= OFTEN).then(|| Trouble {
            says: format!("the node was rebooted {} times", self.reboots),
            line: self.line,
        })
    }
}
