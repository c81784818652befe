//! The same fault of a node under both policies: how long the container of another pod is down.

mod ready_runtime;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pleg::model::id::PodRef;
use pleg::model::listed::ContainerState;
use pleg::runtime::CallError;
use pleg::{Config, Environment, Mode, NoObserver, Pleg, no_ids};
use ready_runtime::ready_conditions;
use sim::Sim;
use sync_loop::ready_condition::Status;
use sync_loop::{Change, Goal, Outcome, Parts, Policy, Source, SyncLoop, SyncPod, SyncRequest};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// A source that a test controls.
struct ChannelSource(mpsc::UnboundedReceiver<Change<()>>);

impl Source for ChannelSource {
    type Spec = ();

    async fn next(&mut self) -> Option<Change<()>> {
        self.0.recv().await
    }
}

/// Restarts exited containers. Records whether any request was incomplete.
struct Restart(Sim, Arc<AtomicBool>);

impl SyncPod for Restart {
    type Spec = ();

    async fn sync(&self, request: SyncRequest<()>) -> Outcome {
        if request.goal == Goal::End {
            self.0.world().remove(&request.pod.name);
            return Outcome::Ended;
        }
        self.1.fetch_or(!request.is_complete, Relaxed);
        let status = match request.status() {
            Ok(status) => status,
            Err(outcome) => return outcome,
        };
        let exited = status
            .containers
            .iter()
            .filter(|it| it.state == ContainerState::Exited);
        let mut changed = false;
        for container in exited {
            self.0.start_again(&request.pod.name, &container.name);
            changed = true;
        }
        Outcome::Done {
            changed,
            again_in: None,
        }
    }
}

/// A node whose sync loop keeps the pods `stuck`, `web` and `db` running.
struct Node {
    sim: Sim,
    sync_loop: SyncLoop,
    wanted: mpsc::UnboundedSender<Change<()>>,
    incomplete: Arc<AtomicBool>,
    start: Instant,
}

impl Node {
    async fn start(policy: Policy) -> Self {
        let sim = Sim::new();
        let names = ["stuck", "web", "db"];
        for name in names {
            sim.run(name, &["app"]);
        }
        let environment = Environment {
            endpoint: "sim".into(),
            clock: sim.clock(),
            observer: Arc::new(NoObserver),
            ids: no_ids(),
            kernel: None,
        };
        let config = Config {
            mode: Mode::Generic,
            ..Config::default()
        };
        let pleg = Pleg::start(Arc::new(sim.clone()), config, environment);
        let incomplete = Arc::new(AtomicBool::new(false));
        let (wanted, changes) = mpsc::unbounded_channel();
        for name in names {
            wanted.send(Change::Set(pod(&sim, name), ())).unwrap();
        }
        let sync_loop = SyncLoop::start(Parts {
            source: ChannelSource(changes),
            sync_pod: Arc::new(Restart(sim.clone(), incomplete.clone())),
            pleg,
            conditions: || async { Ok::<_, CallError>(ready_conditions()) },
            policy,
            clock: sim.clock(),
            jitter: fastrand::Rng::with_seed(1),
        });
        sleep(Duration::from_secs(5)).await;
        Self {
            sim,
            sync_loop,
            wanted,
            incomplete,
            start: Instant::now(),
        }
    }

    async fn wait_until(&self, seconds: u64) {
        tokio::time::sleep_until(self.start + Duration::from_secs(seconds)).await;
    }

    fn is_running(&self, name: &str) -> bool {
        self.sim.world().container(name, "app").state == ContainerState::Running
    }

    /// Waits until the container of the pod runs, and returns how long that took.
    async fn wait_until_running(&self, name: &str) -> Duration {
        let since = Instant::now();
        while !self.is_running(name) {
            sleep(Duration::from_millis(10)).await;
        }
        since.elapsed()
    }

