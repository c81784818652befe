//! The daemon behind a guard, which runs in this process too.

mod node;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use agent::{AgentChoice, AgentClient, AgentConfig};
use guard::core::{Mode, Settings};
use guard::{Handle, Proxy};
use node::Node;
use pleg::out::health::Reason;
use tokio::time::{sleep, timeout};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A guard in this folder, on a socket that outlives it, as systemd holds it.
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

/// Returns once the daemon reports a health for this reason.
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
