//! A simulated node that an engine observes in virtual time. A test changes the node and reads the trace
//! of what was reported.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use pleg::kernel::Kernel;
use pleg::model::event::{Event, EventType, Source};
use pleg::model::id::{HostId, Id, Owner, PodRef, PodUid};
use pleg::model::listed::ContainerState;
use pleg::model::snapshot::Counts;
use pleg::model::wall_time::WallTime;
use pleg::out::coverage::PassKind;
use pleg::out::health::{HealthReport, HealthState, StuckCall};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::runtime::{CallError, Rpc, Runtime};
use pleg::{Config, Environment, IdSource, Measurement, Mode, Observer, Pleg, no_ids};
use sim::{Fault, Sim};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep, sleep_until, timeout};

/// The calls that request the status of an id: of a container, and of a sandbox.
pub const STATUSES: [Rpc; 2] = [Rpc::ContainerStatus, Rpc::PodSandboxStatus];

/// Both lists.
pub const LISTS: [Rpc; 2] = [Rpc::ListPodSandbox, Rpc::ListContainers];

/// Whether the status reports no problem.
pub fn is_healthy(status: &StatusReport) -> bool {
    status.health.state == HealthState::Healthy
}

/// A fault: the call fails with an error that is no evidence.
pub fn broken() -> Fault {
    Fault::Fail(CallError::Refused("Unknown: broken".into()))
}

/// A fault: the list is larger than the receive limit.
pub fn too_large() -> Fault {
    Fault::Fail(CallError::TooLarge("by far".into()))
}

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

/// What was reported, and how many seconds after the start.
#[derive(Clone, Debug)]
pub struct Reported {
    pub at: f64,
    pub record: Record,
}

/// Keeps what an observer receives.
#[derive(Default)]
pub struct Counter {
    /// The last counts.
    pub counts: Mutex<Counts>,
    /// When each pass began.
    pub seen: Mutex<Vec<WallTime>>,
    /// How many relists ended.
    pub relists: Mutex<usize>,
    /// How long each step takes in which a call ends.
    turn: Mutex<Duration>,
}

impl Counter {
    /// From now on each step in which a call ends takes this long, as on a throttled node.
    pub fn make_turns_take(&self, time: Duration) {
        *self.turn.lock().unwrap() = time;
    }

    fn take_a_turn(&self) {
        let turn = *self.turn.lock().unwrap();
        if turn > Duration::ZERO {
            // The first `poll()` advances the clock.
            let advance = pin!(advance(turn));
            let mut context = Context::from_waker(Waker::noop());
            let _ = advance.poll(&mut context);
        }
    }
}

impl Observer for Counter {
    fn observe(&self, measurement: &Measurement) {
        match measurement {
            Measurement::CallEnded { .. } => self.take_a_turn(),
            Measurement::Seen(pass, counts) => {
                *self.counts.lock().unwrap() = *counts;
                self.seen.lock().unwrap().push(pass.begun.wall);
                *self.relists.lock().unwrap() += usize::from(pass.kind == PassKind::List);
            }
            Measurement::RelistFailed(_) => *self.relists.lock().unwrap() += 1,
            _ => {}
        }
    }
}

/// The configuration for observing by lists alone.
pub fn generic() -> Config {
    Config {
        mode: Mode::Generic,
        ..Config::default()
    }
}

/// The ids of the containers and sandboxes among the stuck calls.
pub fn named(stuck: &[StuckCall]) -> Vec<Id> {
    stuck.iter().filter_map(|call| call.id.clone()).collect()
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

    /// Everything that was reported.
    pub fn trace(&self) -> Vec<Reported> {
        self.trace.lock().unwrap().clone()
    }

    /// The health reports after this time, and their times.
    pub fn health_reports(&self, after: f64) -> Vec<(f64, HealthReport)> {
        let trace = self.trace().into_iter().filter(|entry| entry.at > after);
        let reports = trace.filter_map(|entry| match entry.record {
            Record::Health(health) => Some((entry.at, health)),
            _ => None,
        });
        reports.collect()
    }

    /// How many events were reported.
    pub fn event_count(&self) -> usize {
        let trace = self.trace.lock().unwrap();
        let is_event = |entry: &&Reported| matches!(entry.record, Record::Event(_));
        trace.iter().filter(is_event).count()
    }

    /// When each exit of a container was reported.
    pub fn deaths(&self, id: &str) -> Vec<f64> {
        let trace = self.trace.lock().unwrap();
        let deaths = trace.iter().filter(|entry| {
            let Record::Event(event) = &entry.record else {
                return false;
            };
            let is_its = event.id.as_ref().is_some_and(|it| it.as_str() == id);
            is_its && event.event_type == EventType::ContainerDied
        });
        deaths.map(|entry| entry.at).collect()
    }

    /// When the first pass was reported as complete.
    pub fn synced(&self) -> Option<f64> {
        let trace = self.trace.lock().unwrap();
        let mut synced = trace
            .iter()
            .filter(|entry| matches!(entry.record, Record::Synced { .. }));
        synced.next().map(|entry| entry.at)
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

    /// What was reported since the last call, one line for each record.
    #[track_caller]
    pub fn reported(&self) -> String {
        let trace = self.trace.lock().unwrap();
        let mut already_read = self.already_read.lock().unwrap();
        let new = &trace[*already_read..];
        let line = |entry: &Reported| format!("{:.3} {}", entry.at, line(&entry.record));
        let lines: Vec<String> = new.iter().map(line).collect();
        *already_read = trace.len();
        lines.join("\n")
    }

    /// Compares what was reported since the last call; lines may be indented.
    #[track_caller]
    pub fn assert_reported(&self, expected: &str) {
        let lines = expected
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        assert_eq!(self.reported(), lines.collect::<Vec<_>>().join("\n"));
    }

    /// Asserts that no event was reported since the last call of [`Self::reported`].
    #[track_caller]
    pub fn assert_reported_no_event(&self) {
        let trace = self.trace.lock().unwrap();
        let mut new = trace[*self.already_read.lock().unwrap()..].iter();
        let event = new.find(|entry| matches!(entry.record, Record::Event(_)));
        assert!(event.is_none(), "{event:?}");
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

/// What the directories of a real runtime would show.
fn ids(sim: &Sim) -> IdSource {
    let sim = sim.clone();
    Arc::new(move || {
        let world = sim.world();
        let known = |id: &Id, pod: &PodRef, container| HostId {
            id: id.clone(),
            owner: Some(Owner {
                pod: pod.clone(),
                container,
            }),
        };
        let sandboxes = world
            .sandboxes()
            .map(|(of, it)| known(&it.id, &of.pod, None));
        let containers = world.containers().map(|(of, it)| {
            let name = Some(it.name.as_str().into());
            known(&it.id, &of.pod, name)
        });
        let ids: Vec<HostId> = sandboxes.chain(containers).collect();
        Box::pin(async move { Some(ids) })
    })
}

/// These ids, and those that the directories of a real runtime would show.
fn ids_and(more: &[&str]) -> impl FnOnce(&Sim) -> IdSource {
    let more: Vec<HostId> = more.iter().map(|id| Id::from(*id).into()).collect();
    move |sim| {
        let known = ids(sim);
        Arc::new(move || {
            let (known, more) = (known(), more.clone());
            Box::pin(async move { Some(known.await?.into_iter().chain(more).collect()) })
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(mut subscription: Subscription, began: Instant, trace: Arc<Mutex<Vec<Reported>>>) {
    while let Some(record) = subscription.next().await {
        let at = began.elapsed().as_secs_f64();
        trace.lock().unwrap().push(Reported { at, record });
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
