//! Why an agent cannot be queried.

use std::path::PathBuf;

use cri::Endpoint;
use http::StatusCode;

/// Why an agent cannot be queried.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process accepts connections on the socket.
    #[error("no agent on {}", socket.display())]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The process that listens on the socket is not trusted.
    #[error(
        "the agent on {} runs as user {user}, which is neither root nor this user",
        socket.display()
    )]
    Untrusted {
        /// The socket.
        socket: PathBuf,
        /// The user of the process that listens.
        user: u32,
    },
    /// The agent does not answer in time.
    #[error("the agent on {} does not answer", .0.display())]
    TimedOut(PathBuf),
    /// The answer is not HTTP, or it is incomplete.
    #[error("the agent on {} does not answer", socket.display())]
    Http {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        error: hyper::Error,
    },
    /// The agent answers with an error.
    #[error("the agent on {} answers {code}", socket.display())]
    Refused {
        /// The socket.
        socket: PathBuf,
        /// The HTTP status of its answer.
        code: StatusCode,
    },
    /// The answer is not in the format of an agent's answers.
    #[error("what answers on {} is not a pleg agent", socket.display())]
    NotAnAgent {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The agent observes a runtime other than the wanted one.
    #[error("the agent on {} watches {watched}, not {wanted}", socket.display())]
    OtherRuntime {
        /// The socket.
        socket: PathBuf,
        /// The runtime that the agent observes.
        watched: String,
        /// The runtime that is wanted.
        wanted: Endpoint,
    },
}
