//! Behaviour of other runtimes: a stop, exits that are reported late or only by the status, floods; and
//! how calls are counted.

use std::time::Duration;

use futures_util::StreamExt;
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::runtime::{Announcements, Runtime};
use sim::{Fault, Flood, Rpc, Sim};
use tokio::time::{Instant, sleep, timeout};

use crate::served::Served;

/// A call that does not return within this time hangs.
const HANGS_AFTER: Duration = Duration::from_secs(600);

fn node() -> Sim {
    let sim = Sim::new();
    sim.run("web", &["app"]);
    sim.run("db", &["main"]);
    sim
}

async fn hangs<T>(call: impl Future<Output = T>) -> bool {
    timeout(HANGS_AFTER, call).await.is_err()
}

async fn events(stream: &mut Announcements) -> usize {
    let mut events = 0;
    while let Ok(Some(_)) = timeout(Duration::from_millis(1), stream.next()).await {
        events += 1;
    }
    events
}

#[tokio::test(start_paused = true)]
async fn a_stopped_runtime_answers_no_call_and_sends_its_events_when_it_continues() {
    let sim = node();
    let mut stream = sim.announcements().await.unwrap();
    let slow = Fault::Slow(Duration::from_secs(1));
    sim.fault(Rpc::ContainerStatus, None, slow);
    let call = tokio::spawn({
        let sim = sim.clone();
        async move { sim.container_status(&"web/app.0".into()).await }
    });
    sleep(Duration::from_millis(500)).await;
    sim.stop();
    sim.exit("web", "app", 3);
    assert!(hangs(sim.version()).await);
    assert!(hangs(sim.list_containers()).await);
    assert!(hangs(stream.next()).await);
    assert!(!call.is_finished(), "a slow call hangs too");
    sim.resume();
    assert_eq!(call.await.unwrap().unwrap().exit_code, Some(3));
    assert_eq!(events(&mut stream).await, 1);
    assert_eq!(sim.list_containers().await.unwrap().rows.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unlisted_exit_is_reported_only_by_the_status() {
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
async fn an_exit_code_may_be_reported_late() {
    let sim = node();
    let late = Duration::from_secs(3);
    sim.exit_with_delayed_code("web", "app", 143, late);
    let code = async || {
        let status = sim.container_status(&"web/app.0".into()).await.unwrap();
        status.exit_code
    };
    assert_eq!(code().await, Some(-1));
    sleep(late).await;
    assert_eq!(code().await, Some(143));
}

#[tokio::test]
async fn on_a_socket_the_behaviour_is_the_same() {
    let sim = node();
    let served = Served::new(&sim);
    sim.exit_with_delayed_code("web", "app", 143, HANGS_AFTER);
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
    assert_eq!(states, [running, exited], "the exit of db is not listed");
    sim.stop();
    let version = served.version(cri::ApiVersion::V1);
    assert!(timeout(Duration::from_millis(200), version).await.is_err());
    sim.resume();
    served.version(cri::ApiVersion::V1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_flood_sends_the_given_number_of_events_and_changes_no_pod() {
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
async fn jitter_varies_within_its_bounds() {
    let sim = node();
    let (min, max) = (Duration::from_secs(1), Duration::from_secs(3));
    sim.fault_everything(&Fault::Jitter(min, max));
    let mut took = Vec::new();
    for _ in 0..50 {
        let start = Instant::now();
        sim.version().await.unwrap();
        took.push(start.elapsed());
    }
    let tick = Duration::from_millis(1);
    assert!(took.iter().all(|it| (min..=max + tick).contains(it)));
    took.sort();
    assert!(took[40] - took[10] > Duration::from_millis(500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn each_outstanding_call_shows_its_id_its_age_and_whether_its_id_has_a_fault() {
    let sim = node();
    sim.status_lock("web", "app");
    let began = Instant::now();
    let request = |id: &str| {
        let (sim, id) = (sim.clone(), Id::from(id));
        tokio::spawn(async move { sim.container_status(&id).await })
    };
    let _locked = request("web/app.0");
    sleep(Duration::from_secs(1)).await;
    sim.stop();
    let _stopped = request("db/main.0");
    sleep(Duration::from_secs(1)).await;
    let outstanding = sim.outstanding();
    let facts: Vec<_> = outstanding
        .iter()
        .map(|call| (call.id.as_ref().unwrap().as_str(), call.has_own_fault))
        .collect();
    assert_eq!(facts, [("web/app.0", true), ("db/main.0", false)]);
    assert_eq!(outstanding[0].since, began);
    assert_eq!(outstanding[1].since, began + Duration::from_secs(1));
    sim.lift_all();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.outstanding(), []);
    assert_eq!(sim.max_outstanding(), 2);
    assert_eq!(sim.max_outstanding_per_id(), 1);
}
