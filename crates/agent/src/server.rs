//! Serving HTTP to whoever may come: connections are bounded in number, and each in time.
//!
//! ```text
//!   a place is free --> accept --> header (5 s) --> one answer (30 s in all) --> closed
//!                                                     |  it is Endless
//!                                                     v
//!                                                   for as long as it is read
//! ```
//!
//! A connection carries one request, so none is kept for later by somebody who says nothing.
//! Those who find no place wait for one in the kernel's queue.

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
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many connections loopback takes at once; at most half of them are event streams.
pub const LOOPBACK_CONNECTIONS: usize = 256;

/// How many connections the address for Prometheus takes at once.
pub const METRICS_CONNECTIONS: usize = 64;

/// How long a client may take to say what it wants.
const HEADER: Duration = Duration::from_secs(5);

/// How long a connection may last in all, unless its answer is [`Endless`].
const LONGEST: Duration = Duration::from_secs(30);

/// How much of a request or an answer is kept for a connection; the kernel keeps the rest.
const BUFFER: usize = 16 << 10;

/// Marks, as an extension, an answer that goes on for as long as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Endless;

/// Answers for ever, at most `most` connections at once.
pub async fn serve(mut listener: impl Listener, router: Router, most: usize) -> Infallible {
    let places = Arc::new(Semaphore::new(most));
    loop {
        let place = places.clone().acquire_owned().await;
        let place = place.expect("nobody closes it");
        let (stream, _) = listener.accept().await;
        let router = router.clone();
        tokio::spawn(async move {
            converse(stream, router).await;
            drop(place);
        });
    }
}

/// One connection, from its first byte to its end.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let endless = Arc::new(AtomicBool::new(false));
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        let answer = router.call(request);
        let endless = endless.clone();
        async move {
            let answer = answer.await?;
            let mark = answer.extensions().get::<Endless>();
            endless.store(mark.is_some(), Ordering::Relaxed);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .keep_alive(false)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = match timeout(LONGEST, &mut connection).await {
        Ok(ended) => ended,
        Err(_) if endless.load(Ordering::Relaxed) => connection.await,
        Err(_) => return tracing::debug!("a client that did not read its answer is left"),
    };
    if let Err(error) = ended {
        tracing::debug!("a connection was broken: {error}");
    }
}
