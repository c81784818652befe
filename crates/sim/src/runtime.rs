//! The simulated node as the runtime that pleg watches, in the tokio clock's time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pleg::id::Id;
use pleg::listed::{ContainerState, ListedContainer, ListedSandbox};
use pleg::runtime::{Announced, Announcements, Call, CallError, Listing, Runtime, RuntimeVersion};
use pleg::status::{ContainerStatus, SandboxStatus};
use pleg::wall_time::{WallClock, WallTime};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::faults::{Fault, Faults, suffer};
use crate::watched::{Known, WorldGuard};
use crate::world::{Container, Pod, Sandbox, World};

/// 2026-01-01T00:00:00Z, when every simulated node begins.
const BEGINNING: i64 = 1_767_225_600_000_000_000;

/// The image of every container.
pub(crate) const IMAGE: &str = "pleg.test/busybox:latest";

/// A simulated runtime. Clones are the same node.
#[derive(Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    faults: Arc<Mutex<Faults>>,
    calls: Arc<Mutex<Tally>>,
    announced: Arc<Mutex<Announcer>>,
    /// Processes that died although the runtime does not know it yet.
    pub(crate) dead: Arc<watch::Sender<BTreeSet<Id>>>,
    /// Whether pids are told.
    pids: Arc<AtomicBool>,
    began: Instant,
}

/// Tells the world's changes to whoever reads the stream.
#[derive(Default)]
struct Announcer {
    known: Known,
    silent: bool,
    ends_at_once: bool,
    readers: Vec<mpsc::UnboundedSender<Result<Announced, CallError>>>,
}

/// Who called what, and how often at once.
#[derive(Default)]
struct Tally {
    made: BTreeMap<Call, usize>,
    outstanding: BTreeMap<(Call, Option<Id>), usize>,
    most_outstanding: usize,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// An empty node.
    pub fn new() -> Self {
        Self {
            world: Arc::default(),
            faults: Arc::default(),
            calls: Arc::default(),
            announced: Arc::default(),
            dead: Arc::new(watch::Sender::default()),
            pids: Arc::new(AtomicBool::new(true)),
            began: Instant::now(),
        }
    }

    /// The time of day on this node.
    pub fn now(&self) -> WallTime {
        let nanos = BEGINNING + self.began.elapsed().as_nanos() as i64;
        WallTime::from_unix_nanos(nanos).expect("it is not 1970")
    }

    /// A clock that tells it.
    pub fn clock(&self) -> WallClock {
        let sim = self.clone();
        Arc::new(move || sim.now())
    }

    /// The world, to be changed at once.
    pub fn world(&self) -> WorldGuard<'_> {
        let world = self.world.lock().expect("no panic while it is held");
        WorldGuard::new(self, world)
    }

    /// Tells how the world has changed.
    pub(crate) fn announce(&self, known: Known) {
        let mut announcer = self.announcer();
        let mut events = known.since(&announcer.known);
        announcer.known = known;
        if announcer.silent {
            events.clear();
        }
        for mut event in events {
            event.created_at = Some(self.now());
            let told = |reader: &mpsc::UnboundedSender<_>| reader.send(Ok(event.clone())).is_ok();
            announcer.readers.retain(told);
        }
        self.dead.send_modify(|_| ());
    }

    /// Ends all streams.
    pub fn end_announcements(&self) {
        self.announcer().readers.clear();
    }

    /// Makes the stream silent, or ends its silence.
    pub fn silence(&self, silent: bool) {
        self.announcer().silent = silent;
    }

    /// Makes streams end as soon as they are opened, as CRI-O's do without pod events.
    pub fn end_announcements_at_once(&self, ends: bool) {
        self.announcer().ends_at_once = ends;
    }

    /// Tells nobody the pids of containers, as cri-dockerd does not.
    pub fn tell_no_pids(&self) {
        self.pids.store(false, Ordering::Relaxed);
    }

    /// Ends a container's process. The runtime goes on saying that it runs, until
    /// [`Self::exit`].
    pub fn kill(&self, pod: &str, container: &str) {
        let id = self.world().container(pod, container).id.clone();
        self.dead.send_modify(|dead| {
            dead.insert(id);
        });
    }

    /// Adds a pod whose containers run.
    pub fn run(&self, name: &str, containers: &[&str]) {
        let now = self.now();
        self.world().run(name, containers, now);
    }

    /// Ends a container.
    pub fn exit(&self, pod: &str, container: &str, code: i32) {
        let now = self.now();
        self.world().container(pod, container).exit(code, now);
    }

    /// Puts a fault in force.
    pub fn fault(&self, call: Call, id: Option<&str>, fault: Fault) {
        self.faults().set(call, id.map(Id::from), fault);
    }

    /// Lifts a fault.
    pub fn lift(&self, call: Call, id: Option<&str>) {
        self.faults().lift(call, id.map(Id::from));
    }

    /// Lifts all faults.
    pub fn lift_all(&self) {
        self.faults().lift_all();
    }

    /// How often a call was made.
    pub fn calls_made(&self, call: Call) -> usize {
        self.tally().made.get(&call).copied().unwrap_or_default()
    }

    /// The most calls for the same (RPC, id) that were ever outstanding at once.
    pub fn most_outstanding(&self) -> usize {
        self.tally().most_outstanding
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no panic while it is held")
    }

    fn announcer(&self) -> MutexGuard<'_, Announcer> {
        self.announced.lock().expect("no panic while it is held")
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.calls.lock().expect("no panic while it is held")
    }

    /// Counts a call and lets it suffer what is in force for it.
    pub(crate) async fn call(&self, call: Call, id: Option<&Id>) -> Result<(), CallError> {
        let _outstanding = Outstanding::new(self, call, id);
        suffer(&self.faults, call, id).await
    }
}

