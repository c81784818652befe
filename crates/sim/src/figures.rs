//! How late events come on a simulated node in situations in which a kubelet's lateness is
//! known: the same shapes for the tests that hold the figures and for the benchmark that
//! shows them. To be run in virtual time.
//!
//! ```
//! use std::time::Duration;
//!
//! use sim::figures::Latencies;
//!
//! let told = [30, 10, 20].map(Duration::from_millis).to_vec();
//! let latencies = Latencies::new(told, 3);
//! assert_eq!(latencies.told(), latencies.changes);
//! assert_eq!(latencies.quantile(0.5), Duration::from_millis(20));
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::event::EventType;
use pleg::model::id::Id;
use pleg::out::told::Record;
use pleg::runtime::Rpc;
use pleg::{Config, Environment, Mode, NoObserver, Pleg, no_ids};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{Fault, Sim};

/// As many as Kubernetes allows on a node by default.
const PODS: usize = 110;

const CONTAINERS: [&str; 2] = ["app", "side"];

/// The pause between restarts on a busy node.
const EACH: Duration = Duration::from_millis(100);

/// For how long containers are restarted.
const BUSY: Duration = Duration::from_secs(30);

/// How long after the last change everything must have been told.
const SETTLED: Duration = Duration::from_secs(10);

/// How long events took, from the change to the subscriber.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Shortest first.
    sorted: Vec<Duration>,
    /// How many changes there were; each of them is to be told once.
    pub changes: usize,
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most] = [0.5, 0.99].map(|share| self.quantile(share));
        let (longest, told, changes) = (self.longest(), self.told(), self.changes);
        write!(
            f,
            "p50 {half:?}, p99 {most:?}, max {longest:?}, {told} of {changes} told"
        )
    }
}

impl Latencies {
    /// Of so many changes, those that were told took so long.
    pub fn new(mut told: Vec<Duration>, changes: usize) -> Self {
        told.sort();
        Self {
            sorted: told,
            changes,
        }
    }

    /// How many changes were told.
    pub fn told(&self) -> usize {
        self.sorted.len()
    }

    /// The latency that this share of events does not exceed; zero if nothing was told.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.sorted.len() as f64 * share).ceil() as usize;
        let index = rank.max(1) - 1;
        self.sorted.get(index).copied().unwrap_or_default()
    }

    /// The longest; zero if nothing was told.
    pub fn longest(&self) -> Duration {
        self.sorted.last().copied().unwrap_or_default()
    }
}

/// A busy node of 110 pods with two containers each: ten restarts a second for half a minute,
/// while the status calls of so many other pods hang. The latencies are of those that do
/// not hang.
pub async fn restarts_beside_hung_pods(mode: Mode, hung: usize) -> Latencies {
    let sim = node();
    let watcher = Watcher::begin(&sim, mode).await;
    for pod in 0..hung {
        // One that did not change would not be asked about.
        let id = restart(&sim, pod, "app");
        let call = Rpc::ContainerStatus;
        sim.fault(call, Some(id.as_str()), Fault::Hang);
    }
    sleep(Duration::from_micros(313)).await;
    let begun = Instant::now();
    let mut changes = Changes::default();
    let free: Vec<usize> = (hung..PODS).collect();
    for (turn, &pod) in free.iter().cycle().enumerate() {
        // Not in step with the relists, nor ever at the very instant of one.
        let due = begun + EACH * turn as u32 + EACH * (turn as u32 % 7) / 7;
        if due > begun + BUSY {
            break;
        }
        sleep_until(due).await;
        changes.restart(&sim, pod, CONTAINERS[turn / free.len() % 2]);
    }
    watcher.latencies(&changes).await
}

/// All of 110 pods restart a container at once, and each status call takes `status`.
pub async fn all_restart_at_once(mode: Mode, status: Duration) -> Latencies {
    let sim = node();
    let watcher = Watcher::begin(&sim, mode).await;
    for call in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
        sim.fault(call, None, Fault::Slow(status));
    }
    sleep(Duration::from_millis(250)).await;
    let mut changes = Changes::default();
    for pod in 0..PODS {
        changes.restart(&sim, pod, "app");
    }
    watcher.latencies(&changes).await
}

/// What a reader that had stopped was told when it read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// How many events there were meanwhile.
    pub events: usize,
    /// How many of them it was told one by one.
    pub told: usize,
    /// How many it was told of by their number.
    pub conflated: usize,
    /// How many pods there are.
    pub pods: usize,
    /// Of how many pods the last that it was told is how they are.
    pub right: usize,
}

