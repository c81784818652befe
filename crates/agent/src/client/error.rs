//! Why an agent cannot be asked.

use std::path::PathBuf;

use cri::Endpoint;
use http::StatusCode;

/// Why an agent cannot be asked.
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
    /// A process listens there that is not trusted.
    #[error(
        "the agent on {} runs as user {user}, which is neither root nor this user",
        socket.display()
    )]
    Untrusted {
        /// The socket.
        socket: PathBuf,
        /// Whose process listens there.
        user: u32,
    },
    /// It does not answer in time.
    #[error("the agent on {} does not answer", .0.display())]
    Silent(PathBuf),
    /// The answer is not HTTP, or it is incomplete.
    #[error("the agent on {} does not answer", socket.display())]
    Http {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        error: hyper::Error,
    },
    /// It answers with an error.
    #[error("the agent on {} answers {code}", socket.display())]
    Refused {
        /// The socket.
        socket: PathBuf,
        /// Its answer.
        code: StatusCode,
    },
    /// The answer is not the answer of an agent.
    #[error("what answers on {} is not a pleg agent", socket.display())]
    Nonsense {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It watches another runtime than the one that is wanted.
    #[error("the agent on {} watches {watched}, not {wanted}", socket.display())]
    OtherRuntime {
        /// The socket.
        socket: PathBuf,
        /// The runtime it watches.
        watched: String,
        /// The one that is wanted.
        wanted: Endpoint,
    },
}