/// Counts a call as outstanding until dropped: also when the caller gave it up.
struct Outstanding<'a> {
    sim: &'a Sim,
    key: (Call, Option<Id>),
}

impl<'a> Outstanding<'a> {
    fn new(sim: &'a Sim, call: Call, id: Option<&Id>) -> Self {
        let key = (call, id.cloned());
        let mut tally = sim.tally();
        *tally.made.entry(call).or_default() += 1;
        let outstanding = tally.outstanding.entry(key.clone()).or_default();
        *outstanding += 1;
        let outstanding = *outstanding;
        tally.most_outstanding = tally.most_outstanding.max(outstanding);
        Self { sim, key }
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if let Some(outstanding) = self.sim.tally().outstanding.get_mut(&self.key) {
            *outstanding -= 1;
        }
    }
}

impl Runtime for Sim {
    async fn version(&self) -> Result<RuntimeVersion, CallError> {
        self.call(Call::Version, None).await?;
        Ok(RuntimeVersion {
            name: "pleg-sim".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            api_version: "v1".into(),
        })
    }

    async fn list_sandboxes(&self) -> Result<Listing<ListedSandbox>, CallError> {
        self.call(Call::ListPodSandbox, None).await?;
        let world = self.world();
        let rows = world
            .sandboxes()
            .map(|(pod, it)| Arc::new(listed_sandbox(pod, it)));
        let rows = rows.collect();
        Ok(Listing { rows, bytes: 0 })
    }

    async fn list_containers(&self) -> Result<Listing<ListedContainer>, CallError> {
        self.call(Call::ListContainers, None).await?;
        let world = self.world();
        let rows = world
            .containers()
            .map(|(pod, it)| Arc::new(listed_container(pod, it)));
        let rows = rows.collect();
        Ok(Listing { rows, bytes: 0 })
    }

    async fn sandbox_status(&self, id: &Id) -> Result<SandboxStatus, CallError> {
        self.call(Call::PodSandboxStatus, Some(id)).await?;
        let world = self.world();
        let sandbox = world.sandboxes().find(|(_, sandbox)| sandbox.id == *id);
        sandbox
            .map(|(pod, sandbox)| sandbox_status(pod, sandbox))
            .ok_or_else(|| CallError::NotFound(format!("sandbox {id}").into()))
    }

    async fn container_status(&self, id: &Id) -> Result<ContainerStatus, CallError> {
        self.call(Call::ContainerStatus, Some(id)).await?;
        let world = self.world();
        let container = world
            .containers()
            .find(|(_, container)| container.id == *id);
        container
            .map(|(pod, container)| container_status(pod, container))
            .ok_or_else(|| CallError::NotFound(format!("container {id}").into()))
    }

    async fn container_pid(&self, id: &Id) -> Result<Option<u32>, CallError> {
        self.call(Call::ContainerStatus, Some(id)).await?;
        let pid = self.pid(id);
        Ok(pid.filter(|_| self.pids.load(Ordering::Relaxed)))
    }

    async fn announcements(&self) -> Result<Announcements, CallError> {
        self.call(Call::GetContainerEvents, None).await?;
        let (reader, events) = mpsc::unbounded_channel();
        let mut announcer = self.announcer();
        if !announcer.ends_at_once {
            announcer.readers.push(reader);
        }
        Ok(Box::pin(UnboundedReceiverStream::new(events)))
    }
}

fn listed_sandbox(pod: &Pod, sandbox: &Sandbox) -> ListedSandbox {
    ListedSandbox {
        id: sandbox.id.clone(),
        pod: Some(pod.pod.clone()),
        state: sandbox.state,
        attempt: sandbox.attempt,
        created_at: Some(sandbox.created_at),
    }
}

fn listed_container(pod: &Pod, container: &Container) -> ListedContainer {
    ListedContainer {
        id: container.id.clone(),
        sandbox_id: container.sandbox_id.clone(),
        pod: Some(pod.pod.clone()),
        name: container.name.as_str().into(),
        state: container.state,
        attempt: container.attempt,
        created_at: Some(container.created_at),
    }
}

fn sandbox_status(pod: &Pod, sandbox: &Sandbox) -> SandboxStatus {
    SandboxStatus {
        id: sandbox.id.clone(),
        state: sandbox.state,
        attempt: sandbox.attempt,
        created_at: Some(sandbox.created_at),
        ips: sandbox.ips.clone(),
        pod: Some(pod.pod.clone()),
    }
}

fn container_status(pod: &Pod, container: &Container) -> ContainerStatus {
    let exited = container.state == ContainerState::Exited;
    let ended = container.ended.filter(|_| exited);
    ContainerStatus {
        id: container.id.clone(),
        name: container.name.as_str().into(),
        state: container.state,
        attempt: container.attempt,
        exit_code: ended.map(|(_, code)| code),
        reason: ended.map(|(_, code)| reason(code).into()),
        created_at: Some(container.created_at),
        started_at: container.started_at,
        finished_at: ended.map(|(time, _)| time),
        image: IMAGE.into(),
        pod: Some(pod.pod.clone()),
    }
}

/// A runtime's word for an exit code.
pub(crate) fn reason(exit_code: i32) -> &'static str {
    if exit_code == 0 { "Completed" } else { "Error" }
}