    fn ready(&self) -> Status {
        let ready = self.sync_loop.ready();
        let condition = ready.borrow().clone();
        condition.expect("`Status` was answered").status
    }
}

fn pod(sim: &Sim, name: &str) -> PodRef {
    sim.world().pod(name).pod.clone()
}

/// Locks the status of one container for 300 s. A container of another pod exits after 200 s.
/// Returns how long that container was down, and whether the node was Ready when it exited.
async fn downtime_beside_a_stuck_container(policy: Policy) -> (Duration, Status) {
    let node = Node::start(policy).await;
    node.sim.status_lock("stuck", "app");
    node.wait_until(200).await;
    node.sim.exit("web", "app", 137);
    let unlocked = {
        let sim = node.sim.clone();
        let end = node.start + Duration::from_secs(300);
        tokio::spawn(async move {
            tokio::time::sleep_until(end).await;
            sim.status_unlock("stuck", "app");
        })
    };
    let ready = node.ready();
    let downtime = node.wait_until_running("web").await;
    assert!(node.is_running("stuck"), "the stuck container still runs");
    unlocked.await.unwrap();
    (downtime, ready)
}

#[tokio::test(start_paused = true)]
async fn with_the_kubelets_policy_other_pods_are_down_until_the_fault_ends() {
    let (downtime, ready) = downtime_beside_a_stuck_container(Policy::Node).await;
    assert_eq!(ready, Status::False);
    let downtime = downtime.as_secs_f64();
    assert!((100.0..107.0).contains(&downtime), "{downtime}");
}

#[tokio::test(start_paused = true)]
async fn with_the_pod_policy_other_pods_restart_within_two_seconds_and_the_node_stays_ready() {
    let (downtime, ready) = downtime_beside_a_stuck_container(Policy::Pod).await;
    assert_eq!(ready, Status::True);
    assert!(downtime < Duration::from_secs(2), "{downtime:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_runtime_stops_all_pods_until_it_answers_again() {
    for policy in [Policy::Pod, Policy::Node] {
        let node = Node::start(policy).await;
        node.sim.stop();
        node.wait_until(400).await;
        assert_eq!(node.ready(), Status::False, "{policy:?}");
        node.sim.exit("web", "app", 1);
        node.wait_until(410).await;
        assert!(!node.is_running("web"));
        node.sim.resume();
        let downtime = node.wait_until_running("web").await;
        assert!(
            downtime < Duration::from_secs(9),
            "{policy:?}: {downtime:?}"
        );
        node.wait_until(430).await;
        assert_eq!(node.ready(), Status::True, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_stuck_status_stops_only_itself_and_is_synced_when_it_is_observed_again() {
    let node = Node::start(Policy::Pod).await;
    node.sim.exit("web", "app", 1);
    node.wait_until(10).await;
    assert!(!node.incomplete.load(Relaxed), "all requests were complete");
    node.sim.status_lock("stuck", "app");
    node.wait_until(20).await;
    for name in ["web", "db"] {
        node.sim.exit(name, "app", 1);
        let downtime = node.wait_until_running(name).await;
        assert!(downtime < Duration::from_secs(2), "{name}: {downtime:?}");
    }
    assert!(node.incomplete.load(Relaxed), "containers were not listed");
    node.sim.exit("stuck", "app", 1);
    node.wait_until(60).await;
    assert!(!node.is_running("stuck"), "it is not restarted unobserved");
    node.sim.status_unlock("stuck", "app");
    let downtime = node.wait_until_running("stuck").await;
    assert!(downtime < Duration::from_secs(3), "{downtime:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_no_longer_wanted_ends() {
    let node = Node::start(Policy::Pod).await;
    let pod = pod(&node.sim, "db");
    node.wanted.send(Change::Remove(pod)).unwrap();
    node.wait_until(3).await;
    assert!(!node.sim.world().pods.contains_key("db"));
    assert!(node.is_running("web"));
}
