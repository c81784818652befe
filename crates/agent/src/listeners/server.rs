//! Serving HTTP to any client: connections are bounded in number, and each in time.
//!
//! ```text
//!   accept --> a place --> header (5 s) --> one answer (30 s in all) --> closed
//!                                             |  it is Endless
//!                                             v
//!                                           for as long as it is read
//! ```
//!
//! A connection carries one request, so an idle client keeps none.
//! When all [`places`](super::places) are taken, idle connections and slow readers give way.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::places::{Place, Places, Stage};

/// How many connections a listener takes at once; at most half of them are event streams.
pub const MAX_CONNECTIONS: usize = 256;

/// How long a client may take to send its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may last in all, unless its answer is [`Endless`].
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a request or an answer is kept for a connection; the kernel keeps the rest.
const BUFFER_BYTES: usize = 16 << 10;

/// Marks, as an extension, an answer that goes on for as long as it is read. The handler that gives
/// such answers limits their number to less than the number of places.
#[derive(Clone, Copy, Debug)]
pub struct Endless;

/// Serves without end, at most `limit` connections at once. All connections end when this is
/// dropped.
pub async fn serve(mut listener: impl Listener, router: Router, limit: usize) -> Infallible {
    let closed = CancellationToken::new();
    let places = Places::new(limit, closed.clone());
    let _close = closed.drop_guard();
    loop {
        let (stream, _) = listener.accept().await;
        let place = places.take().await;
        let router = router.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = converse(stream, router, &place) => {}
                () = place.has_to_leave() => tracing::debug!("a connection gave way to another"),
            }
        });
    }
}

/// One connection, from its first byte to its end.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router, place: &Place) {
    let endless = Arc::new(AtomicBool::new(false));
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        place.enter(Stage::Answering);
        let answer = router.call(request);
        let endless = endless.clone();
        async move {
            let answer = answer.await?;
            if answer.extensions().get::<Endless>().is_some() {
                place.enter(Stage::Endless);
                endless.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = match timeout(CONNECTION_TIMEOUT, &mut connection).await {
        Ok(ended) => ended,
        Err(_) if endless.load(Ordering::Relaxed) => connection.await,
        Err(_) => return tracing::debug!("dropped a client that did not read its answer"),
    };
    if let Err(error) = ended {
        tracing::debug!("a connection failed: {error}");
    }
}
