//! What other runtimes do: a stop of the whole, ends that are told late or in one place
//! only, floods; and what the node counts of its callers.

use std::time::Duration;

use futures_util::StreamExt;
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::runtime::{Announcements, Runtime};
use sim::{Fault, Flood, Rpc, Sim};
use tokio::time::{Instant, sleep, timeout};

use crate::served::Served;

const A_WHILE: Duration = Duration::from_secs(600);

fn node() -> Sim {
    let sim = Sim::new();
    sim.run("web", &["app"]);
    sim.run("db", &["main"]);
    sim
}

async fn hangs<T>(call: impl Future<Output = T>) -> bool {
    timeout(A_WHILE, call).await.is_err()
}

async fn events(stream: &mut Announcements) -> usize {
    let mut events = 0;
    while let Ok(Some(_)) = timeout(Duration::from_millis(1), stream.next()).await {
        events += 1;
    }
    events
}

#[tokio::test(start_paused = true)]
async fn a_stopped_runtime_answers_nothing_and_tells_the_rest_when_it_goes_on() {
    let sim = node();
    let mut stream = sim.announcements().await.unwrap();
    let slow = Fault::Slow(Duration::from_secs(1));
    sim.fault(Rpc::ContainerStatus, None, slow);
    let asked = tokio::spawn({
        let sim = sim.clone();
        async move { sim.container_status(&"web/app.0".into()).await }
    });
    sleep(Duration::from_millis(500)).await;
    sim.stop();
    sim.exit("web", "app", 3);
    assert!(hangs(sim.version()).await);
    assert!(hangs(sim.list_containers()).await);
    assert!(hangs(stream.next()).await);
    assert!(!asked.is_finished(), "what was merely slow hangs too");
    sim.go_on();
    assert_eq!(asked.await.unwrap().unwrap().exit_code, Some(3));
    assert_eq!(events(&mut stream).await, 1);
    assert_eq!(sim.list_containers().await.unwrap().rows.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_end_may_be_told_by_the_status_alone_until_the_container_starts_again() {
    let sim = node();
    sim.exit_unlisted("web", "app", 127);
    let listed = async || {
        let rows = sim.list_containers().await.unwrap().rows;
        let row = rows.iter().find(|row| row.id == "web/app.0".into());
        row.unwrap().state
    };
    assert_eq!(listed().await, ContainerState::Running);
    let status = sim.container_status(&"web/app.0".into()).await.unwrap();
    assert_eq!(status.state, ContainerState::Exited);
    assert_eq!(status.exit_code, Some(127));
    sim.world().container("web", "app").listed_as = None;
    assert_eq!(listed().await, ContainerState::Exited);
}

#[tokio::test(start_paused = true)]
async fn an_exit_code_may_be_known_late_on_the_wire_and_behind_the_trait() {
    let sim = node();
    let late = Duration::from_secs(3);
    sim.exit_with_late_code("web", "app", 143, late);
    let code = async || {
        let status = sim.container_status(&"web/app.0".into()).await.unwrap();
        status.exit_code
    };
    assert_eq!(code().await, Some(-1));
    sleep(late).await;
    assert_eq!(code().await, Some(143));
}

#[tokio::test]
async fn what_is_odd_is_odd_on_the_wire() {
    let sim = node();
    let served = Served::new(&sim);
    sim.exit_with_late_code("web", "app", 143, A_WHILE);
    sim.exit_unlisted("db", "main", 127);
    let status = served.container_status("web/app.0").await.unwrap();
    assert_eq!(status.exit_code, -1);
    let request = cri::v1::ListContainersRequest::default();
    let listed = served.call(Rpc::ListContainers, request).await;
    let listed: cri::v1::ListContainersResponse = listed.unwrap();
    let mut states: Vec<_> = listed.containers.iter().map(|row| row.state()).collect();
    states.sort();
    let (running, exited) = (
        cri::v1::ContainerState::ContainerRunning,
        cri::v1::ContainerState::ContainerExited,
    );
    assert_eq!(states, [running, exited], "db is listed as it was");
    sim.stop();
    let version = served.version(cri::ApiVersion::V1);
    assert!(timeout(Duration::from_millis(200), version).await.is_err());
    sim.go_on();
    served.version(cri::ApiVersion::V1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_as_many_events_as_it_says_and_changes_nothing() {
    let sim = node();
    let mut stream = sim.announcements().await.unwrap();
    sim.flood(Flood::UnknownIds, 1000);
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first.sandbox, None);
    assert_eq!(events(&mut stream).await, 999);
    sim.flood(Flood::UnknownPods, 1000);
    let first = stream.next().await.unwrap().unwrap();
    assert!(first.sandbox.is_some());
    let second = stream.next().await.unwrap().unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(events(&mut stream).await, 998);
    sim.flood(Flood::Known, 5);
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first.id, Id::from("db/main.0"));
    assert_eq!(events(&mut stream).await, 4);
    assert_eq!(sim.list_sandboxes().await.unwrap().rows.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn jitter_is_between_its_bounds_and_differs() {
    let sim = node();
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(3));
    sim.fault_everything(&Fault::Jitter(least, most));
    let mut took = Vec::new();
    for _ in 0..50 {
        let asked = Instant::now();
        sim.version().await.unwrap();
        took.push(asked.elapsed());
    }
    let late = Duration::from_millis(1);
    assert!(took.iter().all(|it| (least..=most + late).contains(it)));
    took.sort();
    assert!(took[40] - took[10] > Duration::from_millis(500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_known_who_waits_since_when_and_whether_by_a_fault_of_its_own() {
    let sim = node();
    sim.status_lock("web", "app");
    let began = Instant::now();
    let ask = |id: &str| {
        let (sim, id) = (sim.clone(), Id::from(id));
        tokio::spawn(async move { sim.container_status(&id).await })
    };
    let _locked = ask("web/app.0");
    sleep(Duration::from_secs(1)).await;
    sim.stop();
    let _stopped = ask("db/main.0");
    sleep(Duration::from_secs(1)).await;
    let outstanding = sim.outstanding();
    let facts: Vec<_> = outstanding
        .iter()
        .map(|call| (call.id.as_ref().unwrap().as_str(), call.by_its_own))
        .collect();
    assert_eq!(facts, [("web/app.0", true), ("db/main.0", false)]);
    assert_eq!(outstanding[0].since, began);
    assert_eq!(outstanding[1].since, began + Duration::from_secs(1));
    sim.lift_all();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.outstanding(), []);
    assert_eq!(sim.most_outstanding_in_all(), 2);
    assert_eq!(sim.most_outstanding(), 1);
}
