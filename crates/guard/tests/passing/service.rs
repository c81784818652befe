//! The guard's own gRPC service on its socket.

use std::time::Duration;

use bytes::Bytes;
use guard_api::{Error, Mode, OBSERVER, Phase, StatusRequest};
use tokio::time::{Instant, timeout};

use crate::wire::{Behind, Reply, Seen, framed, request};
use crate::{METHODS, SECOND};

/// Enforces G13.
#[tokio::test]
async fn the_guard_serves_its_status_and_mode_without_a_runtime() {
    let behind = Behind::start().await;
    behind.stop().await;
    let service = behind.service();
    let status = async || {
        let status = service.status(StatusRequest::default(), SECOND).await;
        status.unwrap()
    };
    let first = status().await;
    assert_eq!((first.mode(), first.phase()), (Mode::Guard, Phase::Passing));
    assert!(first.runtime.ends_with("runtime.sock"), "{}", first.runtime);
    assert!(first.socket.ends_with("guard.sock"), "{}", first.socket);
    for mode in [Mode::Shadow, Mode::Pass, Mode::Guard] {
        behind.switch(mode).await;
        assert_eq!(status().await.mode(), mode);
    }
    assert!(status().await.revision >= first.revision + 3);
    let none = service.set_mode(Mode::Unspecified, SECOND).await;
    assert!(matches!(none, Err(Error::Refused { .. })), "{none:?}");
}

#[tokio::test]
async fn a_client_that_has_the_current_status_is_answered_once_it_changes() {
    let behind = Behind::start().await;
    let service = behind.service();
    let seen = service.status(StatusRequest::default(), SECOND).await;
    let request = StatusRequest {
        seen: seen.unwrap().revision,
        reach: false,
    };
    let waiting = {
        let service = service.clone();
        tokio::spawn(async move { service.status(request, SECOND * 10).await.unwrap() })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished(), "nothing has changed");
    behind.switch(Mode::Shadow).await;
    let status = timeout(SECOND * 3, waiting).await.unwrap().unwrap();
    assert_eq!(status.mode(), Mode::Shadow);
}

#[tokio::test]
async fn the_status_has_the_reason_why_the_runtime_is_unreachable() {
    let behind = Behind::start().await;
    let service = behind.service();
    let reach = StatusRequest {
        reach: true,
        ..StatusRequest::default()
    };
    let reached = service.status(reach.clone(), SECOND * 5).await.unwrap();
    assert_eq!(reached.unreachable, None);
    behind.stop().await;
    let unreachable = service.status(reach, SECOND * 5).await.unwrap();
    let why = unreachable.unreachable.unwrap();
    let error = std::io::Error::from_raw_os_error(why.errno);
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{why:?}");
}

#[tokio::test]
async fn an_unknown_method_of_the_guards_service_is_not_passed_on_to_the_runtime() {
    let behind = Behind::start().await;
    let (_, mut guarded) = behind.both().await;
    behind.replies_with(Reply::good(Bytes::from_static(b"the runtime's")));
    let call = request("/pleg.guard.v1.Guard/Other", framed(b""), &[]);
    let seen = Seen::of(guarded.send(call).await).await;
    assert_eq!(seen.code().as_deref(), Some("12"));
}

/// Enforces G14.
#[tokio::test]
async fn only_observers_lose_their_connection_with_the_one_to_the_runtime() {
    let behind = Behind::start().await;
    let (_, mut observer) = behind.both().await;
    let (_, mut client) = behind.both().await;
    behind.replies_with(Reply::good(Bytes::from_static(b"quick")));
    for path in METHODS {
        let call = request(path, framed(b"\n\x01q"), &[OBSERVER]);
        let seen = Seen::of(observer.send(call).await).await;
        assert_eq!(seen.body, b"quick"[..], "{path}");
        let seen = Seen::of(client.send(request(path, framed(b""), &[])).await).await;
        assert_eq!(seen.body, b"quick"[..], "{path}");
    }
    behind.stop().await;
    let stopped = Instant::now();
    while !observer.is_closed() {
        assert!(stopped.elapsed() < SECOND * 5, "it ends");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seen = Seen::of(client.send(request(METHODS[0], framed(b""), &[])).await).await;
    assert_eq!(seen.code().as_deref(), Some("14"), "it is answered");
}
