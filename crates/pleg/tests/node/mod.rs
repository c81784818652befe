//! A simulated node that is watched in virtual time: what happens to it goes in, a trace
//! of what was told comes out.

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
use pleg::out::coverage::{Pass, PassKind};
use pleg::out::health::{HealthReport, HealthState, StuckCall};
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::out::told::Record;
use pleg::runtime::{CallError, Rpc, Runtime};
use pleg::{Config, Environment, IdSource, Mode, Observer, Pleg, no_ids};
use sim::{Fault, Sim};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep, sleep_until, timeout};

/// Both calls for the status of an id.
pub const STATUSES: [Rpc; 2] = [Rpc::ContainerStatus, Rpc::PodSandboxStatus];

/// Both lists.
pub const LISTS: [Rpc; 2] = [Rpc::ListPodSandbox, Rpc::ListContainers];

/// Whether it says that all is well.
pub fn is_healthy(status: &StatusReport) -> bool {
    status.health.state == HealthState::Healthy
}

/// A call that fails in a way that says nothing.
pub fn broken() -> Fault {
    Fault::Fail(CallError::Refused("Unknown: broken".into()))
}

/// A list that is larger than a message may be.
pub fn too_large() -> Fault {
    Fault::Fail(CallError::TooLarge("by far".into()))
}

/// `locked`, `a`, `b` and some more, each with `app`.
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

/// A watched node. The clock stands still until a test waits.
pub struct Node {
    pub sim: Sim,
    pub pleg: Pleg,
    pub counter: Arc<Counter>,
    began: Instant,
    heard: Arc<Mutex<Vec<Heard>>>,
    /// How much of what was heard was asked for already.
    asked: Mutex<usize>,
    reader: JoinHandle<()>,
}

/// What was told, and how many seconds after the start.
#[derive(Clone, Debug)]
pub struct Heard {
    pub at: f64,
    pub record: Record,
}

/// Remembers what an observer was told.
#[derive(Default)]
pub struct Counter {
    /// The last counts.
    pub counts: Mutex<Counts>,
    /// As of when was seen, each time.
    pub seen: Mutex<Vec<WallTime>>,
    /// How many relists ended.
    pub relists: Mutex<usize>,
    /// How long the turn takes in which a call ends.
    turn: Mutex<Duration>,
}

impl Counter {
    /// From now on each turn in which a call ends takes this long, as on a throttled node.
    pub fn make_turns_take(&self, time: Duration) {
        *self.turn.lock().unwrap() = time;
    }
}

impl Observer for Counter {
    fn call_ended(&self, _call: Rpc, _took: Duration, _error: Option<&CallError>) {
        let turn = *self.turn.lock().unwrap();
        if turn > Duration::ZERO {
            // The clock moves when this is first polled.
            let advance = pin!(advance(turn));
            let mut context = Context::from_waker(Waker::noop());
            let _ = advance.poll(&mut context);
        }
    }

    fn seen(&self, look: &Pass, counts: Counts) {
        *self.counts.lock().unwrap() = counts;
        self.seen.lock().unwrap().push(look.begun.wall);
        *self.relists.lock().unwrap() += usize::from(look.kind == PassKind::List);
    }

    fn relist_failed(&self, _took: Duration) {
        *self.relists.lock().unwrap() += 1;
    }
}

/// By lists alone.
pub fn generic() -> Config {
    Config {
        mode: Mode::Generic,
        ..Config::default()
    }
}

