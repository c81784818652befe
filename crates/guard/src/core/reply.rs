//! The replies that the guard sends in place of the runtime.

use bytes::Bytes;

/// A reply of the guard to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success, with this message.
    Message(Bytes),
    /// An error.
    Failed(Failure),
}

/// Why the guard ends a call with an error. The texts contain no id and no time: a kubelet logs the
/// same text only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The status of this id is stuck.
    StatusOverdue,
    /// An earlier change of this id is overdue.
    MutationOverdue,
    /// A list of statistics is overdue, and the statistics of some ids are not known.
    StatsOverdue,
}

impl Failure {
    /// The gRPC status code: `DeadlineExceeded`, which the caller would get later without the guard, or
    /// `Unavailable` for a call that a kubelet should retry later.
    pub fn code(self) -> i32 {
        match self {
            Self::StatusOverdue | Self::StatsOverdue => 4,
            Self::MutationOverdue => 14,
        }
    }

    /// The gRPC message.
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
