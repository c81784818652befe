//! The simulated node: its world, the faults in force, its stream of events, and who
//! calls what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pleg::id::Id;
use pleg::runtime::CallError;
use pleg::wall_time::{WallClock, WallTime};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::faults::{Fault, Faults, Passed, suffer};
use crate::rpc::Rpc;
use crate::stream::{Announcer, Reader, Serving};
use crate::stream_faults::StreamFault;
use crate::watched::WorldGuard;
use crate::world::World;

/// 2026-01-01T00:00:00Z, when a simulated node begins unless it is told.
const BEGINNING: i64 = 1_767_225_600_000_000_000;

/// A simulated runtime. Clones are the same node.
#[derive(Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    faults: Arc<Mutex<Faults>>,
    calls: Arc<Mutex<Tally>>,
    announced: Arc<Mutex<Announcer>>,
    /// Processes that died although the runtime does not know it yet.
    pub(crate) dead: Arc<watch::Sender<BTreeSet<Id>>>,
    /// Whether the pids of containers are told.
    tells_pids: Arc<AtomicBool>,
    /// Whether lists can be had in streams.
    streams_lists: Arc<AtomicBool>,
    beginning: WallTime,
    began: Instant,
}

/// Who called what, and how often at once.
#[derive(Default)]
struct Tally {
    made: BTreeMap<Rpc, usize>,
    outstanding: BTreeMap<(Rpc, Option<Id>), usize>,
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
        Self::beginning_at(WallTime::from_unix_nanos(BEGINNING).expect("it is not 1970"))
    }

    /// An empty node whose time of day is this one now.
    pub fn beginning_at(beginning: WallTime) -> Self {
        Self {
            world: Arc::default(),
            faults: Arc::default(),
            calls: Arc::default(),
            announced: Arc::default(),
            dead: Arc::new(watch::Sender::default()),
            tells_pids: Arc::new(AtomicBool::new(true)),
            streams_lists: Arc::default(),
            beginning,
            began: Instant::now(),
        }
    }

    /// The time of day on this node.
    pub fn now(&self) -> WallTime {
        let nanos = self.beginning.as_unix_nanos() + self.began.elapsed().as_nanos() as i64;
        WallTime::from_unix_nanos(nanos).unwrap_or(self.beginning)
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

    /// Tells how the world has changed, unless a status lock keeps events from being made.
    pub(crate) fn announce(&self, world: &World) {
        let mut announcer = self.announcer();
        if self.faults().is_locked() {
            return;
        }
        let now = self.now();
        for change in announcer.known.learn(world) {
            announcer.tell(change, now);
        }
    }

    /// Tells what a status lock has kept from being told.
    fn catch_up(&self) {
        let world = self.world();
        self.announce(&world);
    }

    /// Ends all streams.
    pub fn end_announcements(&self) {
        self.announcer().end();
    }

    /// Puts a fault of the stream in force, in place of another of its kind.
    pub fn disturb_stream(&self, fault: StreamFault) {
        self.announcer().faults.set(fault);
    }

    /// Lifts the faults of the stream.
    pub fn calm_stream(&self) {
        self.announcer().calm();
    }

    /// Serves the stream of events that way from now on; streams that are open end.
    pub fn serve_stream(&self, serving: Serving) {
        let mut announcer = self.announcer();
        announcer.serving = serving;
        announcer.end();
    }

    /// How many events were lost because somebody did not read them.
    pub fn events_discarded(&self) -> usize {
        self.announcer().discarded()
    }

    /// Opens the stream of events.
    pub(crate) async fn read_stream(&self) -> Result<Reader, CallError> {
        self.suffer(Rpc::GetContainerEvents, None).await?;
        self.announcer().open()
    }

    /// Ends a container's process. The runtime goes on saying that it runs, until
    /// [`Self::exit`].
    pub fn kill(&self, pod: &str, container: &str) {
        let id = self.world().container(pod, container).id.clone();
        self.dead.send_modify(|dead| {
            dead.insert(id);
        });
    }

    /// Tells nobody the pids of containers, as cri-dockerd does not.
    pub fn tell_no_pids(&self) {
        self.tells_pids.store(false, Ordering::Relaxed);
    }

    /// Serves lists in streams too, on the socket (KEP-5825: CRI-O 1.36, containerd 2.4).
    pub fn stream_lists(&self) {
        self.streams_lists.store(true, Ordering::Relaxed);
    }

    pub(crate) fn streams_lists(&self) -> bool {
        self.streams_lists.load(Ordering::Relaxed)
    }

    pub(crate) fn tells_pids(&self) -> bool {
        self.tells_pids.load(Ordering::Relaxed)
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
    pub fn fault(&self, call: impl Into<Rpc>, id: Option<&str>, fault: Fault) {
        self.faults().set(call, id.map(Id::from), fault);
    }

    /// Lifts a fault.
    pub fn lift(&self, call: impl Into<Rpc>, id: Option<&str>) {
        self.faults().lift(call, id.map(Id::from));
    }

    /// Lifts all faults, of the calls and of the stream.
    pub fn lift_all(&self) {
        self.faults().lift_all();
        self.calm_stream();
        self.catch_up();
    }

    /// Something takes the status lock of a container and does not give it back, as a stuck
    /// update does with containerd 1.7: `ListContainers` hangs for all, `ContainerStatus` of
    /// this one, creating and starting of any; and no event is made.
    pub fn status_lock(&self, pod: &str, container: &str) {
        let id = self.world().container(pod, container).id.clone();
        self.faults().lock(id);
    }

    /// Gives it back. What has changed meanwhile is announced.
    pub fn status_unlock(&self, pod: &str, container: &str) {
        let id = self.world().container(pod, container).id.clone();
        self.faults().unlock(&id);
        self.catch_up();
    }

    /// Restarts the runtime: calls under way fail, streams end, and nobody answers for that
    /// long. The pods live on.
    pub fn restart(&self, down: Duration) {
        self.faults().restart(Instant::now() + down);
        self.end_announcements();
    }

    /// How often a call was made.
    pub fn calls_made(&self, call: impl Into<Rpc>) -> usize {
        let made = self.tally().made.get(&call.into()).copied();
        made.unwrap_or_default()
    }

    /// The most calls for the same (RPC, id) that were ever outstanding at once.
    pub fn most_outstanding(&self) -> usize {
        self.tally().most_outstanding
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no panic while it is held")
    }

    fn announcer(&self) -> MutexGuard<'_, Announcer> {
        self.announced.lock().expect("no panic while it is held")
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.calls.lock().expect("no panic while it is held")
    }

    /// Counts a call and lets it suffer what is in force for it.
    pub(crate) async fn suffer(
        &self,
        call: impl Into<Rpc>,
        id: Option<&Id>,
    ) -> Result<Passed, CallError> {
        let rpc = call.into();
        let _outstanding = Outstanding::new(self, rpc, id);
        suffer(&self.faults, rpc, id).await
    }
}

/// Counts a call as outstanding until dropped: also when the caller gave it up.
struct Outstanding<'a> {
    sim: &'a Sim,
    key: (Rpc, Option<Id>),
}

impl<'a> Outstanding<'a> {
    fn new(sim: &'a Sim, rpc: Rpc, id: Option<&Id>) -> Self {
        let key = (rpc, id.cloned());
        let mut tally = sim.tally();
        *tally.made.entry(rpc).or_default() += 1;
        let outstanding = tally.outstanding.entry(key.clone()).or_default();
        *outstanding += 1;
        let outstanding = *outstanding;
        tally.most_outstanding = tally.most_outstanding.max(outstanding);
        Self { sim, key }
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        let mut tally = self.sim.tally();
        if let Some(outstanding) = tally.outstanding.get_mut(&self.key) {
            *outstanding -= 1;
            if *outstanding == 0 {
                tally.outstanding.remove(&self.key);
            }
        }
    }
}
