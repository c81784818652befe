//! What callers are given in the runtime's place.

use bytes::Bytes;

/// An answer of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Good, with this message.
    Message(Bytes),
    /// An error.
    Failed(Failure),
}

/// Why nothing better can be said. The texts never change: a kubelet logs the same text only
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The runtime does not answer for this id.
    StatusOverdue,
    /// A change of this id that was asked for before is overdue.
    MutationOverdue,
    /// The runtime did not answer statistics, and not all of them are known by id.
    StatsOverdue,
}

impl Failure {
    /// The status code of gRPC: `DeadlineExceeded` as without us, only earlier; `Unavailable`
    /// for what a kubelet is to try again later.
    pub fn code(self) -> i32 {
        match self {
            Self::StatusOverdue | Self::StatsOverdue => 4,
            Self::MutationOverdue => 14,
        }
    }

    /// The message.
    pub fn text(self) -> &'static str {
        match self {
            Self::StatusOverdue => "pleg guard: the runtime does not answer for this id",
            Self::MutationOverdue => {
                "pleg guard: the runtime has not answered an earlier call for this id"
            }
            Self::StatsOverdue => {
                "pleg guard: the runtime did not answer statistics in time, \
                 and not all are known by id"
            }
        }
    }
}
