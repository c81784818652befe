//! A connection to the runtime, opened on demand, and again after it has ended.

use std::cell::RefCell;
use std::error::Error;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cri::frame::framed;
use cri::{ApiVersion, Connection, Rpc};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Mutex;

use super::tasks::{LocalExecutor, spawn};
use super::{Body, CONNECTION_WINDOW, MAX_HEADER_BYTES, MAX_RESETS, WINDOW};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The runtime's socket cannot be opened.
    #[error("the runtime cannot be reached: {0}")]
    Unreachable(std::io::Error),
    /// The connection ended before the answer.
    #[error("the connection to the runtime was lost: {0}")]
    Lost(hyper::Error),
    /// The shared stream of events ended before it was open.
    #[error("the stream of events ended")]
    StreamEnded,
    /// The runtime ended this call alone (`RST_STREAM`): the connection stands.
    #[error("the runtime reset the call: {0}")]
    Reset(h2::Reason),
}

impl From<hyper::Error> for NoAnswer {
    fn from(error: hyper::Error) -> Self {
        let reset = error.source().and_then(|source| source.downcast_ref());
        let reset = reset.filter(|error: &&h2::Error| error.is_reset() && error.is_remote());
        match reset.and_then(h2::Error::reason) {
            Some(reason) => Self::Reset(reason),
            None => Self::Lost(error),
        }
    }
}

/// A connection to the runtime. Clones share it.
#[derive(Clone)]
pub(super) struct Upstream {
    path: Rc<PathBuf>,
    sender: Rc<RefCell<Option<SendRequest<Body>>>>,
    /// Locked while a connection is opened: other calls wait for it and use it too.
    connecting: Rc<Mutex<()>>,
    /// Called when a connection has ended.
    on_lost: Rc<dyn Fn()>,
}

impl Upstream {
    pub(super) fn new(path: PathBuf, on_lost: Rc<dyn Fn()>) -> Self {
        Self {
            path: Rc::new(path),
            sender: Rc::default(),
            connecting: Rc::default(),
            on_lost,
        }
    }

    /// A separate connection to the same runtime.
    pub(super) fn another(&self, on_lost: Rc<dyn Fn()>) -> Self {
        Self::new(PathBuf::clone(&self.path), on_lost)
    }

    /// Sends a request, and calls `on_sent` once it is sent. The body of the returned response may be
    /// incomplete. Dropping the future or the response cancels the call.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        on_sent: impl FnOnce(),
    ) -> Result<Response<Incoming>, NoAnswer> {
        let mut sender = self.connected().await?;
        sender.ready().await?;
        let response = sender.send_request(request);
        on_sent();
        Ok(response.await?)
    }

    fn open(&self) -> Option<SendRequest<Body>> {
        let sender = self.sender.borrow();
        sender.clone().filter(|sender| !sender.is_closed())
    }

    /// The connection; opens a new one if there is none.
    pub(super) async fn connected(&self) -> Result<SendRequest<Body>, NoAnswer> {
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        let stream = Connection::open(PathBuf::clone(&self.path)).await;
        let stream = stream.map_err(NoAnswer::Unreachable)?;
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_BYTES)
            .max_concurrent_reset_streams(MAX_RESETS)
            .initial_max_send_streams(MAX_RESETS)
            .keep_alive_interval(None::<Duration>)
            .handshake(TokioIo::new(stream))
            .await?;
        let on_lost = self.on_lost.clone();
        spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection to the runtime ended: {error}");
            }
            on_lost();
        });
        *self.sender.borrow_mut() = Some(sender.clone());
        Ok(sender)
    }
}

/// A request of the guard itself.
pub(super) fn request_of(rpc: Rpc, message: &Bytes) -> Request<Bytes> {
    let mut request = Request::new(framed(message));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = format!("http://localhost{}", rpc.path(ApiVersion::V1))
        .parse()
        .unwrap_or_else(|_| Uri::from_static("http://localhost/"));
    let headers = request.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("te", HeaderValue::from_static("trailers"));
    request
}
