//! A simulated node that is watched in virtual time: what happens to it goes in, a trace
//! of what was told comes out.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pleg::event::{Event, Source};
use pleg::kernel::Kernel;
use pleg::snapshot::Counts;
use pleg::status_report::StatusReport;
use pleg::subscribers::Subscription;
use pleg::told::Record;
use pleg::wall_time::WallTime;
use pleg::{Config, Environment, IdSource, Mode, Observer, Pleg};
use sim::Sim;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// A watched node. The clock stands still until a test waits.
pub struct Node {
    pub sim: Sim,
    pub pleg: Pleg,
    pub counter: Arc<Counter>,
    began: Instant,
    trace: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

/// Remembers the last counts that were told.
#[derive(Default)]
pub struct Counter {
    pub counts: Mutex<Counts>,
}

impl Observer for Counter {
    fn seen(&self, _time: WallTime, counts: Counts) {
        *self.counts.lock().unwrap() = counts;
    }
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Node {
    /// Watches a node as `prepare` leaves it, by lists alone.
    pub async fn watch(prepare: impl FnOnce(&Sim)) -> Self {
        let config = Config {
            mode: Mode::Generic,
            ..Config::default()
        };
        Self::watch_with(config, prepare).await
    }

    /// Watches it by its event stream too.
    pub async fn watch_stream(prepare: impl FnOnce(&Sim)) -> Self {
        Self::watch_with(Config::default(), prepare).await
    }

    /// Watches it as `config` says.
    pub async fn watch_with(config: Config, prepare: impl FnOnce(&Sim)) -> Self {
        Self::begin(Sim::new(), None, config, prepare).await
    }

    /// Watches it as `config` says, with the kernel's hints.
    pub async fn watch_with_kernel(config: Config, prepare: impl FnOnce(&Sim)) -> Self {
        let sim = Sim::new();
        Self::begin(sim.clone(), Some(Arc::new(sim)), config, prepare).await
    }

    async fn begin(
        sim: Sim,
        kernel: Option<Arc<dyn Kernel>>,
        config: Config,
        prepare: impl FnOnce(&Sim),
    ) -> Self {
        prepare(&sim);
        let counter = Arc::<Counter>::default();
        let environment = Environment {
            endpoint: "sim".into(),
            clock: sim.clock(),
            observer: counter.clone(),
            ids: ids(&sim),
            kernel,
        };
        let began = Instant::now();
        let pleg = Pleg::start(Arc::new(sim.clone()), config, environment);
        let subscription = pleg.subscribe().await.unwrap();
        let trace = Arc::<Mutex<Vec<String>>>::default();
        let reader = tokio::spawn(read(subscription, began, trace.clone()));
        Self {
            sim,
            pleg,
            counter,
            began,
            trace,
            reader,
        }
    }

    /// Lets time pass until so many seconds after the start.
    pub async fn at(&self, time: f64) {
        sleep_until(self.began + seconds(time)).await;
    }

    /// What was told since the last call, a line each.
    #[track_caller]
    pub fn told(&self) -> String {
        std::mem::take(&mut *self.trace.lock().unwrap()).join("\n")
    }

    /// Compares what was told since the last call; lines may be indented.
    #[track_caller]
    pub fn assert_told(&self, expected: &str) {
        let lines = expected
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        assert_eq!(self.told(), lines.collect::<Vec<_>>().join("\n"));
    }

    pub async fn status(&self) -> StatusReport {
        self.pleg.status().await.unwrap()
    }
}

/// What the folders of a real runtime would show.
fn ids(sim: &Sim) -> IdSource {
    let sim = sim.clone();
    Arc::new(move || {
        let world = sim.world();
        let sandboxes = world.sandboxes().map(|(_, sandbox)| sandbox.id.clone());
        let containers = world
            .containers()
            .map(|(_, container)| container.id.clone());
        sandboxes.chain(containers).collect()
    })
}

impl Drop for Node {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(mut subscription: Subscription, began: Instant, trace: Arc<Mutex<Vec<String>>>) {
    while let Some(record) = subscription.next().await {
        let line = line(&record);
        let at = began.elapsed().as_secs_f64();
        trace.lock().unwrap().push(format!("{at:.3} {line}"));
    }
}

pub fn line(record: &Record) -> String {
    match record {
        Record::Event(event) => event_line(event),
        Record::Synced {
            pods, containers, ..
        } => format!("synced {pods} pods, {containers} containers"),
        Record::Health(health) => format!("{}: {}", health.state, health.message),
        Record::Gap {
            conflated, pods, ..
        } => format!("gap of {conflated} in {pods:?}"),
    }
}

fn event_line(event: &Event) -> String {
    let kind = event.event_type.as_str();
    let kind = kind.strip_prefix("Container").unwrap_or(kind);
    let about = match &event.id {
        Some(id) => id.to_string(),
        None => event.pod.name.to_string(),
    };
    let code = event.exit_code.map(|code| format!(" with {code}"));
    let initial = if event.initial { " (initial)" } else { "" };
    let source = match event.source {
        Source::Relist | Source::Sweep => "",
        Source::Stream => " (stream)",
        Source::Kernel => " (kernel)",
    };
    format!(
        "{kind} {about}{}{initial}{source}",
        code.unwrap_or_default()
    )
}
