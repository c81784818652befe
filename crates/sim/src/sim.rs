//! The simulated node: its world, the faults in force, its stream of events, and who
//! calls what.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cri::Rpc;
use pleg::model::id::Id;
use pleg::model::wall_time::{WallClock, WallTime};
use pleg::runtime::{Announced, CallError};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::births::TaskDirectory;
use crate::faults::{Fault, Faults, Passed, suffer};
use crate::kernel::Processes;
use crate::manner::Manner;
use crate::stream::{Announcer, Reader, Serving};
use crate::stream_faults::StreamFault;
use crate::tally::{Outstanding, Tally};
use crate::watched::WorldGuard;
use crate::world::World;

/// 2026-01-01T00:00:00Z, when a simulated node begins unless it is told.
const BEGINNING: i64 = 1_767_225_600_000_000_000;

/// A simulated runtime. Clones are the same node.
#[derive(Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    faults: Arc<Mutex<Faults>>,
    calls: Tally,
    announced: Arc<Mutex<Announcer>>,
    processes: Arc<Mutex<Processes>>,
    pub(crate) births: TaskDirectory,
    /// The processes that live may be others now. Unlike a watch channel it wakes those who
    /// wait in their order, so that a world goes the same way each time.
    pub(crate) processes_changed: Arc<Notify>,
    /// Whether the pids of containers are told.
    tells_pids: Arc<AtomicBool>,
    /// Whether lists can be had in streams.
    streams_lists: Arc<AtomicBool>,
    /// Whether a sandbox's status holds its containers.
    fills_sandboxes: Arc<AtomicBool>,
    /// Whether a list that is held up shows what there is when it is answered.
    lists_what_is_new: Arc<AtomicBool>,
    manner: Arc<Mutex<Manner>>,
    beginning: WallTime,
    began: Instant,
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
            calls: Tally::default(),
            announced: Arc::default(),
            processes: Arc::default(),
            births: TaskDirectory::default(),
            processes_changed: Arc::default(),
            tells_pids: Arc::new(AtomicBool::new(true)),
            streams_lists: Arc::default(),
            fills_sandboxes: Arc::default(),
            lists_what_is_new: Arc::default(),
            manner: Arc::default(),
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

    /// Tells how the world has changed, unless a status lock keeps events from being made,
    /// or the runtime is stopped.
    pub(crate) fn announce(&self, world: &World) {
        let mut announcer = self.announcer();
        let faults = self.faults();
        if faults.is_locked() || faults.is_stopped() {
            return;
        }
        drop(faults);
        let now = self.now();
        for change in announcer.known.learn(world) {
            announcer.tell(change, now);
        }
    }

    /// Tells what a status lock or a stop has kept from being told.
    fn catch_up(&self) {
        let world = self.world();
        self.announce(&world);
    }

    /// Ends all streams.
    pub fn end_announcements(&self) {
        self.announcer().end();
    }

    /// Tells an event, true or not, to whoever reads the stream.
    pub fn say(&self, event: Announced) {
        let now = self.now();
        self.announcer().say(event, now);
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
        self.processes().kill(&id);
        self.processes_changed.notify_waiters();
    }

    /// Starts another process in a container that is dead, under its id, as Docker does.
    pub fn start_again(&self, pod: &str, container: &str) {
        let now = self.now();
        let mut world = self.world();
        let container = world.container(pod, container);
        self.processes().start_again(&container.id);
        container.start(now);
    }

    pub(crate) fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().expect("no panic while it is held")
    }

    /// Tells nobody the pids of containers, as cri-dockerd does not.
    pub fn tell_no_pids(&self) {
        self.tells_pids.store(false, Ordering::Relaxed);
    }

    /// Serves lists in streams too, on the socket (KEP-5825: CRI-O 1.36, containerd 2.4).
    pub fn stream_lists(&self) {
        self.streams_lists.store(true, Ordering::Relaxed);
    }

    /// Behaves as that runtime from now on; how events are served may be changed afterwards.
    pub fn behave_as(&self, manner: Manner) {
        *self.manner.lock().expect("no panic while it is held") = manner;
        self.serve_stream(manner.serving());
    }

    pub(crate) fn manner(&self) -> Manner {
        *self.manner.lock().expect("no panic while it is held")
    }

    /// Tells a sandbox's containers with its status, in the trait, as CRI-O with pod events
    /// does.
    pub fn fill_sandboxes(&self) {
        self.fills_sandboxes.store(true, Ordering::Relaxed);
    }

    /// Lists what there is when a list is answered. Otherwise a list that is held up shows what there
    /// was when it was requested, as that of containerd 1.7, which takes a copy first.
    pub fn list_what_is_new(&self) {
        self.lists_what_is_new.store(true, Ordering::Relaxed);
    }

    pub(crate) fn fills_sandboxes(&self) -> bool {
        self.fills_sandboxes.load(Ordering::Relaxed)
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

    /// Ends a container of which the list goes on saying what it said, although its status
    /// tells the end, as cri-dockerd's does of a command that does not exist.
    pub fn exit_unlisted(&self, pod: &str, container: &str, code: i32) {
        let now = self.now();
        let mut world = self.world();
        world.container(pod, container).exit_unlisted(code, now);
    }

    /// Ends a container whose exit code the runtime knows that much later, and tells as -1
    /// until then, as CRI-O does without an exit file.
    pub fn exit_with_late_code(&self, pod: &str, container: &str, code: i32, late: Duration) {
        let now = self.now();
        let mut world = self.world();
        let container = world.container(pod, container);
        container.exit(code, now);
        container.code_late = late;
    }

    /// Puts a fault in force.
    pub fn fault(&self, call: Rpc, id: Option<&str>, fault: Fault) {
        self.faults().set(call, id.map(Id::from), fault);
    }

    /// Puts a fault in force for every call of every kind, in place of others for all of a
    /// kind.
    pub fn fault_everything(&self, fault: &Fault) {
        for rpc in crate::SERVED {
            self.fault(rpc, None, fault.clone());
        }
    }

    /// Lifts a fault.
    pub fn lift(&self, call: Rpc, id: Option<&str>) {
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

    /// Stops the runtime as a whole, as `SIGSTOP` does: no call returns, and no event is made.
    pub fn stop(&self) {
        self.faults().stop();
    }

    /// Lets it go on. What has changed meanwhile is announced.
    pub fn go_on(&self) {
        self.faults().go_on();
        self.catch_up();
    }

    /// Restarts the runtime: calls under way fail, streams end, and nobody answers for that
    /// long. The pods live on.
    pub fn restart(&self, down: Duration) {
        self.faults().restart(Instant::now() + down);
        self.end_announcements();
    }

    /// How often a call has made the runtime go away ([`Fault::Crash`]).
    pub fn crashes(&self) -> usize {
        self.faults().crashes()
    }

    /// How often a call was made.
    pub fn calls_made(&self, call: Rpc) -> usize {
        self.calls.made(call)
    }

    /// The most calls for the same (RPC, id) that were ever outstanding at once.
    pub fn most_outstanding(&self) -> usize {
        self.calls.most_alike()
    }

    /// The most calls that were ever outstanding at once, of whatever kind but the stream.
    pub fn most_outstanding_in_all(&self) -> usize {
        self.calls.most()
    }

    /// The calls that are outstanding now, in the order in which they came.
    pub fn outstanding(&self) -> Vec<Outstanding> {
        self.calls.outstanding()
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no panic while it is held")
    }

    pub(crate) fn announcer(&self) -> MutexGuard<'_, Announcer> {
        self.announced.lock().expect("no panic while it is held")
    }

    /// Lets a list suffer what is in force for it; gives what it shows, and how it passed.
    pub(crate) async fn list<T>(
        &self,
        call: Rpc,
        list: impl Fn(&World) -> T,
    ) -> Result<(T, Passed), CallError> {
        let copy = match self.lists_what_is_new.load(Ordering::Relaxed) {
            true => None,
            false => Some(list(&self.world())),
        };
        let passed = self.suffer(call, None).await?;
        let shown = copy.unwrap_or_else(|| list(&self.world()));
        Ok((shown, passed))
    }

    /// Counts a call and lets it suffer what is in force for it.
    pub(crate) async fn suffer(&self, call: Rpc, id: Option<&Id>) -> Result<Passed, CallError> {
        let counted = self.calls.count(call, id);
        suffer(&self.faults, call, id, |by| counted.is_held(by)).await
    }
}
