//! The client of the guard's service. Each call has its own connection, a deadline, and a maximum size of the
//! answer.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use cri::frame::{framed, message_of};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustix::process::geteuid;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::{Mode, SERVICE, SetModeRequest, SetModeResponse, Status, StatusRequest, method};

/// The longest answer that is read. A status is a few kilobytes long.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// The gRPC code with which a server refuses an unknown method. A runtime refuses the guard's methods with
/// it.
const UNIMPLEMENTED: i32 = 12;

/// A client of the guard on one socket. It connects for each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    socket: PathBuf,
}

/// Why a guard did not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection to the socket can be made.
    #[error("cannot connect to {}", socket.display())]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The process that listens on the socket is run neither by root nor by the user of this process.
    #[error("user {user} listens on {}, and not root", socket.display())]
    Untrusted {
        /// The socket.
        socket: PathBuf,
        /// The user that runs that process.
        user: u32,
    },
    /// There was no answer within the deadline.
    #[error("the guard on {} does not respond", .0.display())]
    Silent(PathBuf),
    /// A server that is not a guard listens on the socket.
    #[error("no guard serves {}", .0.display())]
    NotAGuard(PathBuf),
    /// The guard answered with an error.
    #[error("the guard on {} refused: {message}", socket.display())]
    Refused {
        /// The socket.
        socket: PathBuf,
        /// The guard's error message.
        message: String,
    },
    /// The connection ended before the answer, or the answer cannot be decoded.
    #[error("the guard on {} did not answer", socket.display())]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// The cause.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Client {
    /// A client of the guard that listens on this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    /// The guard's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The status of the guard, if it answers within this time.
    pub async fn status(&self, request: StatusRequest, within: Duration) -> Result<Status, Error> {
        self.call(method::STATUS, &request, within).await
    }

    /// Sets the mode of the guard.
    pub async fn set_mode(&self, mode: Mode, within: Duration) -> Result<(), Error> {
        let request = SetModeRequest { mode: mode.into() };
        let SetModeResponse {} = self.call(method::SET_MODE, &request, within).await?;
        Ok(())
    }

    async fn call<A: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
        within: Duration,
    ) -> Result<A, Error> {
        let answer = timeout(within, self.send(method, framed(&request.encode_to_vec()))).await;
        let body = answer.map_err(|_| Error::Silent(self.socket.clone()))??;
        let message = message_of(&body).ok_or_else(|| self.broken("it is not one message"))?;
        A::decode(message).map_err(|error| self.broken(error))
    }

    async fn send(&self, method: &str, body: Bytes) -> Result<Bytes, Error> {
        let stream = self.connect().await?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| self.broken(error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to the guard ended: {error}");
            }
        });
        let request = Request::post(format!("http://localhost/{SERVICE}/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(body))
            .map_err(|error| self.broken(error))?;
        let answer = sender.send_request(request).await;
        let (head, body) = answer.map_err(|error| self.broken(error))?.into_parts();
        self.check(&head.headers)?;
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| self.broken(error))?;
        if let Some(trailers) = body.trailers() {
            self.check(trailers)?;
        }
        Ok(body.to_bytes())
    }

    /// Connects to a guard that root or the user of this process runs. Nothing is sent to any other server.
    async fn connect(&self) -> Result<UnixStream, Error> {
        let unreachable = |error| Error::Unreachable {
            socket: self.socket.clone(),
            error,
        };
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(unreachable)?;
        let user = stream.peer_cred().map_err(unreachable)?.uid();
        match user == 0 || user == geteuid().as_raw() {
            true => Ok(stream),
            false => Err(Error::Untrusted {
                socket: self.socket.clone(),
                user,
            }),
        }
    }

    /// The error in these headers or trailers, if there is one.
    fn check(&self, headers: &HeaderMap) -> Result<(), Error> {
        let text = |name| headers.get(name)?.to_str().ok();
        match text("grpc-status").and_then(|code| code.parse().ok()) {
            None | Some(0) => Ok(()),
            Some(UNIMPLEMENTED) => Err(Error::NotAGuard(self.socket.clone())),
            Some(_) => Err(Error::Refused {
                socket: self.socket.clone(),
                message: text("grpc-message").unwrap_or_default().to_owned(),
            }),
        }
    }

    fn broken(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Broken {
            socket: self.socket.clone(),
            error: error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_call_to_a_guard_that_does_not_answer_ends_at_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("cri.sock");
        let client = Client::new(&socket);
        let status = || client.status(StatusRequest::default(), SOON);
        assert!(matches!(status().await, Err(Error::Unreachable { .. })));
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(matches!(status().await, Err(Error::Silent(_))));
        drop(listener);
        assert!(matches!(status().await, Err(Error::Unreachable { .. })));
    }
}