/// The ids of containers and sandboxes among what is stuck.
pub fn named(stuck: &[StuckCall]) -> Vec<Id> {
    stuck.iter().filter_map(|call| call.id.clone()).collect()
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Node {
    /// Watches a node as `prepare` leaves it, by lists alone.
    pub async fn watch(prepare: impl FnOnce(&Sim)) -> Self {
        Self::watch_with(generic(), prepare).await
    }

    /// Watches it by its event stream too.
    pub async fn watch_stream(prepare: impl FnOnce(&Sim)) -> Self {
        Self::watch_with(Config::default(), prepare).await
    }

    /// Watches it as `config` says.
    pub async fn watch_with(config: Config, prepare: impl FnOnce(&Sim)) -> Self {
        Self::begin(Sim::new(), None, ids, config, prepare).await
    }

    /// Whoever asks for this id ends the runtime, which is back at once; until this is aborted.
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

    /// Watches it by lists alone, on a host of which nothing is known.
    pub async fn watch_knowing_no_host(prepare: impl FnOnce(&Sim)) -> Self {
        Self::begin(Sim::new(), None, |_| no_ids(), generic(), prepare).await
    }

    /// Watches it by lists and the kernel's hints, on a host of which nothing is known.
    pub async fn watch_with_kernel_knowing_no_host(prepare: impl FnOnce(&Sim)) -> Self {
        let sim = Sim::new();
        let kernel = Some(Arc::new(sim.clone()) as Arc<dyn Kernel>);
        Self::begin(sim, kernel, |_| no_ids(), generic(), prepare).await
    }

    /// Watches it by lists alone, on a host whose folders show these ids too.
    pub async fn watch_knowing_also(more: &[&str], prepare: impl FnOnce(&Sim)) -> Self {
        Self::begin(Sim::new(), None, ids_and(more), generic(), prepare).await
    }

    /// Watches it by lists alone, on a host whose folders show these ids and no others.
    pub async fn watch_knowing_only(only: &[&str], prepare: impl FnOnce(&Sim)) -> Self {
        let only = only.iter().map(|id| Id::from(*id).into()).collect();
        Self::watch_on_host(only, prepare).await
    }

    /// Watches it by lists alone, on a host that knows these ids and their owners.
    pub async fn watch_on_host(only: Vec<HostId>, prepare: impl FnOnce(&Sim)) -> Self {
        let ids = |_: &Sim| -> IdSource {
            Arc::new(move || {
                let only = only.clone();
                Box::pin(async move { Some(only) })
            })
        };
        Self::begin(Sim::new(), None, ids, generic(), prepare).await
    }

    /// Watches it as `config` says, with the kernel's hints.
    pub async fn watch_with_kernel(config: Config, prepare: impl FnOnce(&Sim)) -> Self {
        let sim = Sim::new();
        Self::begin(sim.clone(), Some(Arc::new(sim)), ids, config, prepare).await
    }

    /// Watches it by lists, and deaths by this kernel.
    pub async fn watch_with_this_kernel(
        kernel: impl Kernel + 'static,
        prepare: impl FnOnce(&Sim),
    ) -> Self {
        Self::begin(Sim::new(), Some(Arc::new(kernel)), ids, generic(), prepare).await
    }

    /// Watches it as `config` says, through a runtime that answers in its place, on a host whose
    /// folders show these ids too.
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
        let heard = Arc::<Mutex<Vec<Heard>>>::default();
        let reader = tokio::spawn(read(subscription, began, heard.clone()));
        Self {
            sim,
            pleg,
            counter,
            began,
            heard,
            asked: Mutex::default(),
            reader,
        }
    }

    /// Lets time pass until so many seconds after the start.
    pub async fn at(&self, time: f64) {
        sleep_until(self.began + seconds(time)).await;
    }

    /// How many seconds after the start it is.
    pub fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Lets so many seconds pass.
    pub async fn pass(&self, time: f64) {
        sleep(seconds(time)).await;
    }

    /// All that was told.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The reports of health that came after this time, and when.
    pub fn health_reports(&self, after: f64) -> Vec<(f64, HealthReport)> {
        let heard = self.heard().into_iter().filter(|heard| heard.at > after);
        let reports = heard.filter_map(|heard| match heard.record {
            Record::Health(health) => Some((heard.at, health)),
            _ => None,
        });
        reports.collect()
    }

    /// How many events were told.
    pub fn heard_events(&self) -> usize {
        let heard = self.heard.lock().unwrap();
        let is_event = |heard: &&Heard| matches!(heard.record, Record::Event(_));
        heard.iter().filter(is_event).count()
    }

    /// When it was told that a container died, each time.
    pub fn deaths(&self, id: &str) -> Vec<f64> {
        let heard = self.heard.lock().unwrap();
        let deaths = heard.iter().filter(|heard| {
            let Record::Event(event) = &heard.record else {
                return false;
            };
            let is_its = event.id.as_ref().is_some_and(|it| it.as_str() == id);
            is_its && event.event_type == EventType::ContainerDied
        });
        deaths.map(|heard| heard.at).collect()
    }

    /// When the first look was told to be complete.
    pub fn synced(&self) -> Option<f64> {
        let heard = self.heard.lock().unwrap();
        let mut synced = heard
            .iter()
            .filter(|heard| matches!(heard.record, Record::Synced { .. }));
        synced.next().map(|heard| heard.at)
    }

    /// Looks at the status every 50 ms until so many seconds have passed.
    pub async fn sample(&self, time: f64, mut look: impl FnMut(f64, &StatusReport)) {
        let end = self.elapsed() + time;
        while self.elapsed() < end {
            look(self.elapsed(), &self.status().await);
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits at most so many seconds until the status is so, and says how long it took.
    pub async fn wait(
        &self,
        most: f64,
        is_so: impl Fn(&StatusReport) -> bool,
    ) -> Result<f64, Box<StatusReport>> {
        let begun = self.elapsed();
        loop {
            // Whatever goes on in this very moment is done first.
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

    /// What was told since the last call, a line each.
    #[track_caller]
    pub fn told(&self) -> String {
        let heard = self.heard.lock().unwrap();
        let mut asked = self.asked.lock().unwrap();
        let new = &heard[*asked..];
        let line = |heard: &Heard| format!("{:.3} {}", heard.at, line(&heard.record));
        let lines: Vec<String> = new.iter().map(line).collect();
        *asked = heard.len();
        lines.join("\n")
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

    /// That no event was told since the last call of [`Self::told`].
    #[track_caller]
    pub fn assert_told_no_event(&self) {
        let heard = self.heard.lock().unwrap();
        let mut new = heard[*self.asked.lock().unwrap()..].iter();
        let event = new.find(|heard| matches!(heard.record, Record::Event(_)));
        assert!(event.is_none(), "{event:?}");
    }

    /// Whether the cache says without an error, as of later than this, that `app` of a pod runs.
    pub async fn is_told_to_run(&self, uid: &PodUid, newer_than: Instant) -> bool {
        let cache = self.pleg.cache().clone();
        let told = timeout(Duration::ZERO, cache.newer_than(uid, newer_than)).await;
        let Ok(Ok(entry)) = told else {
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

/// What the folders of a real runtime would show.
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

/// These ids beside what the folders of a real runtime would show.
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

async fn read(mut subscription: Subscription, began: Instant, heard: Arc<Mutex<Vec<Heard>>>) {
    while let Some(record) = subscription.next().await {
        let at = began.elapsed().as_secs_f64();
        heard.lock().unwrap().push(Heard { at, record });
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
