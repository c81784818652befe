//! The status lock, as measured with containerd 1.7.24.

use std::time::Duration;

use futures_util::StreamExt;
use pleg::model::id::Id;
use pleg::runtime::Runtime;
use sim::{Fault, Rpc, Sim};
use tokio::time::timeout;

/// A call that does not return within this time hangs.
const HANGS_AFTER: Duration = Duration::from_secs(600);

fn two_pods() -> Sim {
    let sim = Sim::new();
    sim.run("db", &["postgres"]);
    sim.run("web", &["nginx"]);
    sim
}

async fn hangs<T>(call: impl Future<Output = T>) -> bool {
    timeout(HANGS_AFTER, call).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_status_lock_hangs_only_the_list_and_one_status_call() {
    let sim = two_pods();
    sim.status_lock("db", "postgres");
    let locked = Id::from("db/postgres.0");
    assert!(hangs(sim.list_containers()).await);
    assert!(hangs(sim.container_status(&locked)).await);
    let other = Id::from("web/nginx.0");
    assert!(!hangs(sim.container_status(&other)).await);
    assert!(!hangs(sim.list_sandboxes()).await);
    assert!(!hangs(sim.sandbox_status(&"db.0".into())).await);
    assert!(!hangs(sim.version()).await);
    sim.status_unlock("db", "postgres");
    assert!(!hangs(sim.list_containers()).await);
    assert!(!hangs(sim.container_status(&locked)).await);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_the_lock_continues_when_it_is_released() {
    let sim = two_pods();
    sim.status_lock("db", "postgres");
    let (listed, ()) = tokio::join!(sim.list_containers(), async {
        tokio::time::sleep(HANGS_AFTER).await;
        sim.status_unlock("db", "postgres");
    });
    assert_eq!(listed.unwrap().rows.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn under_the_lock_no_events_are_sent_until_it_is_released() {
    let sim = two_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.status_lock("db", "postgres");
    sim.exit("web", "nginx", 1);
    assert!(hangs(stream.next()).await);
    sim.lift_all();
    let event = stream.next().await.unwrap().unwrap();
    assert_eq!(event.id, "web/nginx.0".into());
    assert_eq!(event.created_at, Some(sim.now()), "the time of the release");
}

#[tokio::test(start_paused = true)]
async fn releasing_the_lock_does_not_lift_other_faults() {
    let sim = two_pods();
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    sim.status_lock("db", "postgres");
    sim.status_unlock("db", "postgres");
    assert!(hangs(sim.list_containers()).await);
}
