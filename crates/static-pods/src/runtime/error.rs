//! Calls to the runtime that failed.

use std::sync::Arc;

use pleg::runtime::{CallError, Rpc};
use tonic::{Code, Status};

/// A call to the runtime that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{call} of {subject}: {why}")]
pub struct CallFailed {
    /// The method.
    pub call: Rpc,
    /// The pod, container, image or id that the call is about.
    pub subject: Arc<str>,
    /// The gRPC code.
    pub code: Code,
    /// Why it failed.
    pub why: CallError,
}

impl CallFailed {
    pub(super) fn new(call: Rpc, subject: &str, status: Status) -> Self {
        Self {
            call,
            subject: subject.into(),
            code: status.code(),
            why: status.into(),
        }
    }

    /// Whether the runtime does not have the subject of the call.
    pub fn is_not_found(&self) -> bool {
        matches!(self.why, CallError::NotFound(_))
    }

    /// Whether the call failed because a sandbox or container with its name and attempt exists or is
    /// being created, for example by an earlier call whose answer was lost. A new list shows it.
    pub fn is_name_taken(&self) -> bool {
        // Runtimes report a reserved name with other codes, too, so the message is checked.
        let messages = [
            "failed to reserve",
            "name is reserved",
            "is already in use by container",
        ];
        let is_reserved = |text: &str| messages.iter().any(|message| text.contains(message));
        self.code == Code::AlreadyExists
            || matches!(&self.why, CallError::Refused(text) if is_reserved(text))
    }

    /// Whether the deadline of the call was exceeded.
    pub fn is_deadline(&self) -> bool {
        self.code == Code::DeadlineExceeded
    }
}
