//! The simulated node: its world, its faults, its stream of events, and the calls that it counts.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cri::Rpc;
use pleg::model::id::Id;
use pleg::model::wall_time::{WallClock, WallTime};
use pleg::runtime::{Announced, CallError};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::births::TaskDirectory;
use crate::changes::WorldGuard;
use crate::faults::{AnswerForm, Fault, Faults, pass_faults};
use crate::kernel::Processes;
use crate::manner::Manner;
use crate::stream::{EventSource, Reader, Serving};
use crate::stream_faults::StreamFault;
use crate::tally::{Outstanding, Tally};
use crate::world::World;

/// 2026-01-01T00:00:00Z, the default time of day at which a simulated node begins.
const START_UNIX_NANOS: i64 = 1_767_225_600_000_000_000;

/// A simulated runtime. Clones share one node.
#[derive(Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    faults: Arc<Mutex<Faults>>,
    calls: Tally,
    events: Arc<Mutex<EventSource>>,
    processes: Arc<Mutex<Processes>>,
    pub(crate) births: TaskDirectory,
    /// Wakes the tasks that wait for the end of a process. Unlike a watch channel, it wakes them in
    /// the order in which they began to wait, so each run takes the same course.
    pub(crate) processes_changed: Arc<Notify>,
    settings: Arc<Mutex<Settings>>,
    beginning: WallTime,
    began: Instant,
}

