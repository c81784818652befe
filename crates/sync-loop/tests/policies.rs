//! The same fault of a node with both policies: how long the container of another pod is down.

mod well;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pleg::model::id::PodRef;
use pleg::model::listed::ContainerState;
use pleg::runtime::CallError;
use pleg::{Config, Environment, Mode, NoObserver, Pleg, no_ids};
use sim::Sim;
use sync_loop::ready_condition::Status;
use sync_loop::{Change, Goal, Outcome, Parts, Policy, Source, SyncLoop, SyncPod, Turn};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use well::well;

/// A source that a test controls.
struct Told(mpsc::UnboundedReceiver<Change<()>>);

impl Source for Told {
    type Spec = ();

    async fn next(&mut self) -> Option<Change<()>> {
        self.0.recv().await
    }
}

/// Starts exited containers again. Stores whether an entry was not complete once.
struct Restart(Sim, Arc<AtomicBool>);

impl SyncPod for Restart {
    type Spec = ();

    async fn sync(&self, turn: Turn<()>) -> Outcome {
        if turn.goal == Goal::End {
            self.0.world().remove(&turn.pod.name);
            return Outcome::Ended;
        }
        self.1.fetch_or(!turn.is_complete, Relaxed);
        let status = match turn.status() {
            Ok(status) => status,
            Err(outcome) => return outcome,
        };
        let exited = status
            .containers
            .iter()
            .filter(|it| it.state == ContainerState::Exited);
        let mut changed = false;
        for container in exited {
            self.0.start_again(&turn.pod.name, &container.name);
            changed = true;
        }
        Outcome::Done {
            changed,
            again_in: None,
        }
    }
}

/// A node on which the pods `stuck` and `innocent` are kept running.
struct Node {
    sim: Sim,
    sync_loop: SyncLoop,
    wanted: mpsc::UnboundedSender<Change<()>>,
    incomplete: Arc<AtomicBool>,
    began: Instant,
}

impl Node {
    async fn up(policy: Policy) -> Self {
        let sim = Sim::new();
        let names = ["stuck", "innocent", "other"];
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
        let (wanted, told) = mpsc::unbounded_channel();
        for name in names {
            wanted.send(Change::Set(pod(&sim, name), ())).unwrap();
        }
        let sync_loop = SyncLoop::start(Parts {
            source: Told(told),
            sync_pod: Arc::new(Restart(sim.clone(), incomplete.clone())),
            pleg,
            conditions: || async { Ok::<_, CallError>(well()) },
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
            began: Instant::now(),
        }
    }

    async fn at(&self, seconds: u64) {
        tokio::time::sleep_until(self.began + Duration::from_secs(seconds)).await;
    }

    fn runs(&self, name: &str) -> bool {
        self.sim.world().container(name, "app").state == ContainerState::Running
    }

    /// How long it takes until the container of the pod runs.
    async fn until_it_runs(&self, name: &str) -> Duration {
        let since = Instant::now();
        while !self.runs(name) {
            sleep(Duration::from_millis(10)).await;
        }
        since.elapsed()
    }

    fn ready(&self) -> Status {
        let ready = self.sync_loop.ready();
        let condition = ready.borrow().clone();
        condition.expect("the runtime was looked at").status
    }
}

fn pod(sim: &Sim, name: &str) -> PodRef {
    sim.world().pod(name).pod.clone()
}

/// A status lock is held for 300 s; a container of another pod exits 200 s into it. Returns how
/// long that container was down, and whether the node was Ready then.
async fn down_beside_a_status_lock(policy: Policy) -> (Duration, Status) {
    let node = Node::up(policy).await;
    node.sim.status_lock("stuck", "app");
    node.at(200).await;
    node.sim.exit("innocent", "app", 137);
    let lifted = {
        let sim = node.sim.clone();
        let end = node.began + Duration::from_secs(300);
        tokio::spawn(async move {
            tokio::time::sleep_until(end).await;
            sim.status_unlock("stuck", "app");
        })
    };
    let ready = node.ready();
    let down = node.until_it_runs("innocent").await;
    assert!(node.runs("stuck"), "it was not touched");
    lifted.await.unwrap();
    (down, ready)
}

#[tokio::test(start_paused = true)]
async fn by_the_kubelets_policy_an_innocent_pod_is_down_until_the_fault_ends() {
    let (down, ready) = down_beside_a_status_lock(Policy::Node).await;
    assert_eq!(ready, Status::False);
    let down = down.as_secs_f64();
    assert!((100.0..107.0).contains(&down), "{down}");
}

#[tokio::test(start_paused = true)]
async fn by_ours_it_runs_again_within_two_seconds_and_the_node_stays_ready() {
    let (down, ready) = down_beside_a_status_lock(Policy::Pod).await;
    assert_eq!(ready, Status::True);
    assert!(down < Duration::from_secs(2), "{down:?}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_answers_nothing_stops_all_and_they_go_on_when_it_is_back() {
    for policy in [Policy::Pod, Policy::Node] {
        let node = Node::up(policy).await;
        node.sim.stop();
        node.at(400).await;
        assert_eq!(node.ready(), Status::False, "{policy:?}");
        node.sim.exit("innocent", "app", 1);
        node.at(410).await;
        assert!(!node.runs("innocent"));
        node.sim.resume();
        let down = node.until_it_runs("innocent").await;
        assert!(down < Duration::from_secs(9), "{policy:?}: {down:?}");
        node.at(430).await;
        assert_eq!(node.ready(), Status::True, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_status_hangs_stops_only_itself_and_is_synced_when_it_is_seen_again() {
    let node = Node::up(Policy::Pod).await;
    node.sim.exit("innocent", "app", 1);
    node.at(10).await;
    assert!(!node.incomplete.load(Relaxed), "all was listed until now");
    node.sim.status_lock("stuck", "app");
    node.at(20).await;
    for name in ["innocent", "other"] {
        node.sim.exit(name, "app", 1);
        let down = node.until_it_runs(name).await;
        assert!(down < Duration::from_secs(2), "{name}: {down:?}");
    }
    assert!(node.incomplete.load(Relaxed), "containers were not listed");
    node.sim.exit("stuck", "app", 1);
    node.at(60).await;
    assert!(!node.runs("stuck"), "what is not seen is not touched");
    node.sim.status_unlock("stuck", "app");
    let down = node.until_it_runs("stuck").await;
    assert!(down < Duration::from_secs(3), "{down:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_no_longer_wanted_ends() {
    let node = Node::up(Policy::Pod).await;
    let pod = pod(&node.sim, "other");
    node.wanted.send(Change::Remove(pod)).unwrap();
    node.at(3).await;
    assert!(!node.sim.world().pods.contains_key("other"));
    assert!(node.runs("innocent"));
}
