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
    /// The runtime did not answer a list, and not every id could be confirmed.
    ListOverdue,
    /// The runtime does not answer for this id.
    StatusOverdue,
    /// A change of this id that was asked for before is overdue.
    MutationOverdue,
    /// The runtime did not answer statistics that nobody else can give.
    StatsOverdue,
    /// The runtime did not answer a list of statistics, and some are not known by id.
    StatsIncomplete,
}

impl Failure {
    /// The status code of gRPC: `DeadlineExceeded` as without us, only earlier; `Unavailable`
    /// for what a kubelet is to try again later.
    pub fn code(self) -> i32 {
        match self {
            Self::ListOverdue | Self::StatusOverdue | Self::StatsOverdue => 4,
            Self::MutationOverdue | Self::StatsIncomplete => 14,
        }
    }

    /// The message.
    pub fn text(self) -> &'static str {
        match self {
            Self::ListOverdue => {
                "pleg guard: the runtime did not answer the list in time, \
                 and what is running could not be confirmed by id"
            }
            Self::StatusOverdue => "pleg guard: the runtime does not answer for this id",
            Self::MutationOverdue => {
                "pleg guard: the runtime has not answered an earlier call for this id"
            }
            Self::StatsOverdue => "pleg guard: the runtime did not answer statistics in time",
            Self::StatsIncomplete => {
                "pleg guard: the runtime did not answer statistics in time, \
                 and not all are known by id"
            }
        }
    }
}
