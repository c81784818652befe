//! Measures how late events are delivered on a simulated node, in situations for which the figures of
//! a kubelet are known. Tests and the benchmark use the same situations, in virtual time.
//!
//! ```
//! use std::time::Duration;
//!
//! use sim::figures::Latencies;
//!
//! let delivered = [30, 10, 20].map(Duration::from_millis).to_vec();
//! let latencies = Latencies::new(delivered, 3);
//! assert_eq!(latencies.delivered(), latencies.changes);
//! assert_eq!(latencies.quantile(0.5), Duration::from_millis(20));
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::event::EventType;
use pleg::model::id::Id;
use pleg::out::record::Record;
use pleg::runtime::Rpc;
use pleg::{Config, Environment, Mode, NoObserver, Pleg, no_ids};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{Fault, Sim};

/// Kubernetes' default limit of pods on a node.
const PODS: usize = 110;

const CONTAINERS: [&str; 2] = ["app", "side"];

/// Time between two restarts on a busy node.
const RESTART_INTERVAL: Duration = Duration::from_millis(100);

/// How long containers are restarted on a busy node.
const RESTARTS_DURATION: Duration = Duration::from_secs(30);

/// If no event is delivered for this long, all events have been delivered.
const QUIET_AFTER: Duration = Duration::from_secs(10);

/// How long events took, from the change to the subscriber.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Shortest first.
    sorted: Vec<Duration>,
    /// The number of changes. The event of each should be delivered once.
    pub changes: usize,
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most] = [0.5, 0.99].map(|share| self.quantile(share));
        let (longest, delivered, changes) = (self.longest(), self.delivered(), self.changes);
        write!(
            f,
            "p50 {half:?}, p99 {most:?}, max {longest:?}, {delivered} of {changes} delivered"
        )
    }
}

impl Latencies {
    /// `delivered` is how long each delivered event took, and `changes` the number of changes.
    pub fn new(mut delivered: Vec<Duration>, changes: usize) -> Self {
        delivered.sort();
        Self {
            sorted: delivered,
            changes,
        }
    }

    /// The number of delivered events.
    pub fn delivered(&self) -> usize {
        self.sorted.len()
    }

    /// The latency that this share of events does not exceed; zero if none was delivered.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.sorted.len() as f64 * share).ceil() as usize;
        let index = rank.max(1) - 1;
        self.sorted.get(index).copied().unwrap_or_default()
    }

    /// The longest latency; zero if no event was delivered.
    pub fn longest(&self) -> Duration {
        self.sorted.last().copied().unwrap_or_default()
    }
}

/// A busy node of 110 pods with two containers each: ten restarts a second for half a minute, while
/// the status calls of `hung` other pods hang. Only the pods that do not hang are measured.
pub async fn restarts_beside_hung_pods(mode: Mode, hung: usize) -> Latencies {
    let sim = node();
    let watcher = Watcher::begin(&sim, mode).await;
    for pod in 0..hung {
        // Without a change, its status would not be requested.
        let id = restart(&sim, pod, "app");
        let call = Rpc::ContainerStatus;
        sim.fault(call, Some(id.as_str()), Fault::Hang);
    }
    // Wait a moment, so that restarts do not coincide with relists.
    sleep(Duration::from_micros(313)).await;
    let start = Instant::now();
    let mut changes = Changes::default();
    let free: Vec<usize> = (hung..PODS).collect();
    for (turn, &pod) in free.iter().cycle().enumerate() {
        // The offset varies, so that restarts happen at different times between two relists.
        let offset = RESTART_INTERVAL * (turn as u32 % 7) / 7;
        let due = start + RESTART_INTERVAL * turn as u32 + offset;
        if due > start + RESTARTS_DURATION {
            break;
        }
        sleep_until(due).await;
        changes.restart(&sim, pod, CONTAINERS[turn / free.len() % 2]);
    }
    watcher.latencies(&changes).await
}

/// All 110 pods restart a container at once, and each status call takes `status`.
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

