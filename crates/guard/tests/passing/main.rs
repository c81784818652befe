//! Calls that are passed on are not changed: any method, any bytes, any end of a call.

mod service;
mod twins;
mod wire;

use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use guard_api::Mode;
use hyper::body::Body as _;
use tokio::time::timeout;
use wire::{Behind, Reply, Seen, connect, request};

const SECOND: Duration = Duration::from_secs(1);

/// Methods on which the core decides, other methods of CRI, and unknown ones.
const METHODS: [&str; 9] = [
    "/runtime.v1.RuntimeService/ListContainers",
    "/runtime.v1.RuntimeService/ContainerStatus",
    "/runtime.v1.RuntimeService/CreateContainer",
    "/runtime.v1.RuntimeService/Version",
    "/runtime.v1.RuntimeService/ExecSync",
    "/runtime.v1.ImageService/PullImage",
    "/runtime.v1alpha2.RuntimeService/ListContainers",
    "/runtime.v1.RuntimeService/OfNextYear",
    "/other.service.v7.Something/Else",
];

fn bytes(rng: &mut Rng, max_length: usize) -> Bytes {
    let length = rng.usize(0..=max_length);
    let random = std::iter::repeat_with(|| rng.u8(..));
    random.take(length).collect::<Vec<u8>>().into()
}

fn random_reply(rng: &mut Rng) -> Reply {
    let word = |rng: &mut Rng| -> String {
        let letters = std::iter::repeat_with(|| rng.lowercase());
        letters.take(8).collect()
    };
    let map = |rng: &mut Rng| {
        let names = (0..rng.usize(0..4)).map(|_| (format!("x-{}", word(rng)), word(rng)));
        names.collect::<Vec<_>>()
    };
    let mut trailers = map(rng);
    let code = rng.choice(["0", "0", "0", "2", "5", "14", "99"]).unwrap();
    trailers.push(("grpc-status".to_owned(), code.to_owned()));
    trailers.push(("grpc-status-details-bin".to_owned(), "CAUSAA".to_owned()));
    let is_trailers_only = rng.u8(0..5) == 0;
    let frames = match is_trailers_only {
        true => Vec::new(),
        false => (0..rng.usize(0..5)).map(|_| bytes(rng, 70_000)).collect(),
    };
    Reply {
        headers: map(rng),
        frames,
        trailers,
        is_trailers_only,
    }
}

/// Enforces G1.
#[tokio::test]
async fn every_answer_of_a_runtime_reaches_the_caller_unchanged() {
    let behind = Behind::start().await;
    let (mut direct, mut guarded) = behind.both().await;
    let mut rng = Rng::with_seed(7);
    for round in 0..400 {
        let path = rng.choice(METHODS).unwrap();
        behind.replies_with(random_reply(&mut rng));
        let body = match rng.bool() {
            // A message of random fields, or no message at all.
            true => wire::framed(&bytes(&mut rng, 5_000)),
            false => bytes(&mut rng, 5_000),
        };
        let of = |rng: &mut Rng| {
            request(
                path,
                body.clone(),
                &[("x-request", &rng.u8(..).to_string())],
            )
        };
        let mut same = rng.clone();
        let one = Seen::of(direct.send(of(&mut rng)).await).await;
        let sent_directly = behind.last_request();
        let other = Seen::of(guarded.send(of(&mut same)).await).await;
        assert_eq!(one, other, "round {round}: {path}");
        assert_eq!(
            sent_directly,
            behind.last_request(),
            "round {round}: {path}"
        );
    }
}

/// Enforces G1.
#[tokio::test]
async fn twenty_megabytes_are_passed_on_in_both_directions() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    let large = Bytes::from(vec![7u8; 20 << 20]);
    for path in METHODS {
        behind.replies_with(Reply::good(large.clone()));
        let seen = Seen::of(guarded.send(request(path, large.clone(), &[])).await).await;
        assert_eq!(seen.body.len(), large.len(), "{path}");
        assert_eq!(behind.last_request().body.len(), large.len(), "{path}");
    }
}

