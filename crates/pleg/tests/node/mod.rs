//! A simulated node that an engine observes in virtual time. A test changes the node and reads the trace
//! of what was reported.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test file uses its own part of it"
)]

mod counter;
mod faults;
mod host;
mod trace;

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::{ids, ids_and};
use pleg::kernel::Kernel;
use pleg::model::id::{HostId, Id, PodUid};
use pleg::model::listed::ContainerState;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Runtime;
use pleg::{Config, Environment, IdSource, Mode, Pleg, no_ids};
use sim::Sim;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use trace::read;

pub use counter::Counter;
pub use faults::{
    LISTS, STATUSES, broken, fault_each, has_failing, is_healthy, lists_are_stuck, named,
    not_found, too_large,
};
pub use trace::{Reported, line};

/// `locked`, `a`, `b` and more pods, each with `app`.
pub fn pods(sim: &Sim) {
    for name in ["locked", "a", "b", "c", "d", "e"] {
        sim.run(name, &["app"]);
    }
}

/// `p0`, `p1` and so on, each with these containers.
pub fn many(sim: &Sim, pods: usize, containers: &[&str]) {
    for number in 0..pods {
        sim.run(&format!("p{number}"), containers);
    }
}

/// `locked`, `a` and `b`, each with `app`.
pub fn three_pods(sim: &Sim) {
    for name in ["locked", "a", "b"] {
        sim.run(name, &["app"]);
    }
}

/// Ten pods with a container each.
pub fn ten(sim: &Sim) {
    many(sim, 10, &["app"]);
}

/// Restarts the containers of these pods of [`many`]. Each restart is two changes.
pub fn restart(sim: &Sim, pods: Range<usize>) {
    for pod in pods {
        let now = sim.now();
        sim.world().pod(&format!("p{pod}")).restart("app", 1, now);
    }
}

/// The pod that a test is about.
pub fn victim() -> PodUid {
    "uid-victim".into()
}

/// An observed node. The clock stands still until a test waits.
pub struct Node {
    pub sim: Sim,
    pub pleg: Pleg,
    pub counter: Arc<Counter>,
    began: Instant,
    trace: Arc<Mutex<Vec<Reported>>>,
    /// How many entries of the trace were read already.
    already_read: Mutex<usize>,
    reader: JoinHandle<()>,
}

/// The configuration for observing by lists alone.
pub fn generic() -> Config {
    Config {
        mode: Mode::Generic,
        ..Config::default()
    }
}

