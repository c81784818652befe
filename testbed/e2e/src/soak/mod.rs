//! A soak: a node with churn runs behind a guard for minutes or hours, with faults.
//!
//! ```text
//!   kubelet ---------> guard ---> containerd <--- second client
//!      | relists, probes,  ^           ^               | lists, runs its own pods
//!      | creates pods      |           |               |
//!      |                 agent      faults             |
//!      v                                               v
//!   journal: true states <--- each answer is checked --/
//! ```
//!
//! Each round is a time without a fault, a fault, and a time without churn, at the end of which each wanted
//! pod and container must run exactly once.

mod churn;
mod client;
mod cost;
mod faults;
mod figures;
mod journal;
mod kubelet;
mod node;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cri::Rpc;
use cri::v1::{VersionRequest, VersionResponse};
use testbed_driver::{Driver, Network, Testbed};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use churn::LOCKED;
use client::{Caller, NoAnswer};
use faults::FAULTS;
use journal::{Journal, Kind, State};
use kubelet::{Kubelet, Wanted};
use node::Node;

pub use client::Path;
pub use cost::cost;
pub use faults::Fault;
pub use figures::{Counts, Latencies, Report, Usages};
pub use journal::Rule;
pub use node::{Programs, Usage};

/// The deadline of a kubelet's calls (runtimeRequestTimeout).
const KUBELET_DEADLINE: Duration = Duration::from_secs(120);

/// The deadline of the second client's calls, so that it does not wait for a stuck list.
const SECOND_DEADLINE: Duration = Duration::from_secs(2);

/// The time within which everything must run after a fault.
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// The options of a soak.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the testbed's instance.
    pub name: String,
    /// The version of containerd.
    pub version: String,
    /// The programs under test.
    pub programs: Programs,
    /// The number of pods, each with two containers.
    pub pods: usize,
    /// The duration of the soak, half of which is spent in each mode of the guard.
    pub time: Duration,
    /// The time without a fault in each round.
    pub calm: Duration,
    /// The duration of each fault.
    pub fault: Duration,
    /// Receives a line for each step.
    pub log: fn(&str),
}

/// The state that all clients share.
struct World {
    journal: RefCell<Journal>,
    counts: RefCell<Counts>,
    wanted: RefCell<BTreeMap<String, Wanted>>,
    direct: RefCell<Option<Caller>>,
    /// Whether there is no fault.
    is_calm: Cell<bool>,
    /// Whether churn pauses.
    is_quiet: Cell<bool>,
    latencies: RefCell<BTreeMap<&'static str, Latencies>>,
    longest_pause: Cell<Duration>,
    /// The ids of containers that run, by the kubelet's last list.
    running: RefCell<Vec<String>>,
    began: Instant,
    log: fn(&str),
}

impl World {
    fn log(&self, text: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        (self.log)(&format!("{seconds:7.1} s  {text}"));
    }

    /// A random running container, except that of the pod `LOCKED`.
    fn any_running(&self) -> Option<String> {
        let running = self.running.borrow();
        let journal = self.journal.borrow();
        let mut of_kubelet: Vec<&String> = running.iter().collect();
        of_kubelet.retain(|id| journal.is_running(id));
        let place = (!of_kubelet.is_empty()).then(|| fastrand::usize(..of_kubelet.len()));
        place.map(|place| of_kubelet[place].clone())
    }

