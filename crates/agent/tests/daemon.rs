//! The whole daemon in this process, queried by the client.

mod node;

use std::time::Duration;

use agent::{AgentChoice, AgentClient, AgentConfig, ClientError};
use cri::Endpoint;
use node::Node;
use pleg::model::event::EventType;
use pleg::out::record::Record;
use pleg::runtime::Rpc;
use pleg_text::GoDuration;
use tokio::time::{sleep, timeout};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

async fn up() -> Node {
    let config = AgentConfig {
        relist_period: GoDuration(Duration::from_millis(50)),
        ..AgentConfig::default()
    };
    Node::up(&["web"], config).await
}

/// A client, once the daemon has observed the pods.
async fn client_of(node: &Node) -> AgentClient {
    let choice = AgentChoice::Named(node.socket().into());
    loop {
        let found = AgentClient::find(&choice, None).await.unwrap();
        let (client, status) = found.expect("it is named");
        if status.relist.count > 0 {
            return client;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_client_learns_what_the_daemon_knows_and_what_happens() {
    let node = up().await;
    let client = client_of(&node).await;
    let pods = client.pods().await.unwrap();
    assert_eq!(pods.len(), 1);
    assert_eq!((&*pods[0].status.name, &pods[0].error), ("web", &None));

    let mut events = client.events().await.unwrap();
    while !matches!(events.next().await, Some(Record::Synced { pods: 1, .. })) {}
    node.sim.exit("web", "app", 3);
    let died = async {
        loop {
            match events.next().await.expect("it goes on") {
                Record::Event(event) if event.event_type == EventType::ContainerDied => {
                    return event;
                }
                _ => {}
            }
        }
    };
    let died = timeout(TEST_TIMEOUT, died).await.unwrap();
    assert_eq!(died.exit_code, Some(3));
}

#[tokio::test]
async fn a_client_requests_a_relist_long_before_the_next_one_is_due() {
    let config = AgentConfig {
        relist_period: GoDuration(Duration::from_secs(60)),
        ..AgentConfig::default()
    };
    let node = Node::up(&["web"], config).await;
    let client = client_of(&node).await;
    let lists = || node.sim.calls_made(Rpc::ListContainers);
    for _ in 0..2 {
        let before = lists();
        client.relist().await.unwrap();
        let relists = async {
            while lists() == before {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(TEST_TIMEOUT, relists).await.unwrap();
    }
}

#[tokio::test]
async fn a_shutdown_ends_event_streams_and_removes_the_socket() {
    let node = up().await;
    let mut events = client_of(&node).await.events().await.unwrap();
    let socket = node.socket();
    node.shutdown.send(()).unwrap();
    timeout(TEST_TIMEOUT, node.daemon)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let end = async { while events.next().await.is_some() {} };
    timeout(TEST_TIMEOUT, end).await.unwrap();
    assert!(!socket.exists());
    let choice = AgentChoice::Named(socket.into());
    let gone = AgentClient::find(&choice, None).await.unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone}");
}

#[tokio::test]
async fn an_agent_that_watches_another_runtime_is_refused() {
    let node = up().await;
    let other = Endpoint::new("/run/other.sock");
    let choice = AgentChoice::Named(node.socket().into());
    let refused = AgentClient::find(&choice, Some(&other)).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::OtherRuntime { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn the_known_ids_are_saved_for_the_next_start() {
    let node = up().await;
    let endpoint = Endpoint::new(node.place.path().join("runtime.sock"));
    let ids = agent::known_ids(&endpoint, &node.place.path().join("state"));
    let saved = async {
        while ids().await.is_none_or(|ids| ids.len() < 2) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, saved).await.unwrap();
}
