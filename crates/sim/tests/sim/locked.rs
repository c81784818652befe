//! The status lock, as it was measured of containerd 1.7.24.

use std::time::Duration;

use futures_util::StreamExt;
use pleg::model::id::Id;
use pleg::runtime::Runtime;
use sim::{Fault, Rpc, Sim};
use tokio::time::timeout;

const A_WHILE: Duration = Duration::from_secs(600);

fn two_pods() -> Sim {
    let sim = Sim::new();
    sim.run("db", &["postgres"]);
    sim.run("web", &["nginx"]);
    sim
}

async fn hangs<T>(call: impl Future<Output = T>) -> bool {
    timeout(A_WHILE, call).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_status_lock_hangs_the_list_and_one_status_and_nothing_else() {
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
async fn what_hung_by_the_lock_goes_on_when_it_is_given_back() {
    let sim = two_pods();
    sim.status_lock("db", "postgres");
    let (of, unlock) = tokio::join!(sim.list_containers(), async {
        tokio::time::sleep(A_WHILE).await;
        sim.status_unlock("db", "postgres");
    });
    let () = unlock;
    assert_eq!(of.unwrap().rows.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn under_the_lock_the_stream_is_silent_and_tells_the_rest_afterwards() {
    let sim = two_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.status_lock("db", "postgres");
    sim.exit("web", "nginx", 1);
    assert!(hangs(stream.next()).await);
    sim.lift_all();
    let told = stream.next().await.unwrap().unwrap();
    assert_eq!(told.id, "web/nginx.0".into());
    assert_eq!(told.created_at, Some(sim.now()), "it is made only now");
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_its_own_outlives_the_lock() {
    let sim = two_pods();
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    sim.status_lock("db", "postgres");
    sim.status_unlock("db", "postgres");
    assert!(hangs(sim.list_containers()).await);
}
