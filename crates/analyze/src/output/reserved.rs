//! Names that a runtime keeps for an attempt which has not returned, as events tell of them.

use causes::Cause;
use causes::finding::Confidence;

use super::Trouble;
use crate::proof::Proof;

pub(super) const SAYS: &str =
    "an earlier attempt to create the same container or sandbox has not returned";

/// A single one is usual for an attempt that only took long.
const OFTEN: u64 = 2;

/// How often that was the reason why nothing was created.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserved {
    count: u64,
    /// Of the last event.
    line: u64,
    of_containerd: bool,
}

impl Reserved {
    /// An event, which happened that often.
    pub(super) fn of_crio(&mut self, count: u64, line: u64) {
        self.count = self.count.saturating_add(count);
        self.line = line;
    }

    /// An event of containerd, which releases the name after a while.
    pub(super) fn of_containerd(&mut self) {
        self.of_containerd = true;
    }

    /// Whether a runtime has answered that a name is taken.
    pub(super) fn is_any(self) -> bool {
        self.count > 0 || self.of_containerd
    }

    pub(super) fn proof(self) -> Option<Proof> {
        (self.count >= OFTEN).then(|| {
            let says = format!("{SAYS}: {} times", self.count);
            Proof::new(Cause::ContainerLock, Confidence::Low, self.line, says)
        })
    }

    pub(super) fn trouble(self) -> Option<Trouble> {
        (self.count > 0).then(|| Trouble {
            says: SAYS.to_owned(),
            line: self.line,
        })
    }
}