/// Enforces G8.
#[tokio::test]
async fn five_hundred_calls_that_hang_delay_no_other_call() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    behind.hangs_on("hang");
    let mut hung = Vec::new();
    for number in 0..500 {
        let path = METHODS[number % METHODS.len()];
        // Each request is different, so that none is shared.
        let body = wire::framed(format!("\n\x04{number:04}").as_bytes());
        let mut sender = guarded.clone();
        let call = request(path, body, &[("x-do", "hang")]);
        hung.push(tokio::spawn(async move { sender.send(call).await }));
    }
    timeout(SECOND * 20, behind.outstanding(500)).await.unwrap();
    behind.replies_with(Reply::good(Bytes::from_static(b"quick")));
    for path in METHODS {
        let call = guarded.send(request(path, wire::framed(b"\n\x01q"), &[]));
        let seen = timeout(SECOND * 5, call).await.expect("it is passed on");
        assert_eq!(Seen::of(seen).await.body, b"quick"[..], "{path}");
    }
    for call in &hung {
        call.abort();
    }
    timeout(SECOND * 20, behind.outstanding(0))
        .await
        .expect("the calls to the runtime are cancelled");
}

/// Enforces G8.
#[tokio::test]
async fn a_client_that_stops_reading_delays_no_other_client() {
    let behind = Behind::start().await;
    let (_, mut stopped) = behind.both().await;
    let large = Bytes::from(vec![7u8; 6 << 20]);
    behind.replies_with(Reply::good(large));
    let mut unread = Vec::new();
    for _ in 0..8 {
        let call = request("/runtime.v1.RuntimeService/ExecSync", Bytes::new(), &[]);
        unread.push(stopped.send(call).await);
    }
    // Wait until the windows of the client are full.
    tokio::time::sleep(SECOND / 2).await;
    behind.replies_with(Reply::good(Bytes::from_static(b"quick")));
    let (_, mut other) = behind.both().await;
    for path in METHODS {
        let call = async {
            Seen::of(
                other
                    .send(request(path, wire::framed(b"\n\x01q"), &[]))
                    .await,
            )
            .await
        };
        let seen = timeout(SECOND * 5, call).await.expect(path);
        assert_eq!(seen.body, b"quick"[..], "{path}");
    }
    drop(unread);
}

#[tokio::test]
async fn a_request_that_is_larger_than_any_runtime_accepts_is_refused() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    let endless = Bytes::from(vec![7u8; 81 << 20]);
    let call = request("/runtime.v1.RuntimeService/ListContainers", endless, &[]);
    let seen = Seen::of(guarded.send(call).await).await;
    assert_eq!(seen.code().as_deref(), Some("8"));
}

/// Enforces G1.
#[tokio::test]
async fn both_sides_of_a_stream_flow_at_once() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    behind.echoes_on("echo");
    let path = "/other.service.v7.Something/Else";
    let (sender, call) = wire::streaming_request(path, &[("x-do", "echo")]);
    let mut response = guarded.send(call).await;
    for word in ["one", "two", "three"] {
        sender.send(Bytes::from(word)).await.unwrap();
        let frame = timeout(SECOND * 5, wire::next_data(&mut response)).await;
        assert_eq!(frame.unwrap().unwrap(), word);
    }
    drop(sender);
    assert_eq!(
        wire::next_data(&mut response).await,
        None,
        "the end is passed on"
    );
}

#[tokio::test]
async fn calls_that_arrive_while_the_guard_connects_share_the_connection() {
    let behind = Behind::start().await;
    let (_, guarded) = behind.both().await;
    behind.replies_with(Reply::good(Bytes::from_static(b"quick")));
    let calls = (0..100).map(|number| {
        let mut sender = guarded.clone();
        let call = request(METHODS[number % METHODS.len()], wire::framed(b""), &[]);
        tokio::spawn(async move { Seen::of(sender.send(call).await).await.body })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), b"quick"[..]);
    }
    // One of the direct client, and three of the guard: for this client, for the core, and for its own
    // calls.
    assert!(behind.connections() <= 4, "{}", behind.connections());
}

#[tokio::test]
async fn every_reader_receives_each_event_from_one_shared_stream() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    let path = "/runtime.v1.RuntimeService/GetContainerEvents";
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(guarded.send(request(path, wire::framed(b""), &[])).await);
    }
    behind.outstanding(1).await;
    // A later reader begins with a whole message.
    let (one, two) = (wire::framed(b"\n\x03abc"), wire::framed(b"\n\x03def"));
    behind.send_events(one.slice(..4)).await;
    readers.push(guarded.send(request(path, wire::framed(b""), &[])).await);
    behind.send_events(one.slice(4..)).await;
    behind.send_events(two.clone()).await;
    for reader in &mut readers {
        for event in [&one, &two] {
            let received = timeout(SECOND * 5, wire::next_data(reader)).await.unwrap();
            assert_eq!(received.as_ref(), Some(event));
        }
    }
    drop(readers);
    timeout(SECOND * 10, behind.outstanding(0))
        .await
        .expect("the stream is closed after the last reader has left");
    let mut reader = guarded.send(request(path, wire::framed(b""), &[])).await;
    behind.outstanding(1).await;
    behind.stop().await;
    assert_eq!(
        wire::next_data(&mut reader).await,
        None,
        "the end is passed on"
    );
}

