//! The daemon records what it observes, whatever the disk does.

mod node;

use std::path::Path;
use std::time::{Duration, Instant};

use agent::{AgentConfig, HistoryConfig, HistoryFolder};
use node::Node;
use pleg::model::event::EventType;
use pleg::out::health::Reason;
use pleg::out::record::Record;
use pleg_text::GoDuration;
use recorder::store::{Range, read};
use recorder::{Entry, Published, Recorded};
use tokio::time::{sleep, timeout};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

fn config(history: HistoryConfig) -> AgentConfig {
    AgentConfig {
        relist_period: GoDuration(Duration::from_millis(50)),
        history,
        ..AgentConfig::default()
    }
}

fn recorded(folder: &Path) -> Vec<Entry> {
    match read(folder, Range::default()) {
        Ok(entries) => entries.collect(),
        Err(_) => Vec::new(),
    }
}

async fn until(what: impl Fn() -> bool) {
    let until = async {
        while !what() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, until).await.unwrap();
}

async fn end(node: Node) {
    node.shutdown.send(()).unwrap();
    let began = Instant::now();
    timeout(TEST_TIMEOUT, node.daemon)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn what_happens_is_on_the_disk_when_it_has_happened() {
    let node = Node::up(&["web", "db"], config(HistoryConfig::default())).await;
    let folder = node.place.path().join("history");
    let has = |wanted: &dyn Fn(&Recorded) -> bool| {
        recorded(&folder).iter().any(|entry| wanted(&entry.what))
    };
    until(|| has(&|what| matches!(what, Recorded::Pods(pods) if pods.len() == 2))).await;
    let Recorded::Began(began) = &recorded(&folder)[0].what else {
        panic!("it does not begin");
    };
    assert!(began.endpoint.ends_with("runtime.sock") && !began.guard);

    node.sim.exit("web", "app", 3);
    let is_death = |what: &Recorded| {
        matches!(what, Recorded::Published(Published { record: Record::Event(event), happened: Some(_) })
            if event.event_type == EventType::ContainerDied && event.exit_code == Some(3))
    };
    until(|| has(&is_death)).await;

    node.sim.status_lock("db", "app");
    let is_stuck = |what: &Recorded| {
        matches!(what, Recorded::Status(status)
            if status.report.health.reason == Reason::ContainerStuck
                && status.report.stuck.iter().any(|call| call.container.is_some()))
    };
    until(|| has(&is_stuck)).await;
    let is_recorded = |what: &Recorded| {
        matches!(what, Recorded::Published(Published { record: Record::Health(health), .. })
            if health.reason == Reason::ContainerStuck)
    };
    assert!(has(&is_recorded));
    let initial = |what: &Recorded| matches!(what, Recorded::Published(Published { record: Record::Event(event), .. }) if event.initial);
    assert!(!has(&initial), "what was there before is recorded as pods");

    // The folder is removed when `_place` is dropped.
    let Node {
        shutdown,
        daemon,
        place: _place,
        ..
    } = node;
    shutdown.send(()).unwrap();
    daemon.await.unwrap().unwrap();
    let entries = recorded(&folder);
    assert_eq!(entries.last().unwrap().what, Recorded::Ended);
}

#[tokio::test]
async fn no_history_is_recorded_if_that_is_off() {
    let node = Node::up(&["web"], config(HistoryConfig::Off)).await;
    sleep(Duration::from_secs(2)).await;
    assert!(!node.place.path().join("history").exists());
    end(node).await;
}

#[tokio::test]
async fn a_disk_that_hangs_holds_up_neither_events_nor_a_shutdown() {
    let place = tempfile::tempdir().unwrap();
    // A process that opens this pipe for writing waits until another process reads.
    let lock = place.path().join("lock");
    let made = std::process::Command::new("mkfifo").arg(&lock).status();
    assert!(made.unwrap().success());
    let history = HistoryConfig::On(HistoryFolder {
        directory: place.path().to_owned(),
        ..HistoryFolder::default()
    });
    let node = Node::up(&["web"], config(history)).await;
    sleep(Duration::from_millis(500)).await;
    let choice = agent::AgentChoice::Named(node.socket().into());
    let found = agent::AgentClient::find(&choice, None).await.unwrap();
    let (client, _) = found.expect("it is named");
    let mut events = client.events().await.unwrap();
    while !matches!(events.next().await, Some(Record::Synced { .. })) {}
    node.sim.exit("web", "app", 3);
    let died = async {
        loop {
            match events.next().await.expect("it goes on") {
                Record::Event(event) if event.event_type == EventType::ContainerDied => return,
                _ => {}
            }
        }
    };
    timeout(TEST_TIMEOUT, died).await.unwrap();
    end(node).await;
    // Unblocks the thread.
    drop(std::fs::File::open(&lock));
}