/// The relist period, in seconds.
pub fn period(status: &StatusReport) -> f64 {
    status.relist.period_seconds
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Node {
    /// Observes a node as `prepare` leaves it, by lists alone.
    pub async fn watch(prepare: impl FnOnce(&Sim)) -> Self {
        Self::watch_with(generic(), prepare).await
    }

    /// Observes the node by lists and its event stream.
    pub async fn watch_stream(prepare: impl FnOnce(&Sim)) -> Self {
        Self::watch_with(Config::default(), prepare).await
    }

    /// Observes the node with this configuration.
    pub async fn watch_with(config: Config, prepare: impl FnOnce(&Sim)) -> Self {
        Self::begin(Sim::new(), None, ids, config, prepare).await
    }

    /// Restarts the runtime during every call for this id, as if the call had crashed it, until the
    /// returned task is aborted. The runtime accepts connections again after 0.1 s.
    pub fn restarts_when_asked_for(&self, id: &'static str) -> JoinHandle<()> {
        let sim = self.sim.clone();
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(50)).await;
                let outstanding = sim.outstanding();
                if outstanding.iter().any(|call| call.id == Some(id.into())) {
                    sim.restart(seconds(0.1));
                }
            }
        })
    }

    /// Observes the node by lists alone, without ids from the host.
    pub async fn watch_knowing_no_host(prepare: impl FnOnce(&Sim)) -> Self {
        Self::begin(Sim::new(), None, |_| no_ids(), generic(), prepare).await
    }

    /// Observes the node by lists and the kernel's hints, without ids from the host.
    pub async fn watch_with_kernel_knowing_no_host(prepare: impl FnOnce(&Sim)) -> Self {
        let sim = Sim::new();
        let kernel = Some(Arc::new(sim.clone()) as Arc<dyn Kernel>);
        Self::begin(sim, kernel, |_| no_ids(), generic(), prepare).await
    }

    /// Observes the node by lists alone, on a host whose directories also show these ids.
    pub async fn watch_knowing_also(more: &[&str], prepare: impl FnOnce(&Sim)) -> Self {
        Self::begin(Sim::new(), None, ids_and(more), generic(), prepare).await
    }

    /// Observes the node by lists alone, on a host whose directories show only these ids.
    pub async fn watch_knowing_only(only: &[&str], prepare: impl FnOnce(&Sim)) -> Self {
        let only = only.iter().map(|id| Id::from(*id).into()).collect();
        Self::watch_on_host(only, prepare).await
    }

    /// Observes the node by lists alone, on a host that knows these ids and their owners.
    pub async fn watch_on_host(only: Vec<HostId>, prepare: impl FnOnce(&Sim)) -> Self {
        let ids = |_: &Sim| -> IdSource {
            Arc::new(move || {
                let only = only.clone();
                Box::pin(async move { Some(only) })
            })
        };
        Self::begin(Sim::new(), None, ids, generic(), prepare).await
    }

    /// Observes the node with this configuration and the kernel's hints.
    pub async fn watch_with_kernel(config: Config, prepare: impl FnOnce(&Sim)) -> Self {
        let sim = Sim::new();
        Self::begin(sim.clone(), Some(Arc::new(sim)), ids, config, prepare).await
    }

    /// Observes the node by lists, with the hints of this kernel.
    pub async fn watch_with_this_kernel(
        kernel: impl Kernel + 'static,
        prepare: impl FnOnce(&Sim),
    ) -> Self {
        Self::begin(Sim::new(), Some(Arc::new(kernel)), ids, generic(), prepare).await
    }

    /// Observes the node with this configuration through another runtime, on a host whose directories also show
    /// these ids.
    pub async fn watch_through(
        sim: Sim,
        runtime: impl Runtime,
        more: &[&str],
        config: Config,
        prepare: impl FnOnce(&Sim),
    ) -> Self {
        Self::begin_through(sim, runtime, None, ids_and(more), config, prepare).await
    }

    async fn begin(
        sim: Sim,
        kernel: Option<Arc<dyn Kernel>>,
        ids: impl FnOnce(&Sim) -> IdSource,
        config: Config,
        prepare: impl FnOnce(&Sim),
    ) -> Self {
        Self::begin_through(sim.clone(), sim, kernel, ids, config, prepare).await
    }

    async fn begin_through(
        sim: Sim,
        runtime: impl Runtime,
        kernel: Option<Arc<dyn Kernel>>,
        ids: impl FnOnce(&Sim) -> IdSource,
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
        let pleg = Pleg::start(Arc::new(runtime), config, environment);
        let subscription = pleg.subscribe().await.unwrap();
        let trace = Arc::<Mutex<Vec<Reported>>>::default();
        let reader = tokio::spawn(read(subscription, began, trace.clone()));
        Self {
            sim,
            pleg,
            counter,
            began,
            trace,
            already_read: Mutex::default(),
            reader,
        }
    }

    /// Lets time pass until this many seconds after the start.
    pub async fn at(&self, time: f64) {
        sleep_until(self.began + seconds(time)).await;
    }

    /// The time, in seconds after the start.
    pub fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Lets this many seconds pass.
    pub async fn pass(&self, time: f64) {
        sleep(seconds(time)).await;
    }

    /// Reads the status every 50 ms until this many seconds have passed.
    pub async fn sample(&self, time: f64, mut look: impl FnMut(f64, &StatusReport)) {
        let end = self.elapsed() + time;
        while self.elapsed() < end {
            look(self.elapsed(), &self.status().await);
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits at most this many seconds until the status matches, and returns how long it took.
    pub async fn wait(
        &self,
        most: f64,
        is_so: impl Fn(&StatusReport) -> bool,
    ) -> Result<f64, Box<StatusReport>> {
        let begun = self.elapsed();
        loop {
            // Everything that is due now is done first.
            sleep(Duration::from_millis(50)).await;
            let (status, waited) = (self.status().await, self.elapsed() - begun);
            if is_so(&status) {
                return Ok(waited);
            }
            if waited >= most {
                return Err(Box::new(status));
            }
        }
    }

    /// Whether the cache shows, without an error and as of a time after `newer_than`, that `app` of a
    /// pod runs.
    pub async fn is_reported_to_run(&self, uid: &PodUid, newer_than: Instant) -> bool {
        let cache = self.pleg.cache().clone();
        let reported = timeout(Duration::ZERO, cache.newer_than(uid, newer_than)).await;
        let Ok(Ok(entry)) = reported else {
            return false;
        };
        let mut containers = entry.status.containers.iter();
        let app = containers.find(|container| &*container.name == "app");
        entry.error.is_none() && app.is_some_and(|app| app.state == ContainerState::Running)
    }

    pub async fn status(&self) -> StatusReport {
        self.pleg.status().await.unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
