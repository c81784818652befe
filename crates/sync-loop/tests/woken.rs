//! A worker is woken for what is no event: calls of its pod hang or fail, or no longer do.

mod well;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pleg::model::id::PodRef;
use pleg::runtime::CallError;
use pleg::{Config, Environment, Mode, NoObserver, Pleg, no_ids};
use sim::Sim;
use sync_loop::{Change, Goal, Outcome, Parts, Policy, Source, SyncLoop, SyncPod, Turn};
use tokio::time::sleep;
use well::well;

/// A source with only this pod.
struct One(Option<PodRef>);

impl Source for One {
    type Spec = ();

    async fn next(&mut self) -> Option<Change<()>> {
        Some(Change::Set(self.0.take()?, ()))
    }
}

/// Stores for each sync whether the process was known to be dead.
#[derive(Clone, Default)]
struct Remembers(Arc<Mutex<Vec<bool>>>);

impl Remembers {
    fn last(&self) -> Option<bool> {
        self.0.lock().unwrap().last().copied()
    }
}

impl SyncPod for Remembers {
    type Spec = ();

    async fn sync(&self, turn: Turn<()>) -> Outcome {
        assert_ne!(turn.goal, Goal::End);
        let is_dead = !turn.entry.dead.is_empty();
        self.0.lock().unwrap().push(is_dead);
        Outcome::Done {
            changed: false,
            again_in: None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_hears_within_seconds_that_the_runtime_calls_the_dead_running() {
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
    let seen = Remembers::default();
    let web = sim.world().pod("web").pod.clone();
    let _sync_loop = SyncLoop::start(Parts {
        source: One(Some(web)),
        sync_pod: Arc::new(seen.clone()),
        pleg,
        conditions: || async { Ok::<_, CallError>(well()) },
        policy: Policy::Pod,
        clock: sim.clock(),
        jitter: fastrand::Rng::with_seed(1),
    });
    sleep(Duration::from_secs(5)).await;
    assert_eq!(seen.last(), Some(false));
    sim.kill("web", "app");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(seen.last(), Some(true));
    let syncs = seen.0.lock().unwrap().len();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(seen.0.lock().unwrap().len(), syncs, "once is enough");
    sim.exit("web", "app", 137);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(seen.last(), Some(false));
}
