//! A worker is woken when calls of its pod become stuck or fail, and when they recover.

mod ready_runtime;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pleg::model::id::PodRef;
use pleg::runtime::CallError;
use pleg::{Config, Environment, Mode, NoObserver, Pleg, no_ids};
use ready_runtime::ready_conditions;
use sim::Sim;
use sync_loop::{Change, Goal, Outcome, Parts, Policy, Source, SyncLoop, SyncPod, SyncRequest};
use tokio::time::sleep;

/// A source with only this pod.
struct SinglePod(Option<PodRef>);

impl Source for SinglePod {
    type Spec = ();

    async fn next(&mut self) -> Option<Change<()>> {
        Some(Change::Set(self.0.take()?, ()))
    }
}

/// Records for each sync whether a process of the pod was known to be dead.
#[derive(Clone, Default)]
struct DeadProcesses(Arc<Mutex<Vec<bool>>>);

impl DeadProcesses {
    fn last(&self) -> Option<bool> {
        self.0.lock().unwrap().last().copied()
    }
}

impl SyncPod for DeadProcesses {
    type Spec = ();

    async fn sync(&self, request: SyncRequest<()>) -> Outcome {
        assert_ne!(request.goal, Goal::End);
        let is_dead = !request.entry.dead.is_empty();
        self.0.lock().unwrap().push(is_dead);
        Outcome::Done {
            changed: false,
            again_in: None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_woken_once_when_the_runtime_reports_a_dead_process_as_running() {
    let sim = Sim::new();
    sim.run("web", &["app"]);
    let environment = Environment {
        endpoint: "sim".into(),
        clock: sim.clock(),
        observer: Arc::new(NoObserver),
        ids: no_ids(),
        kernel: Some(Arc::new(sim.clone())),
    };
    let config = Config {
        mode: Mode::Generic,
        ..Config::default()
    };
    let pleg = Pleg::start(Arc::new(sim.clone()), config, environment);
    let dead_processes = DeadProcesses::default();
    let web = sim.world().pod("web").pod.clone();
    let _sync_loop = SyncLoop::start(Parts {
        source: SinglePod(Some(web)),
        sync_pod: Arc::new(dead_processes.clone()),
        pleg,
        conditions: || async { Ok::<_, CallError>(ready_conditions()) },
        policy: Policy::Pod,
        clock: sim.clock(),
        jitter: fastrand::Rng::with_seed(1),
    });
    sleep(Duration::from_secs(5)).await;
    assert_eq!(dead_processes.last(), Some(false));
    sim.kill("web", "app");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(dead_processes.last(), Some(true));
    let syncs = dead_processes.0.lock().unwrap().len();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(dead_processes.0.lock().unwrap().len(), syncs, "woken once");
    sim.exit("web", "app", 137);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(dead_processes.last(), Some(false));
}
