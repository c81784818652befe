//! A restart of the simulated runtime.

use std::time::Duration;

use cri::v1;
use futures_util::StreamExt;
use pleg::runtime::{CallError, Rpc, Runtime};
use sim::{Fault, Sim};
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::served::Served;

const TIMEOUT: Duration = Duration::from_secs(20);

fn node() -> Sim {
    let sim = Sim::new();
    sim.run("web", &["nginx"]);
    sim
}

fn unavailable<T>(result: Result<T, CallError>) -> String {
    match result.err() {
        Some(CallError::Unavailable(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_fails_outstanding_calls_and_for_a_time_all_new_ones() {
    let sim = node();
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    sim.fault(
        Rpc::Version,
        None,
        Fault::Slow(Duration::from_secs(60 * 60)),
    );
    let mut stream = sim.announcements().await.unwrap();
    let (list, version, ()) = tokio::join!(sim.list_containers(), sim.version(), async {
        sleep(Duration::from_secs(5)).await;
        sim.restart(Duration::from_secs(3));
    });
    assert_eq!(unavailable(list), "connection reset by peer");
    assert_eq!(unavailable(version), "connection reset by peer");
    assert!(stream.next().await.is_none());

    let down = Instant::now();
    while let Err(error) = sim.list_sandboxes().await {
        assert_eq!(unavailable::<()>(Err(error)), "connection refused");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(down.elapsed(), Duration::from_secs(3));
    assert_eq!(sim.list_sandboxes().await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn on_a_socket_connections_drop_and_after_the_restart_the_node_is_unchanged() {
    let sim = node();
    sim.fault(Rpc::ContainerStatus, None, Fault::Hang);
    let served = Served::new(&sim);
    let mut events = served.events().await.unwrap();
    let hung = served.container_status("web/nginx.0");
    tokio::pin!(hung);
    let beginning = timeout(Duration::from_millis(100), &mut hung).await;
    assert!(beginning.is_err());

    sim.lift_all();
    sim.fault(Rpc::ContainerStatus, None, Fault::Hang);
    let down = Duration::from_secs(1);
    let begun = Instant::now();
    sim.restart(down);
    timeout(TIMEOUT, hung).await.unwrap().unwrap_err();
    let end = timeout(TIMEOUT, events.message()).await.unwrap();
    assert!(!matches!(end, Ok(Some(_))), "{end:?}");
    let refused = std::os::unix::net::UnixStream::connect(served.endpoint.path());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    sim.lift(Rpc::ContainerStatus, None);
    loop {
        match served.container_status("web/nginx.0").await {
            Ok(status) => break assert_eq!(status.id, "web/nginx.0"),
            Err(error) => assert_eq!(error.code(), Code::Unavailable, "{error}"),
        }
        assert!(begun.elapsed() < TIMEOUT);
        sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() >= down);

    let mut events = served.events().await.unwrap();
    sim.exit("web", "nginx", 1);
    let event: v1::ContainerEventResponse = events.message().await.unwrap().unwrap();
    assert_eq!(event.container_id, "web/nginx.0");
}