/// Differences between runtimes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) manner: Manner,
    /// Whether a status hides the PID of its container.
    pub(crate) hides_pids: bool,
    /// Whether lists are also served as streams.
    pub(crate) streams_lists: bool,
    /// Whether the status of a sandbox contains its containers.
    pub(crate) fills_sandboxes: bool,
    /// Whether a delayed list shows the world as of its answer, and not as of its request.
    lists_when_answered: bool,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// An empty node.
    pub fn new() -> Self {
        Self::beginning_at(WallTime::from_unix_nanos(START_UNIX_NANOS).expect("it is not 1970"))
    }

    /// An empty node whose time of day begins at `beginning`.
    pub fn beginning_at(beginning: WallTime) -> Self {
        Self {
            world: Arc::default(),
            faults: Arc::default(),
            calls: Tally::default(),
            events: Arc::default(),
            processes: Arc::default(),
            births: TaskDirectory::default(),
            processes_changed: Arc::default(),
            settings: Arc::default(),
            beginning,
            began: Instant::now(),
        }
    }

    /// The time of day on this node.
    pub fn now(&self) -> WallTime {
        let nanos = self.beginning.as_unix_nanos() + self.began.elapsed().as_nanos() as i64;
        WallTime::from_unix_nanos(nanos).unwrap_or(self.beginning)
    }

    /// A clock that shows [`Sim::now`].
    pub fn clock(&self) -> WallClock {
        let sim = self.clone();
        Arc::new(move || sim.now())
    }

    /// The world. Changes take effect at once.
    pub fn world(&self) -> WorldGuard<'_> {
        let world = self.world.lock().expect("no panic while it is held");
        WorldGuard::new(self, world)
    }

    /// Sends events for all changes of the world. While a status lock is held or the runtime is
    /// stopped, none are sent.
    pub(crate) fn publish_changes(&self, world: &World) {
        let mut events = self.events();
        let faults = self.faults();
        if faults.is_locked() || faults.is_stopped() {
            return;
        }
        drop(faults);
        let now = self.now();
        for change in events.published.update(world) {
            events.publish(change, now);
        }
    }

    /// Sends the events that a status lock or a stop has delayed.
    fn publish_delayed_changes(&self) {
        let world = self.world();
        self.publish_changes(&world);
    }

    /// Ends all streams.
    pub fn end_streams(&self) {
        self.events().end_streams();
    }

    /// Sends an event to the readers of the stream, whether or not it is true.
    pub fn inject_event(&self, event: Announced) {
        let now = self.now();
        self.events().inject(event, now);
    }

    /// Sets a fault of the stream. It replaces an earlier fault of its kind.
    pub fn set_stream_fault(&self, fault: StreamFault) {
        self.events().faults.set(fault);
    }

    /// Lifts the faults of the stream.
    pub fn lift_stream_faults(&self) {
        self.events().lift_faults();
    }

    /// Sets how the stream of events is served, and ends all open streams.
    pub fn serve_stream(&self, serving: Serving) {
        let mut events = self.events();
        events.serving = serving;
        events.end_streams();
    }

    /// The number of events that were lost because a reader did not read them.
    pub fn discarded_events(&self) -> usize {
        self.events().discarded()
    }

    /// Opens the stream of events.
    pub(crate) async fn read_stream(&self) -> Result<Reader, CallError> {
        self.pass_faults(Rpc::GetContainerEvents, None).await?;
        self.events().open()
    }

    /// Ends a container's process. The runtime still reports it as running, until [`Self::exit`].
    pub fn kill(&self, pod: &str, container: &str) {
        let id = self.world().container(pod, container).id.clone();
        self.processes().kill(&id);
        self.processes_changed.notify_waiters();
    }

    /// Removes a pod from the runtime although its processes still run, like a containerd that cannot read
    /// its own records.
    pub fn lose(&self, pod: &str) {
        let mut world = self.world();
        for container in &world.pod(pod).containers {
            self.processes().lose(&container.id);
        }
        world.remove(pod);
    }

    /// Ends the process of a container that is [lost](Self::lose).
    pub fn kill_lost(&self, id: &str) {
        self.processes().kill(&Id::from(id));
        self.processes_changed.notify_waiters();
    }

    /// Starts another process in a container that has exited, under the same id, as Docker does.
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

    /// Stops reporting the PIDs of containers, like cri-dockerd.
    pub fn hide_pids(&self) {
        self.set(|settings| settings.hides_pids = true);
    }

    /// Also serves lists as streams, on the socket (KEP-5825: CRI-O 1.36, containerd 2.4).
    pub fn stream_lists(&self) {
        self.set(|settings| settings.streams_lists = true);
    }

    /// Sets the runtime that the simulated one imitates. This also sets how events are served.
    pub fn behave_as(&self, manner: Manner) {
        self.set(|settings| settings.manner = manner);
        self.serve_stream(manner.serving());
    }

    pub(crate) fn manner(&self) -> Manner {
        self.settings().manner
    }

    pub(crate) fn settings(&self) -> Settings {
        *self.settings.lock().expect("no panic while it is held")
    }

    fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().expect("no panic while it is held"));
    }

    /// Includes the containers in the status of a sandbox (only in that of the trait `Runtime`), like CRI-O
    /// with pod events.
    pub fn fill_sandboxes(&self) {
        self.set(|settings| settings.fills_sandboxes = true);
    }

    /// Makes a delayed list show the world as of its answer. By default it shows the world as of its
    /// request, like containerd 1.7, which copies its containers first.
    pub fn list_when_answered(&self) {
        self.set(|settings| settings.lists_when_answered = true);
    }

    /// Adds a pod and starts its containers.
    pub fn run(&self, name: &str, containers: &[&str]) {
        let now = self.now();
        self.world().run(name, containers, now);
    }

    /// Ends a container.
    pub fn exit(&self, pod: &str, container: &str, code: i32) {
        let now = self.now();
        self.world().container(pod, container).exit(code, now);
    }

    /// Ends a container whose listed state does not change, although its status reports the exit, as
    /// cri-dockerd does if the command of the container does not exist.
    pub fn exit_unlisted(&self, pod: &str, container: &str, code: i32) {
        let now = self.now();
        let mut world = self.world();
        world.container(pod, container).exit_unlisted(code, now);
    }

    /// Ends a container whose exit code is reported as -1 for the time `delay`, as with CRI-O without
    /// an exit file.
    pub fn exit_with_delayed_code(&self, pod: &str, container: &str, code: i32, delay: Duration) {
        let now = self.now();
        let mut world = self.world();
        let container = world.container(pod, container);
        container.exit(code, now);
        container.exit_code_delay = delay;
    }

    /// Sets a fault of a method, for one id or for all.
    pub fn fault(&self, call: Rpc, id: Option<&str>, fault: Fault) {
        self.faults().set(call, id.map(Id::from), fault);
    }

    /// Sets a fault of all methods.
    pub fn fault_everything(&self, fault: &Fault) {
        for rpc in crate::SERVED {
            self.fault(rpc, None, fault.clone());
        }
    }

    /// Lifts the fault of a method, for one id or for all.
    pub fn lift(&self, call: Rpc, id: Option<&str>) {
        self.faults().lift(call, id.map(Id::from));
    }

    /// Lifts all faults of calls and of the stream.
    pub fn lift_all(&self) {
        self.faults().lift_all();
        self.lift_stream_faults();
        self.publish_delayed_changes();
    }

    /// Takes the status lock of a container, as a stuck update does in containerd 1.7:
    /// `ListContainers` hangs, `ContainerStatus` of this container hangs, so do creating and starting
    /// any container, and no events are sent.
    pub fn status_lock(&self, pod: &str, container: &str) {
        let id = self.world().container(pod, container).id.clone();
        self.faults().lock(id);
    }

    /// Releases the status lock, and sends the events of all changes in the meantime.
    pub fn status_unlock(&self, pod: &str, container: &str) {
        let id = self.world().container(pod, container).id.clone();
        self.faults().unlock(&id);
        self.publish_delayed_changes();
    }

    /// Stops the whole runtime, like `SIGSTOP`: no call returns, and no events are sent.
    pub fn stop(&self) {
        self.faults().stop();
    }

    /// Continues a stopped runtime, and sends the events of all changes in the meantime.
    pub fn resume(&self) {
        self.faults().resume();
        self.publish_delayed_changes();
    }

    /// Restarts the runtime: outstanding calls fail, streams end, and for the time `down` there is no
    /// connection. The pods keep running.
    pub fn restart(&self, down: Duration) {
        self.faults().restart(Instant::now() + down);
        self.end_streams();
    }

    /// The number of calls that crashed the runtime ([`Fault::Crash`]).
    pub fn crashes(&self) -> usize {
        self.faults().crashes()
    }

    /// The number of calls of a method.
    pub fn calls_made(&self, call: Rpc) -> usize {
        self.calls.made(call)
    }

    /// The highest number of calls of one (RPC, id) that were outstanding at once.
    pub fn max_outstanding_per_id(&self) -> usize {
        self.calls.max_outstanding_per_id()
    }

    /// The highest number of calls that were outstanding at once, not counting streams of events.
    pub fn max_outstanding(&self) -> usize {
        self.calls.max_outstanding()
    }

    /// The outstanding calls, in the order in which they arrived.
    pub fn outstanding(&self) -> Vec<Outstanding> {
        self.calls.outstanding()
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no panic while it is held")
    }

    pub(crate) fn events(&self) -> MutexGuard<'_, EventSource> {
        self.events.lock().expect("no panic while it is held")
    }

    /// Applies the faults of a list call. Returns the listed items and the form of the answer.
    pub(crate) async fn list<T>(
        &self,
        call: Rpc,
        list: impl Fn(&World) -> T,
    ) -> Result<(T, AnswerForm), CallError> {
        let is_copied = !self.settings().lists_when_answered;
        let copy = is_copied.then(|| list(&self.world()));
        let form = self.pass_faults(call, None).await?;
        let items = copy.unwrap_or_else(|| list(&self.world()));
        Ok((items, form))
    }

    /// Counts a call and applies its faults.
    pub(crate) async fn pass_faults(
        &self,
        call: Rpc,
        id: Option<&Id>,
    ) -> Result<AnswerForm, CallError> {
        let counted = self.calls.count(call, id);
        pass_faults(&self.faults, call, id, |cause| counted.note_delay(cause)).await
    }
}
