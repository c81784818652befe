//! Why a call failed, by what the caller does next.

use std::error::Error;
use std::sync::Arc;

use cri::lean::Malformed;
use tonic::{Code, Status};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no connection: try again later. Holds the cause that the system gave.
    #[error("the runtime cannot be reached: {0}")]
    Unavailable(Arc<str>),
    /// The runtime has no such container or sandbox: it is gone.
    #[error("not found: {0}")]
    NotFound(Arc<str>),
    /// The runtime does not have this method.
    #[error("not implemented by the runtime: {0}")]
    Unimplemented(Arc<str>),
    /// The answer exceeds the receive limit; the runtime's sentence holds both figures.
    #[error("the answer is larger than the receive limit: {0}")]
    TooLarge(Arc<str>),
    /// The answer is not what CRI says it should be.
    #[error("the answer makes no sense: {0}")]
    Malformed(Arc<str>),
    /// The runtime refused; holds the gRPC code and the runtime's sentence.
    #[error("the runtime answered {0}")]
    Refused(Arc<str>),
}

impl From<Malformed> for CallError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error.to_string().into())
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        let message: Arc<str> = message(&status).into();
        match status.code() {
            Code::NotFound => Self::NotFound(message),
            Code::Unimplemented => Self::Unimplemented(message),
            // grpc-go refuses to send by ResourceExhausted; tonic refuses to receive by OutOfRange.
            Code::OutOfRange => Self::TooLarge(message),
            Code::ResourceExhausted if message.contains("larger than max") => {
                Self::TooLarge(message)
            }
            // What the transport could not do arrives as one of these with its cause behind it.
            Code::Unavailable => Self::Unavailable(message),
            Code::Unknown | Code::Internal | Code::Cancelled if status.source().is_some() => {
                Self::Unavailable(message)
            }
            Code::Internal if message.contains("decode") => Self::Malformed(message),
            code => Self::Refused(format!("{code:?}: {message}").into()),
        }
    }
}

/// The innermost cause, which is what tells a person what happened ("No such file or
/// directory"), in place of tonic's "transport error".
fn message(status: &Status) -> String {
    let mut source = status.source();
    let mut innermost = None;
    while let Some(error) = source {
        innermost = Some(error.to_string());
        source = error.source();
    }
    let text = innermost.unwrap_or_else(|| status.message().to_owned());
    // "No such file or directory (os error 2)" -> "no such file or directory"
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    match (characters.next(), text.starts_with("HTTP")) {
        (Some(first), false) if text.contains(' ') => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}
