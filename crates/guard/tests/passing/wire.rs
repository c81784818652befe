//! A runtime of plain HTTP/2, a client of it, and a client of the guard in front of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use guard::core::{Mode, Settings};
use guard::{Handle, Proxy};
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The answer of the runtime.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub headers: Vec<(String, String)>,
    pub frames: Vec<Bytes>,
    pub trailers: Vec<(String, String)>,
    pub is_trailers_only: bool,
}

impl Reply {
    pub fn good(body: Bytes) -> Self {
        Self {
            frames: vec![body],
            trailers: vec![("grpc-status".to_owned(), "0".to_owned())],
            ..Self::default()
        }
    }
}

/// A request or response as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub status: u16,
    pub path: String,
    pub headers: BTreeMap<String, Vec<u8>>,
    pub body: Bytes,
    pub trailers: Option<BTreeMap<String, Vec<u8>>>,
}

impl Seen {
    pub async fn of(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.unwrap();
        let trailers = collected.trailers().map(map);
        Self {
            status: parts.status.as_u16(),
            path: String::new(),
            headers: map(&parts.headers),
            trailers,
            body: collected.to_bytes(),
        }
    }

    /// gRPC's status code.
    pub fn code(&self) -> Option<String> {
        let fields = self.trailers.iter().chain([&self.headers]);
        let mut codes = fields.filter_map(|map| map.get("grpc-status"));
        codes
            .next()
            .map(|code| String::from_utf8_lossy(code).into())
    }
}

fn map(headers: &HeaderMap) -> BTreeMap<String, Vec<u8>> {
    let headers = headers.iter();
    headers
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect()
}

#[derive(Default)]
struct State {
    reply: Reply,
    last: Seen,
    hangs: String,
    echoes: String,
    /// The open event streams.
    streams: Vec<mpsc::Sender<Bytes>>,
    /// The number of accepted connections.
    connections: usize,
}

/// A runtime, and the guard in front of it.
pub struct Behind {
    folder: TempDir,
    state: Arc<Mutex<State>>,
    outstanding: watch::Sender<usize>,
    serving: Mutex<Option<JoinHandle<()>>>,
    _guard: Handle,
}

impl Behind {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(folder.path().join("guard.sock"));
        let proxy = Proxy {
            runtime: folder.path().join("runtime.sock"),
            socket: folder.path().join("guard.sock"),
            settings: Settings::default(),
            state: None,
            ids: base::host::no_ids(),
            unix_nanos: 0,
        };
        let guard = proxy.start(listener.unwrap(), Mode::Guard).unwrap();
        let behind = Self {
            folder,
            state: Arc::default(),
            outstanding: watch::channel(0).0,
            serving: Mutex::default(),
            _guard: guard,
        };
        behind.start_again().await;
        behind
    }

    pub async fn start_again(&self) {
        let path = self.folder.path().join("runtime.sock");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(path).unwrap();
        let (state, outstanding) = (self.state.clone(), self.outstanding.clone());
        let serving = tokio::spawn(async move {
            // Dropping the task closes all connections.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                state.lock().unwrap().connections += 1;
                let (state, outstanding) = (state.clone(), outstanding.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        answer(state.clone(), outstanding.clone(), request)
                    });
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .auto_date_header(false)
                        .max_concurrent_streams(None)
                        .serve_connection(TokioIo::new(stream), service);
                    let _ = server.await;
                });
            }
        });
        *self.serving.lock().unwrap() = Some(serving);
    }

    pub async fn stop(&self) {
        let serving = self.serving.lock().unwrap().take().unwrap();
        serving.abort();
        let _ = serving.await;
        let _ = std::fs::remove_file(self.folder.path().join("runtime.sock"));
    }

    /// A client of the guard's own service.
    pub fn service(&self) -> guard_api::Client {
        guard_api::Client::new(self.guard_path())
    }

    pub async fn switch(&self, mode: guard_api::Mode) {
        let service = self.service();
        let switched = service.set_mode(mode, Duration::from_secs(5)).await;
        switched.unwrap();
    }

    pub fn guard_path(&self) -> PathBuf {
        self.folder.path().join("guard.sock")
    }

    /// A client of the runtime, and one of the guard.
    pub async fn both(&self) -> (Client, Client) {
        let direct = connect(self.folder.path().join("runtime.sock")).await;
        (direct, connect(self.guard_path()).await)
    }

    pub fn replies_with(&self, reply: Reply) {
        self.state.lock().unwrap().reply = reply;
    }

    /// Requests with this word in `x-do` are never answered.
    pub fn hangs_on(&self, word: &str) {
        self.state.lock().unwrap().hangs = word.to_owned();
    }

    /// Requests with this word in `x-do` get their own body back as it arrives.
    pub fn echoes_on(&self, word: &str) {
        self.state.lock().unwrap().echoes = word.to_owned();
    }

    /// Sends these bytes on every event stream.
    pub async fn send_events(&self, piece: Bytes) {
        let streams = self.state.lock().unwrap().streams.clone();
        for stream in streams {
            // The reader may be gone.
            let _ = stream.send(piece.clone()).await;
        }
    }

    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    pub fn last_request(&self) -> Seen {
        self.state.lock().unwrap().last.clone()
    }

    /// Waits until this many calls are outstanding.
    pub async fn outstanding(&self, count: usize) {
        let mut outstanding = self.outstanding.subscribe();
        outstanding.wait_for(|now| *now == count).await.unwrap();
    }
}

