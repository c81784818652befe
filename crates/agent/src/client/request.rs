//! One request on a connection of its own, bounded in time and size.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::ClientError;
use crate::listeners::is_trusted;

/// How long an agent may take to answer. It answers from memory.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest answer, in bytes. All pods of the largest node take less.
const MAX_BODY: usize = 64 << 20;

/// The answer to `GET path`, decoded from JSON.
pub async fn json<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let answer = async {
        let body = get(socket, path).await?;
        let body = Limited::new(body, MAX_BODY).collect().await;
        let body = body.map_err(|error| nonsense(socket, error))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| nonsense(socket, error.into()))
    };
    in_time(socket, answer).await
}

/// The body of the answer to `GET path`, which may be without end.
pub async fn body(socket: &Path, path: &str) -> Result<Incoming, ClientError> {
    in_time(socket, get(socket, path)).await
}

/// Sends `POST path`; an error if the agent does not accept it.
pub async fn post(socket: &Path, path: &str) -> Result<(), ClientError> {
    let request = Request::post(path).body(Full::default());
    in_time(socket, send(socket, request)).await.map(drop)
}

async fn in_time<A>(
    socket: &Path,
    answer: impl Future<Output = Result<A, ClientError>>,
) -> Result<A, ClientError> {
    let answer = timeout(ANSWER_TIMEOUT, answer).await;
    answer.map_err(|_| ClientError::TimedOut(socket.to_owned()))?
}

async fn get(socket: &Path, path: &str) -> Result<Incoming, ClientError> {
    send(socket, Request::get(path).body(Full::default())).await
}

async fn send(
    socket: &Path,
    request: http::Result<Request<Full<Bytes>>>,
) -> Result<Incoming, ClientError> {
    let mut request = request.expect("a path of ours makes a request");
    let host = HeaderValue::from_static("localhost");
    request.headers_mut().insert(header::HOST, host);
    let stream = connect(socket).await?;
    let broken = |error| ClientError::Http {
        socket: socket.to_owned(),
        error,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the connection to the agent ended: {error}");
        }
    });
    let answer = sender.send_request(request).await.map_err(broken)?;
    match answer.status() {
        StatusCode::OK => Ok(answer.into_body()),
        code => Err(ClientError::Refused {
            socket: socket.to_owned(),
            code,
        }),
    }
}

/// Connects to an agent that root or our own user runs; nothing is sent to any other.
async fn connect(socket: &Path) -> Result<UnixStream, ClientError> {
    let unreachable = |error| ClientError::Unreachable {
        socket: socket.to_owned(),
        error,
    };
    let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
    let owner = stream.peer_cred().map_err(unreachable)?;
    match is_trusted(&owner) {
        true => Ok(stream),
        false => Err(ClientError::Untrusted {
            socket: socket.to_owned(),
            user: owner.uid(),
        }),
    }
}

fn nonsense(socket: &Path, error: Box<dyn std::error::Error + Send + Sync>) -> ClientError {
    ClientError::NotAnAgent {
        socket: socket.to_owned(),
        error,
    }
}
