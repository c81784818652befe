//! The server's bounds, in virtual time.

mod network;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::Endless;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::stream;
use network::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

const ASK: &[u8] = b"GET /answer HTTP/1.1\r\nHost: a\r\n\r\n";

fn network_with_places(places: usize) -> Network {
    let router = Router::new()
        .route("/answer", get(async || "well\n"))
        .route("/long", get(async || "x".repeat(1 << 20)))
        .route("/endless", get(endless));
    Network::of(router, places)
}

/// A line every ten seconds.
async fn endless() -> impl IntoResponse {
    let lines = stream::unfold((), |()| async {
        sleep(Duration::from_secs(10)).await;
        Some((Ok::<_, io::Error>(Bytes::from_static(b"line\n")), ()))
    });
    (Extension(Endless), Body::from_stream(lines))
}

/// How long a connection lasts after this was sent, and what it received until then.
async fn lasts(network: &Network, asked: &[u8]) -> (Duration, String) {
    let begun = Instant::now();
    let mut stream = network.send(asked).await;
    let mut said = Vec::new();
    // A connection that is cut off has ended, too.
    let _ = stream.read_to_end(&mut said).await;
    (begun.elapsed(), String::from_utf8(said).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_header_that_does_not_arrive_is_waited_for_five_seconds() {
    let network = network_with_places(8);
    for beginning in ["", "GET /ans", "GET /answer HTTP/1.1\r\nHost: a\r\n"] {
        let (lasted, said) = lasts(&network, beginning.as_bytes()).await;
        assert!(
            (5..6).contains(&lasted.as_secs()),
            "{beginning:?}: {lasted:?}"
        );
        assert!(!said.contains("200 OK"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_with_its_answer() {
    let network = network_with_places(8);
    let (lasted, said) = lasts(&network, ASK).await;
    assert!(
        said.starts_with("HTTP/1.1 200 OK") && said.ends_with("well\n"),
        "{said}"
    );
    assert!(said.contains("connection: close"), "{said}");
    assert!(lasted < Duration::from_secs(1), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_far_longer_than_the_buffers_arrives_whole() {
    let network = network_with_places(8);
    let (_, said) = lasts(&network, b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let (_, body) = said.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.len(), 1 << 20);
}

const ASK_FOR_MUCH: &[u8] = b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n";

/// How long the server may be busy with other clients before it answers, whatever they do.
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_thousand_idle_connections_do_not_starve_one_that_asks() {
    for beginning in ["", "GET /ans", "GET /answer HTTP/1.1\r\nHost: a\r\n"] {
        let network = network_with_places(64);
        let mut idle = Vec::new();
        for _ in 0..1000 {
            idle.push(network.send(beginning.as_bytes()).await);
        }
        let (lasted, said) = lasts(&network, ASK).await;
        assert!(said.ends_with("well\n"), "{beginning:?}: {said}");
        assert!(lasted < SECOND, "{beginning:?}: {lasted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn headers_that_arrive_byte_by_byte_do_not_starve_other_clients() {
    let network = Arc::new(network_with_places(8));
    for _ in 0..50 {
        let network = network.clone();
        tokio::spawn(async move {
            // Again and again, like an attacker.
            loop {
                let mut stream = network.send(b"G").await;
                while stream.write_all(b"x").await.is_ok() {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        });
    }
    for _ in 0..20 {
        sleep(Duration::from_millis(137)).await;
        let (lasted, said) = lasts(&network, ASK).await;
        assert!(said.ends_with("well\n"), "{said}");
        assert!(lasted < SECOND, "{lasted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_do_not_read_their_answers_give_way_when_others_wait() {
    let network = network_with_places(8);
    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(network.send(ASK_FOR_MUCH).await);
    }
    let (lasted, said) = lasts(&network, ASK).await;
    assert!(said.ends_with("well\n"), "{said}");
    assert!(lasted < SECOND, "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_preferred_to_idle_connections_and_the_oldest_leaves_first() {
    let network = network_with_places(3);
    let reader = network.send(ASK_FOR_MUCH).await;
    let mut oldest = network.send(b"").await;
    let _youngest = network.send(b"").await;
    sleep(SECOND).await;
    let (lasted, said) = lasts(&network, ASK).await;
    assert!(said.ends_with("well\n"), "{said}");
    assert!(lasted < Duration::from_millis(1), "{lasted:?}");
    assert!(is_closed(&mut oldest).await);
    let mut rest = Vec::new();
    let mut reader = reader;
    reader.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > 1 << 20, "the answer arrives whole");
}

async fn is_closed(stream: &mut DuplexStream) -> bool {
    let read = timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_is_answered_while_places_are_free() {
    let network = network_with_places(2);
    let mut slow = network.send(b"GET /answer HTTP/1.1\r\n").await;
    sleep(Duration::from_secs(4)).await;
    slow.write_all(b"Host: a\r\n\r\n").await.unwrap();
    let mut said = String::new();
    slow.read_to_string(&mut said).await.unwrap();
    assert!(said.ends_with("well\n"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_given_up() {
    let network = network_with_places(2);
    let mut unread = network.send(ASK_FOR_MUCH).await;
    sleep(Duration::from_secs(31)).await;
    let mut read = Vec::new();
    // What was already sent arrives, and then the connection ends.
    let _ = unread.read_to_end(&mut read).await;
    assert!(read.len() < 1 << 20, "{}", read.len());
}

#[tokio::test(start_paused = true)]
async fn all_connections_end_with_the_server() {
    let (server, network) = Network::with_server(Router::new(), 8);
    let mut idle = network.send(b"").await;
    sleep(Duration::from_millis(1)).await;
    server.abort();
    sleep(Duration::from_millis(1)).await;
    assert!(is_closed(&mut idle).await);
}

#[tokio::test(start_paused = true)]
async fn an_endless_answer_lasts_for_hours_and_ends_with_its_reader() {
    let network = network_with_places(1);
    let mut stream = network
        .send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    let begun = Instant::now();
    let mut lines = 0;
    while begun.elapsed() < Duration::from_secs(3 * 3600) {
        let mut some = [0; 4096];
        let read = stream.read(&mut some).await.unwrap();
        assert_ne!(read, 0, "ended after {:?}", begun.elapsed());
        lines += some[..read]
            .windows(5)
            .filter(|text| text == b"line\n")
            .count();
    }
    assert!(lines > 1000, "{lines}");

    let waiting = timeout(Duration::from_secs(60), lasts(&network, ASK)).await;
    assert!(waiting.is_err(), "the only place is taken");
    drop(stream);
    let (_, said) = lasts(&network, ASK).await;
    assert!(said.ends_with("well\n"), "{said}");
}
