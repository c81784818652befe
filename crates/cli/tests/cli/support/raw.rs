//! Runtimes with malformed answers.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use cri::v1;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::transport::Server;

use super::runtime::serve_on;

/// The answer of a method: the bytes of a message, or a gRPC code with a sentence.
pub enum RawAnswer {
    Bytes(Vec<u8>),
    Refusal(u16, &'static str),
}

impl<M: Message> From<M> for RawAnswer {
    fn from(message: M) -> Self {
        Self::Bytes(message.encode_to_vec())
    }
}

/// A gRPC server whose answers are a function of the method and the request.
pub struct RawRuntime {
    place: TempDir,
    _server: Runtime,
}

impl RawRuntime {
    pub fn new(answer: impl Fn(&str, &[u8]) -> RawAnswer + Send + Sync + 'static) -> Self {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("runtime.sock");
        Self {
            _server: raw_grpc(&socket, answer),
            place,
        }
    }

    pub fn path(&self) -> String {
        let socket = self.place.path().join("runtime.sock");
        socket.display().to_string()
    }
}

fn raw_grpc(
    socket: &Path,
    answer: impl Fn(&str, &[u8]) -> RawAnswer + Send + Sync + 'static,
) -> Runtime {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let method = request.uri().path().to_owned();
            let asked = request.into_body().collect().await.unwrap().to_bytes();
            let method = method.rsplit('/').next().unwrap();
            // In a request, a flag and the length precede the message.
            Ok::<_, Infallible>(framed(answer(method, &asked[5..])))
        }
    });
    serve_on(socket, async move |listener| {
        let incoming = UnixListenerStream::new(listener);
        let served = Server::builder().serve_with_incoming(service, incoming);
        served.await.unwrap();
    })
}

fn framed(answer: RawAnswer) -> Response<Body> {
    let (bytes, code, said) = match answer {
        RawAnswer::Bytes(bytes) => (Some(bytes), 0, ""),
        RawAnswer::Refusal(code, said) => (None, code, said),
    };
    let mut frame = BytesMut::new();
    if let Some(bytes) = bytes {
        frame.put_u8(0);
        frame.put_u32(bytes.len() as u32);
        frame.put_slice(&bytes);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    if !said.is_empty() {
        trailers.insert("grpc-message", HeaderValue::from_static(said));
    }
    let body = Full::<Bytes>::new(frame.freeze());
    let body = body.with_trailers(async move { Some(Ok(trailers)) });
    Response::builder()
        .header("content-type", "application/grpc")
        .body(Body::new(body))
        .unwrap()
}

/// A server that is not a CRI runtime.
#[derive(Clone, Copy, Debug)]
pub enum RawServer {
    /// It answers `Version`, but its lists are not protobuf.
    GarbageLists,
    /// It implements no method.
    NoSuchMethod,
    /// An HTTP/1 server.
    PlainHttp,
    /// It closes each connection.
    ClosesAtOnce,
}

pub fn every_nonsense() -> [RawServer; 4] {
    use RawServer::{ClosesAtOnce, GarbageLists, NoSuchMethod, PlainHttp};
    [GarbageLists, NoSuchMethod, PlainHttp, ClosesAtOnce]
}

impl RawServer {
    pub fn serve(self, socket: &Path) -> Runtime {
        match self {
            Self::GarbageLists => raw_grpc(socket, |method, _| match method {
                "Version" => version().into(),
                _ => RawAnswer::Bytes(vec![0xff; 64]),
            }),
            Self::NoSuchMethod => {
                raw_grpc(socket, |_, _| RawAnswer::Refusal(12, "unknown service"))
            }
            Self::PlainHttp => serve_on(socket, async |listener| {
                answer_and_close(listener, b"HTTP/1.1 400 Bad Request\r\n\r\nwhat?\n").await;
            }),
            Self::ClosesAtOnce => serve_on(
                socket,
                async |listener| {
                    while listener.accept().await.is_ok() {}
                },
            ),
        }
    }
}

async fn answer_and_close(listener: UnixListener, answer: &'static [u8]) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut asked = [0; 1024];
        // The client may have closed the connection.
        let _ = stream.read(&mut asked).await;
        let _ = stream.write_all(answer).await;
        while stream.read(&mut asked).await.is_ok_and(|n| n > 0) {}
    }
}

pub fn version() -> v1::VersionResponse {
    v1::VersionResponse {
        runtime_name: "raw".to_owned(),
        runtime_version: "v0.0.1".to_owned(),
        ..Default::default()
    }
}
