//! The daemon behind a guard. Both run in this process.

mod node;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use agent::{AgentChoice, AgentClient, AgentConfig};
use cri::v1::{ListContainersRequest, ListContainersResponse};
use cri::{ApiVersion, Endpoint, Rpc};
use guard::core::{Mode, Settings};
use guard::{Handle, Proxy};
use node::Node;
use pleg::out::health::Reason;
use pleg::out::status_report::StatusReport;
use pleg_text::GoDuration;
use tokio::time::{sleep, timeout};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A guard in this folder, on a socket that outlives it, like one that systemd holds.
fn guard(place: &Path, socket: &UnixListener) -> Handle {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let proxy = Proxy {
        runtime: place.join("runtime.sock"),
        socket: place.join("cri.sock"),
        settings: Settings::default(),
        state: Some(place.join("rows")),
        ids: base::host::no_ids(),
        unix_nanos: now.unwrap().as_nanos().try_into().unwrap(),
    };
    let socket = socket.try_clone().unwrap();
    proxy.start(socket, Mode::Guard).unwrap()
}

/// Waits until the daemon reports a health with this reason.
async fn reported(client: &AgentClient, wanted: Reason) {
    while client.status().await.unwrap().health.reason != wanted {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Enforces O7.
#[tokio::test]
async fn a_guard_that_is_replaced_in_mid_fault_does_not_make_the_runtime_unreachable() {
    let place = tempfile::tempdir().unwrap();
    let socket = UnixListener::bind(place.path().join("cri.sock")).unwrap();
    let first = guard(place.path(), &socket);
    let node = Node::up_in(place, &["web", "shop"], AgentConfig::default()).await;
    let choice = AgentChoice::Named(node.socket().into());
    let (client, _) = AgentClient::find(&choice, None).await.unwrap().unwrap();
    let soon = async |wanted| {
        let reported = timeout(TEST_TIMEOUT, reported(&client, wanted)).await;
        reported.expect("it is reported");
    };
    soon(Reason::AllSeen).await;
    node.sim.status_lock("web", "app");
    soon(Reason::ContainerStuck).await;

    first.stop(TEST_TIMEOUT).await;
    let replaced = async {
        sleep(Duration::from_millis(200)).await;
        let next = guard(node.place.path(), &socket);
        sleep(Duration::from_secs(3)).await;
        next
    };
    tokio::select! {
        next = replaced => drop(next),
        () = reported(&client, Reason::RuntimeUnreachable) => panic!("it is reachable"),
    }
}

#[tokio::test]
async fn a_list_that_is_overdue_at_the_guard_is_requested_by_a_quiet_agent_too() {
    let place = tempfile::tempdir().unwrap();
    let socket = UnixListener::bind(place.path().join("cri.sock")).unwrap();
    let _guard = guard(place.path(), &socket);
    let rarely = AgentConfig {
        relist_period: GoDuration(Duration::from_secs(60)),
        relist_ceiling: GoDuration(Duration::from_secs(60)),
        ..AgentConfig::default()
    };
    let node = Node::up_in(place, &["web", "shop"], rarely).await;
    let choice = AgentChoice::Named(node.socket().into());
    let (client, _) = AgentClient::find(&choice, None).await.unwrap().unwrap();
    let soon = async |wanted| {
        let reported = timeout(Duration::from_secs(15), reported(&client, wanted)).await;
        reported.expect("it is reported");
    };
    soon(Reason::AllSeen).await;
    node.sim.status_lock("web", "app");
    let kubelet = cri::Client::new(&Endpoint::new(node.place.path().join("cri.sock")), 1 << 20);
    tokio::spawn(async move {
        let all = ListContainersRequest::default();
        let listed = kubelet
            .unary(ApiVersion::V1, Rpc::ListContainers, all)
            .await;
        listed.map(|_: ListContainersResponse| ())
    });
    let waits = |status: &StatusReport| {
        status
            .stuck
            .iter()
            .any(|call| call.call == Rpc::ListContainers)
    };
    let waits = async {
        while !waits(&client.status().await.unwrap()) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let waits = timeout(Duration::from_secs(15), waits).await;
    assert!(waits.is_ok(), "{:#?}", client.status().await);
}
