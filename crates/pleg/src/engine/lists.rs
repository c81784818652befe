//! What is said of both lists at once.

use std::time::Duration;

/// Which of the lists do not come, or come late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) sandboxes: bool,
    pub(crate) containers: bool,
}

impl Missing {
    pub(crate) fn any(self) -> bool {
        self.sandboxes || self.containers
    }

    /// What either of them lacks.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            sandboxes: self.sandboxes || other.sandboxes,
            containers: self.containers || other.containers,
        }
    }

    /// Whether whatever `other` lacks is missing here too.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.sandboxes >= other.sandboxes && self.containers >= other.containers
    }

    /// The calls that are done without.
    pub(crate) fn what(self) -> &'static str {
        match (self.sandboxes, self.containers) {
            (false, false) => "none",
            (true, false) => "ListPodSandbox",
            (false, true) => "ListContainers",
            (true, true) => "ListPodSandbox and ListContainers",
        }
    }
}

/// For how long the calls for the whole node have been outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ages {
    pub(crate) version: Option<Duration>,
    pub(crate) sandboxes: Option<Duration>,
    pub(crate) containers: Option<Duration>,
}