/// Counts a call until it is dropped.
struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    outstanding: watch::Sender<usize>,
    request: Request<Incoming>,
) -> Result<Response<Body>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let does = parts.headers.get("x-do").cloned();
    let does = does.as_ref().and_then(|word| word.to_str().ok());
    if does == Some("reset") {
        // The server ends only this stream.
        return Err(std::io::Error::other("reset"));
    }
    let (hangs, echoes) = {
        let state = state.lock().unwrap();
        let is = |word: &str| does.is_some_and(|does| does == word);
        (is(&state.hangs), is(&state.echoes))
    };
    if hangs {
        outstanding.send_modify(|count| *count += 1);
        let _counted = Counted(outstanding);
        return std::future::pending().await;
    }
    let has_events = !state.lock().unwrap().reply.is_trailers_only;
    if has_events && parts.uri.path().ends_with("/GetContainerEvents") {
        let (stream, pieces) = mpsc::channel(1);
        state.lock().unwrap().streams.push(stream);
        outstanding.send_modify(|count| *count += 1);
        let counted = Some(Counted(outstanding));
        return Ok(Response::new(Channel { pieces, counted }.boxed_unsync()));
    }
    if echoes {
        let body = body.map_err(|error| panic!("{error}"));
        return Ok(Response::new(body.boxed_unsync()));
    }
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().map(map);
    let mut state = state.lock().unwrap();
    if !parts.headers.contains_key(USER_AGENT) {
        // A call of the guard itself: callers must not see its answer.
        return Ok(unimplemented());
    }
    state.last = Seen {
        status: 0,
        path: parts.uri.to_string(),
        headers: map(&parts.headers),
        body: collected.to_bytes(),
        trailers,
    };
    let reply = state.reply.clone();
    let mut headers = headers(&reply.headers);
    headers.insert(
        "content-type",
        HeaderValue::from_static("application/grpc+proto"),
    );
    let body = match reply.is_trailers_only {
        true => {
            headers.extend(self::headers(&reply.trailers));
            Full::new(Bytes::new()).boxed_unsync()
        }
        false => {
            let data = reply.frames.into_iter().map(Frame::data);
            let trailers = Frame::trailers(self::headers(&reply.trailers));
            Frames(data.chain([trailers]).collect()).boxed_unsync()
        }
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    Ok(response)
}

fn unimplemented() -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static("12"));
    response
}

fn headers(from: &[(String, String)]) -> HeaderMap {
    let from = from.iter();
    from.map(|(name, value)| {
        let name = HeaderName::try_from(name.as_str()).unwrap();
        (name, HeaderValue::try_from(value.as_str()).unwrap())
    })
    .collect()
}

struct Frames(std::collections::VecDeque<Frame<Bytes>>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// A client.
#[derive(Clone)]
pub struct Client(SendRequest<Body>);

impl Client {
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub async fn send(&mut self, request: Request<Body>) -> Response<Incoming> {
        self.0.ready().await.unwrap();
        self.0.send_request(request).await.unwrap()
    }
}

pub async fn connect(path: impl AsRef<Path>) -> Client {
    let stream = UnixStream::connect(path).await.unwrap();
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_max_send_streams(1000)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    Client(sender)
}

pub fn request(path: &str, body: Bytes, headers: &[(&str, &str)]) -> Request<Body> {
    with_body(path, Full::new(body).boxed_unsync(), headers)
}

fn with_body(path: &str, body: Body, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "grpc-go/1.72.1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

/// A request, and a sender for its body.
pub fn streaming_request(
    path: &str,
    headers: &[(&str, &str)],
) -> (mpsc::Sender<Bytes>, Request<Body>) {
    let (sender, pieces) = mpsc::channel(1);
    let counted = None;
    let body = Channel { pieces, counted }.boxed_unsync();
    (sender, with_body(path, body, headers))
}

struct Channel {
    pieces: mpsc::Receiver<Bytes>,
    /// Set for the body of an answer.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    counted: Option<Counted>,
}

impl HttpBody for Channel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.pieces.poll_recv(context);
        next.map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

/// The next bytes of a response. Frame boundaries have no meaning.
pub async fn next_data(response: &mut Response<Incoming>) -> Option<Bytes> {
    loop {
        let data = response.frame().await?.unwrap().into_data().ok()?;
        if !data.is_empty() {
            return Some(data);
        }
    }
}

pub fn framed(message: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(message.len() as u32);
    body.put_slice(message);
    body.freeze()
}
