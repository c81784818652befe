//! A connection to the runtime for streams, opened on demand, and again after it has ended.

use std::cell::RefCell;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cri::frame::framed;
use cri::{ApiVersion, Connection, Rpc};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::io::InspectReader;

use super::on_demand::{OnDemand, OpenConnection, until_its_end};
use super::tasks::LocalExecutor;
use super::{Body, CONNECTION_WINDOW, MAX_HEADER_BYTES, MAX_RESETS, WINDOW};

/// The length of a frame header, and the type of a SETTINGS frame (RFC 9113, sections 4.1 and 6.5).
const FRAME_HEADER_BYTES: usize = 9;
const SETTINGS: u8 = 4;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The runtime's socket cannot be opened.
    #[error("the runtime cannot be reached: {0}")]
    Unreachable(std::io::Error),
    /// The connection ended before the answer.
    #[error("the connection to the runtime was lost: {0}")]
    Lost(Box<dyn Error>),
    /// The process that listens on the runtime's socket is not a gRPC server.
    #[error("what the runtime sends is not HTTP/2, on which gRPC is based")]
    NotHttp2,
    /// The shared stream of events ended before it was open.
    #[error("the stream of events ended")]
    StreamEnded,
    /// The runtime ended only this call (`RST_STREAM`): the connection stands.
    #[error("the runtime reset the call: {0}")]
    Reset(h2::Reason),
}

impl From<hyper::Error> for NoAnswer {
    fn from(error: hyper::Error) -> Self {
        let source = error.source().and_then(|source| source.downcast_ref());
        match source.and_then(reset) {
            Some(reason) => Self::Reset(reason),
            None => Self::Lost(error.into()),
        }
    }
}

impl From<h2::Error> for NoAnswer {
    fn from(error: h2::Error) -> Self {
        match reset(&error) {
            Some(reason) => Self::Reset(reason),
            None => Self::Lost(error.into()),
        }
    }
}

/// The reason with which the runtime ended only this call, if it did.
fn reset(error: &h2::Error) -> Option<h2::Reason> {
    let is_reset = error.is_reset() && error.is_remote();
    error.reason().filter(|_| is_reset)
}

/// The header of the first frame that a runtime sends. Each HTTP/2 server begins with SETTINGS (RFC 9113,
/// section 3.4).
#[derive(Debug, Default)]
pub(super) struct FirstFrame(RefCell<Vec<u8>>);

impl FirstFrame {
    /// Takes the header from the bytes that are received.
    fn read(&self, bytes: &[u8]) {
        let mut header = self.0.borrow_mut();
        let missing = FRAME_HEADER_BYTES - header.len();
        header.extend(bytes.iter().take(missing));
    }

    /// Whether what the runtime sends is not HTTP/2.
    fn is_foreign(&self) -> bool {
        let header = self.0.borrow();
        header.get(3).is_some_and(|kind| *kind != SETTINGS)
    }

    /// Why a call that failed with this error has no answer.
    pub(super) fn explain(&self, error: impl Into<NoAnswer>) -> NoAnswer {
        match self.is_foreign() {
            true => NoAnswer::NotHttp2,
            false => error.into(),
        }
    }
}

/// Connects to the runtime. Also returns the header of the first frame, which is filled in as it is
/// received.
pub(super) async fn open_stream(
    path: &Path,
) -> Result<
    (
        InspectReader<Connection, impl FnMut(&[u8]) + use<>>,
        Rc<FirstFrame>,
    ),
    NoAnswer,
> {
    let stream = Connection::open(path.to_owned()).await;
    let stream = stream.map_err(NoAnswer::Unreachable)?;
    let first = Rc::new(FirstFrame::default());
    let seen = first.clone();
    let see = move |bytes: &[u8]| seen.read(bytes);
    Ok((InspectReader::new(stream, see), first))
}

/// The connection for requests and answers that are streamed.
pub(super) type Upstream = OnDemand<Open>;

/// A connection that is open.
#[derive(Clone)]
pub(super) struct Open {
    sender: SendRequest<Body>,
    first: Rc<FirstFrame>,
}

impl Upstream {
    /// Sends a request, and calls `on_sent` once it is sent. The body of the returned response may be
    /// incomplete. Dropping the future or the response cancels the call.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        on_sent: impl FnOnce(),
    ) -> Result<Response<Incoming>, NoAnswer> {
        let Open { mut sender, first } = self.connect().await?;
        let response = async {
            sender.ready().await?;
            let response = sender.send_request(request);
            on_sent();
            response.await
        };
        response
            .await
            .map_err(|error: hyper::Error| first.explain(error))
    }
}

impl OpenConnection for Open {
    async fn ready(self) -> Option<Self> {
        (!self.sender.is_closed()).then_some(self)
    }

    async fn open(path: &Path, on_lost: Rc<dyn Fn()>) -> Result<Self, NoAnswer> {
        let (stream, first) = open_stream(path).await?;
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
        until_its_end(connection, move || on_lost());
        Ok(Self { sender, first })
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
