//! Why a call failed, and of what.

use std::sync::Arc;

use pleg::runtime::{CallError, Rpc};
use tonic::{Code, Status};

/// A call to the runtime that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{call} of {subject}: {why}")]
pub struct CallFailed {
    /// Which call.
    pub call: Rpc,
    /// Of which pod, container, image or id.
    pub subject: Arc<str>,
    /// The gRPC code.
    pub code: Code,
    /// Why.
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

    /// Whether the runtime does not have what the call was about: it is gone, or never was.
    pub fn is_not_found(&self) -> bool {
        matches!(self.why, CallError::NotFound(_))
    }

    /// Whether there is a sandbox or container of that name and attempt, or the runtime is making
    /// one still: an earlier call was not lost, so the lists are to be read anew.
    pub fn is_name_taken(&self) -> bool {
        let words = [
            "failed to reserve",
            "name is reserved",
            "is already in use by container",
        ];
        let reserved = |text: &str| words.iter().any(|words| text.contains(words));
        let says_so = matches!(&self.why, CallError::Refused(text) if reserved(text));
        self.code == Code::AlreadyExists || says_so
    }

    /// Whether the runtime gave up for the sake of time.
    pub fn is_deadline(&self) -> bool {
        self.code == Code::DeadlineExceeded
    }
}
