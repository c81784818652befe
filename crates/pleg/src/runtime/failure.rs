//! Why a call failed, classified by what the caller does next.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::sync::Arc;

use cri::dockerd;
use cri::fields::Malformed;
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "kind", content = "message")]
pub enum CallError {
    /// There is no connection: try again later.
    #[error("the runtime cannot be reached: {0}")]
    Unavailable(Unreachable),
    /// The runtime has no such container or sandbox: it was removed.
    #[error("not found: {0}")]
    NotFound(Arc<str>),
    /// The runtime does not have this method.
    #[error("not implemented by the runtime: {0}")]
    Unimplemented(Arc<str>),
    /// The answer exceeds the receive limit. Contains a sentence with both sizes.
    #[error("the answer is larger than the receive limit: {0}")]
    TooLarge(Arc<str>),
    /// The answer is not valid CRI.
    #[error("the response is malformed: {0}")]
    Malformed(Arc<str>),
    /// The runtime refused the call. Contains the gRPC code and the runtime's sentence.
    #[error("the runtime answered {0}")]
    Refused(Arc<str>),
    /// The call is withheld: the connection was lost each time it was sent alone.
    #[error("the connection to the runtime is lost each time this is called")]
    Withheld,
}

/// Why there is no connection to the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Unreachable {
    /// The kind of the failure.
    pub cause: NoConnection,
    /// The cause in the system's words.
    pub message: Arc<str>,
}

/// What prevents a connection, or ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NoConnection {
    /// There is no socket at that path (`ENOENT`).
    NoSocket,
    /// There is a socket, and no process listens on it (`ECONNREFUSED`).
    Refused,
    /// The path is not a socket.
    NotASocket,
    /// This process may not use the socket (`EACCES`, `EPERM`).
    Forbidden,
    /// The listener does not accept connections any more (`EAGAIN`).
    QueueFull,
    /// The connection was lost before the answer.
    Lost,
    /// Another cause, or an unknown one.
    Other,
}

impl CallError {
    /// An error for a missing connection, with the system's message.
    pub fn unavailable(cause: NoConnection, message: impl Into<Arc<str>>) -> Self {
        let message = message.into();
        Self::Unavailable(Unreachable { cause, message })
    }

    /// The error if no process listens on the socket.
    pub fn connection_refused() -> Self {
        Self::unavailable(NoConnection::Refused, "connection refused")
    }
}

impl NoConnection {
    /// The cause behind a status of the transport.
    fn behind(status: &Status) -> Self {
        // Without an error of the system, there was a connection, and HTTP/2 ended it.
        let Some(error) = behind::<io::Error>(status) else {
            return Self::Lost;
        };
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoSocket,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::InvalidInput => Self::NotASocket,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            io::ErrorKind::WouldBlock => Self::QueueFull,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::NotConnected => Self::Lost,
            _ => Self::Other,
        }
    }
}

/// The errors that caused a status, the innermost one last.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    successors(status.source(), |error| (*error).source())
}

/// The error of this type behind a status.
fn behind<E: Error + 'static>(status: &Status) -> Option<&E> {
    causes(status).find_map(|error| error.downcast_ref())
}

/// Whether the runtime ended only this call (`RST_STREAM`): the connection continues.
fn is_reset(status: &Status) -> bool {
    behind::<h2::Error>(status).is_some_and(|error| error.is_reset() && error.is_remote())
}

impl From<Malformed> for CallError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error.to_string().into())
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        // Runtimes quote requests, registries and mounts, which may contain credentials. The message is
        // shown and saved.
        let message: Arc<str> = pleg_text::redacted(message(&status)).into();
        match status.code() {
            Code::NotFound => Self::NotFound(message),
            Code::Unimplemented => Self::Unimplemented(message),
            // grpc-go refuses to send with ResourceExhausted; tonic refuses to receive with OutOfRange.
            Code::OutOfRange => Self::TooLarge(message),
            Code::ResourceExhausted if message.contains("larger than max") => {
                Self::TooLarge(message)
            }
            // A failure of the transport arrives as one of these, with its cause behind it. Without a
            // cause the runtime itself sent it, for example about a shim that exited.
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled
                if status.source().is_some() && !is_reset(&status) =>
            {
                Self::unavailable(NoConnection::behind(&status), message)
            }
            Code::Internal if message.contains("decode") => Self::Malformed(message),
            Code::Unknown if dockerd::is_not_found(&message) => Self::NotFound(message),
            code => Self::Refused(format!("{code:?}: {message}").into()),
        }
    }
}

/// The innermost cause, such as "No such file or directory", in place of tonic's "transport error".
fn message(status: &Status) -> String {
    let innermost = causes(status).last().map(ToString::to_string);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_runtime_holds_no_credential() {
        let sent = "failed to mount: -o username=bob,password=hunter2 //nas/share";
        for code in [Code::NotFound, Code::Unknown, Code::Unavailable] {
            let error = CallError::from(Status::new(code, sent)).to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("password=[redacted] //nas/share"), "{error}");
        }
    }
}