#[tokio::test]
async fn in_mode_pass_the_shared_stream_ends_and_each_reader_has_its_own() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    let path = "/runtime.v1.RuntimeService/GetContainerEvents";
    let mut readers = Vec::new();
    for _ in 0..2 {
        readers.push(guarded.send(request(path, wire::framed(b""), &[])).await);
    }
    timeout(SECOND * 5, behind.outstanding(1)).await.unwrap();
    behind.switch(Mode::Pass).await;
    for reader in &mut readers {
        let end = timeout(SECOND * 5, wire::next_data(reader)).await;
        assert_eq!(end.unwrap(), None);
    }
    timeout(SECOND * 5, behind.outstanding(0)).await.unwrap();
    // From now on each reader has its own stream.
    let mut readers = Vec::new();
    for _ in 0..2 {
        readers.push(guarded.send(request(path, wire::framed(b""), &[])).await);
    }
    timeout(SECOND * 5, behind.outstanding(2)).await.unwrap();
    behind.switch(Mode::Guard).await;
    for reader in &mut readers {
        let end = timeout(SECOND * 5, wire::next_data(reader)).await;
        assert_eq!(end.unwrap(), None, "the reader must open the shared stream");
    }
    timeout(SECOND * 5, behind.outstanding(0)).await.unwrap();
}

#[tokio::test]
async fn a_runtime_without_events_is_reported_in_the_headers_of_the_answer() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    behind.replies_with(Reply {
        is_trailers_only: true,
        ..Reply::default()
    });
    let path = "/runtime.v1.RuntimeService/GetContainerEvents";
    let response = guarded.send(request(path, wire::framed(b""), &[])).await;
    // A gRPC client treats any data after such headers as a broken stream.
    assert!(response.body().is_end_stream());
    assert_eq!(Seen::of(response).await.code().as_deref(), Some("12"));
}

/// Enforces G1.
#[tokio::test]
async fn a_reset_call_fails_alone_and_no_connection_is_lost() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    behind.hangs_on("hang");
    let body = wire::framed(b"\n\x01q");
    let mut sender = guarded.clone();
    let list = "/runtime.v1.RuntimeService/ListContainers";
    let hung = request(list, body.clone(), &[("x-do", "hang")]);
    let hung = tokio::spawn(async move { sender.send(hung).await });
    timeout(SECOND * 5, behind.outstanding(1)).await.unwrap();
    let connections = behind.connections();
    for path in METHODS {
        let reset = request(path, body.clone(), &[("x-do", "reset")]);
        let seen = timeout(SECOND * 5, guarded.send(reset)).await.expect(path);
        assert_eq!(Seen::of(seen).await.code().as_deref(), Some("13"), "{path}");
        behind.replies_with(Reply::good(Bytes::from_static(b"next")));
        let next = guarded.send(request(path, body.clone(), &[])).await;
        assert_eq!(Seen::of(next).await.body, b"next"[..], "{path}");
    }
    assert!(!hung.is_finished(), "the other call is still outstanding");
    // The first call on which the core does not decide opens one more connection.
    assert!(behind.connections() <= connections + 1);
    hung.abort();
}

#[tokio::test]
async fn calls_fail_while_the_runtime_is_unreachable_and_succeed_once_it_is_back() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    behind.stop().await;
    for path in METHODS {
        let seen = Seen::of(guarded.send(request(path, wire::framed(b""), &[])).await).await;
        assert_eq!(seen.code().as_deref(), Some("14"), "{path}");
    }
    behind.start_again().await;
    behind.replies_with(Reply::good(Bytes::from_static(b"back")));
    for path in METHODS {
        let seen = Seen::of(guarded.send(request(path, wire::framed(b""), &[])).await).await;
        assert_eq!(seen.body, b"back"[..], "{path}");
    }
    drop(connect(behind.guard_path()).await);
}