    /// Records the end of an id when the runtime itself reports it. containerd 2 answers `StopPodSandbox`
    /// of a sandbox that was created during its status lock, but the sandbox stays READY.
    async fn confirm_end(self: Rc<Self>, kind: Kind, id: String) {
        let direct = self.direct.borrow().clone();
        let Some(direct) = direct else { return };
        for _ in 0..20 {
            if let Ok(Some(State::Ended)) = direct.state(kind, &id).await {
                return self.journal.borrow_mut().ended(&id);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn network_of(&self, pod: &str) -> Network {
        let wanted = self.wanted.borrow();
        wanted
            .get(pod)
            .map_or(Network::Host, |pod| pod.spec.network)
    }
}

/// Runs a soak to its end.
pub async fn run(plan: Plan) -> testbed_driver::Result<Report> {
    LocalSet::new().run_until(run_in_set(plan)).await
}

async fn run_in_set(plan: Plan) -> testbed_driver::Result<Report> {
    let testbed = Testbed::up(&plan.version, &plan.name).await?;
    let endpoint = testbed.endpoint();
    let mut mode = "guard";
    let mut node = Node::start(testbed, plan.programs.clone(), mode);
    let world = Rc::new(World {
        journal: RefCell::default(),
        counts: RefCell::default(),
        wanted: RefCell::default(),
        direct: RefCell::default(),
        is_calm: Cell::new(true),
        is_quiet: Cell::new(true),
        latencies: RefCell::default(),
        longest_pause: Cell::default(),
        running: RefCell::default(),
        began: Instant::now(),
        log: plan.log,
    });
    let driver = Driver::new(&endpoint)?;
    let direct = Caller::new(world.clone(), &endpoint, Path::Runtime, SECOND_DEADLINE);
    let guarded = Caller::new(
        world.clone(),
        &node.guarded(),
        Path::Guard,
        KUBELET_DEADLINE,
    );
    *world.direct.borrow_mut() = Some(direct.clone());
    let pods = (0..plan.pods).map(churn::wanted).chain([churn::locked()]);
    *world.wanted.borrow_mut() = pods.map(|pod| (pod.spec.name.clone(), pod)).collect();
    Kubelet::start(
        world.clone(),
        guarded.clone(),
        driver.through(&node.guarded()),
    );
    settle(&world, "start").await;
    spawn_local(churn::churn(world.clone(), driver.clone()));
    spawn_local(churn::second_client(
        world.clone(),
        direct.clone(),
        driver.clone(),
    ));
    spawn_local(measure_latency(world.clone(), direct, guarded));
    spawn_local(measure_pauses(world.clone()));

    let mut report = Report::default();
    let mut faults = FAULTS.into_iter().cycle();
    while world.began.elapsed() < plan.time {
        if mode == "guard" && world.began.elapsed() >= plan.time / 2 {
            mode = "shadow";
            world.log("mode shadow");
            node.set_mode(guard_api::Mode::Shadow).await;
            faults = FAULTS.into_iter().cycle();
        }
        let Some(fault) = faults.next() else {
            break;
        };
        world.is_quiet.set(false);
        world.counts.borrow_mut().during = format!("{mode}, no fault");
        watch(&mut report, &node, sleep(plan.calm)).await;
        // The counts of a guard are lost when it ends.
        let before = node.guard_status().await;
        world.log(&format!("{fault:?}"));
        world.is_calm.set(false);
        world.counts.borrow_mut().during = format!("{mode}, {fault:?}");
        match fault.perform(&mut node, &driver, mode, plan.fault).await {
            Ok(true) => *world.counts.borrow_mut().faults.entry(fault).or_default() += 1,
            Ok(false) => world.log("the fault had no effect"),
            Err(error) => world.log(&format!("the fault failed: {error}")),
        }
        world.is_quiet.set(true);
        watch(&mut report, &node, settle(&world, &format!("{fault:?}"))).await;
        world.is_calm.set(true);
        let after = node.guard_status().await;
        if let (Some(before), Some(after)) = (&before, &after)
            && before.started != after.started
        {
            report.add_guard(before);
        }
    }
    if let Some(status) = node.guard_status().await {
        report.add_guard(&status);
    }
    report.lasted = world.began.elapsed();
    report.panics = node.panics();
    report.counts = world.counts.take();
    report.latencies = world.latencies.take();
    report.longest_pause = world.longest_pause.get();
    Ok(report)
}

/// Samples the resources of the processes until `until` ends.
async fn watch(report: &mut Report, node: &Node, until: impl Future<Output = ()>) {
    let mut until = std::pin::pin!(until);
    while timeout(Duration::from_secs(1), &mut until).await.is_err() {
        let [guard, agent] = node.usage();
        report.guard.add(guard);
        report.agent.add(agent);
    }
}

/// Waits until everything that is wanted runs exactly once. Otherwise counts what is lost or doubled.
async fn settle(world: &Rc<World>, after: &str) {
    let began = Instant::now();
    let direct = world.direct.borrow().clone();
    let Some(direct) = direct else { return };
    loop {
        let lists = (direct.sandboxes().await, direct.containers().await);
        let (lost, doubled) = match &lists {
            (Ok(sandboxes), Ok(containers)) => {
                note_running(world, containers);
                kubelet::compare(&world.wanted.borrow(), sandboxes, containers)
            }
            _ => (vec!["the runtime's own list".to_owned()], Vec::new()),
        };
        let is_deleting = world.wanted.borrow().values().any(|pod| pod.is_deleted);
        if lost.is_empty() && doubled.is_empty() && !is_deleting {
            return world.log(&format!(
                "everything runs {:.1} s after {after}",
                began.elapsed().as_secs_f64()
            ));
        }
        if began.elapsed() >= QUIET_WITHIN {
            world.log(&format!(
                "after {after}, lost: {lost:?}, doubled: {doubled:?}"
            ));
            let mut counts = world.counts.borrow_mut();
            counts.lost.extend(lost);
            return counts.doubled.extend(doubled);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

fn note_running(world: &World, containers: &[cri::v1::Container]) {
    let is_locked = |row: &cri::v1::Container| {
        row.labels
            .get("io.kubernetes.pod.name")
            .is_some_and(|pod| pod == LOCKED)
    };
    let running = containers.iter();
    let running = running
        .filter(|row| row.state() == cri::v1::ContainerState::ContainerRunning && !is_locked(row));
    *world.running.borrow_mut() = running.map(|row| row.id.clone()).collect();
}

/// Makes each call on both sockets, one after the other, in alternating order.
async fn measure_latency(world: Rc<World>, direct: Caller, guarded: Caller) {
    let mut is_direct_first = false;
    loop {
        sleep(Duration::from_millis(250)).await;
        if !world.is_calm.get() || world.is_quiet.get() {
            continue;
        }
        is_direct_first = !is_direct_first;
        let id = world.any_running();
        for method in ["Version", "ContainerStatus"] {
            let time = async |caller: &Caller| -> Result<Duration, NoAnswer> {
                let sent = Instant::now();
                match (method, &id) {
                    ("ContainerStatus", Some(id)) => {
                        caller.state(Kind::Container, id).await?;
                    }
                    _ => {
                        let request = VersionRequest::default();
                        let _: VersionResponse = caller.call(Rpc::Version, request).await?;
                    }
                }
                Ok(sent.elapsed())
            };
            let (direct, guarded) = match is_direct_first {
                true => (time(&direct).await, time(&guarded).await),
                false => {
                    let guarded = time(&guarded).await;
                    (time(&direct).await, guarded)
                }
            };
            if let (Ok(direct), Ok(guarded)) = (direct, guarded)
                && world.is_calm.get()
            {
                world
                    .latencies
                    .borrow_mut()
                    .entry(method)
                    .or_default()
                    .add(direct, guarded);
            }
        }
    }
}

async fn measure_pauses(world: Rc<World>) {
    const STEP: Duration = Duration::from_millis(100);
    loop {
        let began = Instant::now();
        sleep(STEP).await;
        let pause = began.elapsed().saturating_sub(STEP);
        world
            .longest_pause
            .set(pause.max(world.longest_pause.get()));
    }
}