/// What a reader received after it had stopped reading for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedReader {
    /// The number of events while the reader did not read.
    pub events: usize,
    /// The number of those events that the reader received one by one.
    pub delivered: usize,
    /// The number of those events that were only counted for the reader.
    pub conflated: usize,
    /// The number of pods.
    pub pods: usize,
    /// The number of pods for which the reader's last events agree with their state.
    pub correct: usize,
}

/// Each of `pods` pods restarts its container three times while a reader does not read.
pub async fn restarts_before_a_stopped_reader(pods: usize) -> StoppedReader {
    const RESTARTS: u32 = 3;
    let sim = Sim::new();
    for pod in 0..pods {
        sim.run(&name(pod), &["app"]);
    }
    let pleg = start(&sim, Mode::Generic);
    let mut reader = pleg.subscribe().await.expect("it runs");
    let quiet = Duration::from_millis(100);
    while let Ok(Some(_)) = timeout(quiet, reader.next()).await {}
    for _ in 0..RESTARTS {
        for pod in 0..pods {
            restart(&sim, pod, "app");
        }
        sleep(Duration::from_secs(2)).await;
    }
    let mut received = StoppedReader {
        events: pods * 2 * RESTARTS as usize,
        delivered: 0,
        conflated: 0,
        pods,
        correct: 0,
    };
    let mut last = BTreeMap::new();
    while let Ok(Some(record)) = timeout(quiet, reader.next()).await {
        match record {
            Record::Event(event) => {
                received.delivered += usize::from(!event.initial);
                last.insert(event.id, event.event_type);
            }
            Record::Gap { conflated, .. } => received.conflated += conflated as usize,
            Record::Synced { .. } | Record::Health(_) => {}
        }
    }
    let is_correct = |pod: &usize| {
        (0..=RESTARTS).all(|attempt| {
            let id = format!("{}/app.{attempt}", name(*pod)).into();
            let expected = match attempt {
                RESTARTS => EventType::ContainerStarted,
                _ => EventType::ContainerDied,
            };
            last.get(&Some(id)) == Some(&expected)
        })
    };
    received.correct = (0..pods).filter(is_correct).count();
    received
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

/// Restarts a container, and returns the id of the new one.
fn restart(sim: &Sim, pod: usize, container: &str) -> Id {
    let now = sim.now();
    let mut world = sim.world();
    world.pod(&name(pod)).restart(container, 1, now);
    world.container(&name(pod), container).id.clone()
}

/// The expected events, and the time of each change.
#[derive(Default)]
struct Changes {
    times: BTreeMap<(Id, EventType), Instant>,
}

impl Changes {
    fn restart(&mut self, sim: &Sim, pod: usize, container: &str) {
        let old = sim.world().container(&name(pod), container).id.clone();
        let new = restart(sim, pod, container);
        let now = Instant::now();
        self.times.insert((old, EventType::ContainerDied), now);
        self.times.insert((new, EventType::ContainerStarted), now);
    }
}

/// Records the delivered events, and the time of each.
struct Watcher {
    reader: tokio::task::JoinHandle<Vec<((Id, EventType), Instant)>>,
    pleg: Pleg,
}

impl Watcher {
    async fn begin(sim: &Sim, mode: Mode) -> Self {
        let pleg = start(sim, mode);
        let mut subscription = pleg.subscribe().await.expect("it runs");
        let reader = tokio::spawn(async move {
            let mut delivered = Vec::new();
            while let Ok(Some(record)) = timeout(QUIET_AFTER, subscription.next()).await {
                if let Record::Event(event) = record
                    && let Some(id) = event.id
                    && !event.initial
                {
                    delivered.push(((id, event.event_type), Instant::now()));
                }
            }
            delivered
        });
        // Wait until pleg is synced and the stream is open.
        sleep(Duration::from_secs(2)).await;
        Self { reader, pleg }
    }

    /// Waits until no more events are delivered.
    async fn latencies(self, changes: &Changes) -> Latencies {
        let delivered = self.reader.await.expect("it does not panic");
        drop(self.pleg);
        let latency = |(event, delivered): (_, Instant)| {
            let changed = changes.times.get(&event)?;
            Some(delivered.duration_since(*changed))
        };
        let latencies = delivered.into_iter().filter_map(latency).collect();
        Latencies::new(latencies, changes.times.len())
    }
}
