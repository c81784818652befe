//! The server's bounds, in virtual time.

mod network;

use std::io;
use std::time::Duration;

use agent::server::Endless;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::stream;
use network::Network;
use tokio::io::AsyncReadExt;
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

/// For how long a connection lasts after this was sent, and what came until then.
async fn lasts(network: &Network, asked: &[u8]) -> (Duration, String) {
    let begun = Instant::now();
    let mut stream = network.send(asked).await;
    let mut said = Vec::new();
    // A connection that is cut is at its end too.
    let _ = stream.read_to_end(&mut said).await;
    (begun.elapsed(), String::from_utf8(said).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_header_that_does_not_come_is_waited_for_five_seconds() {
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

#[tokio::test(start_paused = true)]
async fn those_who_find_no_place_are_answered_later() {
    let network = network_with_places(2);
    let _silent = [network.send(b"").await, network.send(b"").await];
    let (lasted, said) = lasts(&network, ASK).await;
    assert!(said.ends_with("well\n"), "{said}");
    assert!((5..6).contains(&lasted.as_secs()), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_is_given_up() {
    let network = network_with_places(1);
    let begun = Instant::now();
    let _unread = network.send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let (_, said) = lasts(&network, ASK).await;
    assert!(said.ends_with("well\n"), "{said}");
    assert!((30..31).contains(&begun.elapsed().as_secs()));
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