/// Each of so many pods restarts its container three times while a reader has stopped.
pub async fn restarts_before_a_stopped_reader(pods: usize) -> Caught {
    const ROUNDS: u32 = 3;
    let sim = Sim::new();
    for pod in 0..pods {
        sim.run(&name(pod), &["app"]);
    }
    let pleg = start(&sim, Mode::Generic);
    let mut reader = pleg.subscribe().await.expect("it runs");
    let moment = Duration::from_millis(100);
    while let Ok(Some(_)) = timeout(moment, reader.next()).await {}
    for _ in 0..ROUNDS {
        for pod in 0..pods {
            restart(&sim, pod, "app");
        }
        sleep(Duration::from_secs(2)).await;
    }
    let mut caught = Caught {
        events: pods * 2 * ROUNDS as usize,
        told: 0,
        conflated: 0,
        pods,
        right: 0,
    };
    let mut last = BTreeMap::new();
    while let Ok(Some(record)) = timeout(moment, reader.next()).await {
        match record {
            Record::Event(event) => {
                caught.told += usize::from(!event.initial);
                last.insert(event.id, event.event_type);
            }
            Record::Gap { conflated, .. } => caught.conflated += conflated as usize,
            Record::Synced { .. } | Record::Health(_) => {}
        }
    }
    let is_right = |pod: &usize| {
        (0..=ROUNDS).all(|attempt| {
            let id = format!("{}/app.{attempt}", name(*pod)).into();
            let expected = match attempt {
                ROUNDS => EventType::ContainerStarted,
                _ => EventType::ContainerDied,
            };
            last.get(&Some(id)) == Some(&expected)
        })
    };
    caught.right = (0..pods).filter(is_right).count();
    caught
}

fn name(pod: usize) -> String {
    format!("p{pod}")
}

fn node() -> Sim {
    let sim = Sim::new();
    for pod in 0..PODS {
        sim.run(&name(pod), &CONTAINERS);
    }
    sim
}

fn start(sim: &Sim, mode: Mode) -> Pleg {
    let config = Config {
        mode,
        ..Config::default()
    };
    let environment = Environment {
        endpoint: "sim".into(),
        clock: sim.clock(),
        observer: Arc::new(NoObserver),
        ids: no_ids(),
        kernel: None,
    };
    Pleg::start(Arc::new(sim.clone()), config, environment)
}

/// Gives the id of the container that starts.
fn restart(sim: &Sim, pod: usize, container: &str) -> Id {
    let now = sim.now();
    let mut world = sim.world();
    world.pod(&name(pod)).restart(container, 1, now);
    world.container(&name(pod), container).id.clone()
}

/// What happened, and when.
#[derive(Default)]
struct Changes {
    happened: BTreeMap<(Id, EventType), Instant>,
}

impl Changes {
    fn restart(&mut self, sim: &Sim, pod: usize, container: &str) {
        let old = sim.world().container(&name(pod), container).id.clone();
        let new = restart(sim, pod, container);
        let now = Instant::now();
        self.happened.insert((old, EventType::ContainerDied), now);
        self.happened
            .insert((new, EventType::ContainerStarted), now);
    }
}

/// Notes what is told, and when.
struct Watcher {
    reader: tokio::task::JoinHandle<Vec<((Id, EventType), Instant)>>,
    pleg: Pleg,
}

impl Watcher {
    async fn begin(sim: &Sim, mode: Mode) -> Self {
        let pleg = start(sim, mode);
        let mut subscription = pleg.subscribe().await.expect("it runs");
        let reader = tokio::spawn(async move {
            let mut told = Vec::new();
            while let Ok(Some(record)) = timeout(SETTLED, subscription.next()).await {
                if let Record::Event(event) = record
                    && let Some(id) = event.id
                    && !event.initial
                {
                    told.push(((id, event.event_type), Instant::now()));
                }
            }
            told
        });
        // Synced, and the stream open.
        sleep(Duration::from_secs(2)).await;
        Self { reader, pleg }
    }

    /// Waits until nothing more is told.
    async fn latencies(self, changes: &Changes) -> Latencies {
        let told = self.reader.await.expect("it does not panic");
        drop(self.pleg);
        let latency = |(what, told): (_, Instant)| {
            let happened = changes.happened.get(&what)?;
            Some(told.duration_since(*happened))
        };
        let told = told.into_iter().filter_map(latency).collect();
        Latencies::new(told, changes.happened.len())
    }
}
