//! The invariants, whatever the faults: thousands of random worlds with random faults, in virtual
//! time.
//!
//! - once it is quiet, the cache equals the world;
//! - each exit between two complete observations is reported exactly once;
//! - no pod's exit waits for another pod's stuck call, nor for a stuck list; a stream without
//!   events delays the exit by the longest period at most;
//! - at most one call per (RPC, id) is ever outstanding, and in all at most a window of calls beside
//!   those that are known to be stuck;
//! - a list or status that is stuck makes the node Degraded within four seconds;
//! - a container that is cached as Exited never runs again: no id is started twice here;
//! - a container or sandbox that is reported as stuck has a fault of its own;
//! - the reported time of the last observation never becomes older;
//! - Healthy means that each pod is cached in a state that it has had since it was last seen, or
//!   fails for a moment.
//!
//! `PLEG_WORLDS=100000` tries this many fresh seeds; a failure prints its seed, and `PLEG_SEED=n`
//! replays it.

#![allow(
    clippy::print_stderr,
    reason = "a failing seed is printed with the events of its world"
)]

mod no_second_copy;
#[path = "../node/mod.rs"]
mod node;
#[path = "../odd/mod.rs"]
mod odd;
mod past;
#[path = "../worlds/mod.rs"]
mod worlds;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;
use node::{Node, seconds, too_large};
use odd::{Journey, Odd};
use past::{Past, Trace};
use pleg::model::id::{Id, PodUid};
use pleg::model::listed::ContainerState;
use pleg::model::wall_time::WallTime;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::runtime::{CallError, Rpc};
use pleg::{Config, Mode};
use sim::{Fault, Manner, Outstanding, Sim, StreamFault};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use worlds::live_each;

const WORLDS: u64 = 6_000;

/// The number of worlds in which answers are delayed for long, and get lost.
const ODD_WORLDS: u64 = 2_000;

/// The seeds of odd worlds that have failed before.
const ODD_BEFORE: [u64; 22] = [
    3_717,
    6_575,
    6_601,
    7_813,
    34_378,
    52_667,
    58_089,
    66_294,
    3_735_217_573,
    4_512_203_990_520_266_882,
    4_806_306_695_519_087_843,
    5_039_847_844_161_078_305,
    2_524_669_477_855_483_647,
    5_336_725_401_721_887_402,
    7_692_991_919_864_871_344,
    8_086_395_208_427_969_620,
    9_074_124_526_867_185_154,
    9_074_124_526_867_192_488,
    10_817_954_296_476_217_619,
    16_997_496_988_280_031_393,
    16_997_496_988_280_035_058,
    17_346_154_001_338_675_855,
];

/// The seeds of worlds that have failed before.
const WRONG_BEFORE: [u64; 23] = [
    75,
    2_180,
    3_410,
    14_260,
    15_846,
    16_804,
    34_809,
    42_268,
    43_763,
    52_677,
    56_213,
    73_535,
    80_520,
    3_374_838_846,
    417_061_444_994_896_371,
    1_765_455_195_336_774_049,
    2_394_757_696_063_922_682,
    4_076_277_914_606_624_424,
    6_602_146_223_297_669_778,
    6_957_669_306_944_145_325,
    9_681_322_347_196_349_912,
    10_252_989_791_347_339_180,
    11_245_864_216_372_026_005,
];

/// A pod without faults of its own, whose deaths must never wait.
const BYSTANDER: &str = "bystander";

/// How long the bystander's death may remain unreported: until a list is overdue, a period, a sweep
/// of a small node, and an inspection with slow calls.
const LONGEST_WAIT: f64 = 2.0 + 1.0 + 1.0 + 1.5;

/// How long lists wait for a `Version` that is stuck after a restart.
const VERSION_IS_WAITED_FOR: f64 = 2.0;

/// The ceiling of the relist period.
const LONGEST_PERIOD: f64 = 30.0;

/// A call that has not been answered for this long makes the node Degraded.
const DEGRADED_AFTER: Duration = Duration::from_millis(4050);

/// A call that has been outstanding for less than this is not reported as stuck.
const SUSPECT_AFTER: Duration = Duration::from_millis(990);

/// How long an inspection may fail before the node is Degraded, including the pass that finds this.
const FAILS_FOR_A_MOMENT: Duration = Duration::from_millis(12_500);

/// How many calls may be outstanding beside those that are known to be stuck. `MAX_OUTSTANDING` is
/// the limit of all calls.
const WINDOW: usize = 64;
const MAX_OUTSTANDING: usize = 256;

/// How long the reason may blame a container while no culprit is reported. A reason is kept for three
/// seconds at most, unless a pod without a culprit is yet to be inspected, or lists are outstanding: until
/// they are overdue (3.5 s) the node may be healthy.
const MAX_WITHOUT_CULPRIT: Duration = Duration::from_secs(7);

/// How often the reported culprits are read.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a runtime that is back may be reported as unreachable: until the next relist (1 s), while
/// `Version` hangs (2 s), and then a list (4 s), while a relapse is likely (3 s), and until a pass by slow
/// lists ends (2 s).
const KNOWN_TO_BE_BACK: Duration = Duration::from_millis(12_050);

/// The resolution of the clock.
const TICK: Duration = Duration::from_millis(1);

/// How long a culprit may be reported after the whole runtime has stopped: until the stop is known.
const KNOWN_FOR: std::time::Duration = std::time::Duration::from_secs(6);

/// The pods that have an error in the cache.
fn failing(node: &Node) -> BTreeSet<PodUid> {
    let cached = node.pleg.cache().all().into_iter();
    let failing = cached.filter(|entry| entry.error.is_some());
    failing.map(|entry| entry.status.uid.clone()).collect()
}

#[test]
fn the_invariants_hold_in_random_worlds() {
    live_each(&WRONG_BEFORE, WORLDS, |seed| async move {
        World::new(seed).live().await
    });
}

/// In these worlds, slow and stuck calls cannot be distinguished, so it is not checked that stuck
/// calls are reported in time.
#[test]
fn reports_are_true_although_answers_are_delayed_and_lost() {
    live_each(&ODD_BEFORE, ODD_WORLDS, |seed| async move {
        let mut world = World::new(seed);
        let sim = Sim::new();
        world.odd = Some(Odd::new(sim.clone()));
        world.live_on(sim).await;
    });
}

struct World {
    rng: Rng,
    /// The runtime with odd answers, if this is an odd world.
    odd: Option<Odd>,
    began: Instant,
    replayed: bool,
    pods: Vec<String>,
    born: usize,
    /// When the stopped or restarting runtime continues; `None` if it runs.
    stopped: Option<Instant>,
    /// When the runtime became reachable again after the last restart, or will.
    away: Option<Instant>,
    past: Past,
    /// The calls that were delayed by a fault of their own id, and when this was last so.
    held: BTreeMap<(Rpc, Option<Id>), Instant>,
    /// Containers whose process is dead, which the runtime does not know.
    killed: Vec<Id>,
    /// Whether the event stream stops now and then.
    mutes: bool,
    /// Whether `Version` is stuck from the start, until all faults are lifted, and after each restart.
    hides_version: bool,
    /// Whether the runtime is restarted in the cases in which it is stopped in other worlds.
    restarts: bool,
    kernel: bool,
    /// Decides when the kernel ceases to report births, and what it loses; `None` if it never
    /// reports births.
    births: Option<Rng>,
    /// The reported time of the last observation.
    last_seen: Option<WallTime>,
    /// When the reason began to blame a container while no culprit is reported.
    without_culprit: Option<Instant>,
    /// When the bystander's present container died, and which it was.
    bystander: Option<(Instant, Id)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            mutes: rng.bool(),
            hides_version: seed.is_multiple_of(4),
            restarts: seed.is_multiple_of(5),
            kernel: rng.bool(),
            // A generator of its own, so that the worlds of known seeds are the same as without
            // births.
            births: (!seed.is_multiple_of(3)).then(|| Rng::with_seed(!seed)),
            held: BTreeMap::new(),
            killed: Vec::new(),
            rng,
            odd: None,
            began: Instant::now(),
            replayed: std::env::var("PLEG_SEED").is_ok(),
            pods: Vec::new(),
            born: 0,
            stopped: None,
            away: None,
            past: Past::default(),
            last_seen: None,
            without_culprit: None,
            bystander: None,
        }
    }

    async fn live(self) {
        self.live_on(Sim::new()).await;
    }

    async fn live_on(mut self, sim: Sim) {
        let config = Config {
            mode: match self.rng.bool() {
                true => Mode::Generic,
                false => Mode::Auto,
            },
            ..Config::default()
        };
        let (kernel, odd) = (self.kernel, self.odd.clone());
        let prepare = |sim: &Sim| {
            if self.rng.bool() {
                sim.list_when_answered();
            }
            self.begin_odd(sim);
            if self.births.is_some() {
                sim.watch_births();
            }
            self.hide_version(sim);
            sim.run(BYSTANDER, &["app"]);
            let pods = match self.rng.u32(0..50) {
                0 => self.rng.usize(20..60),
                _ => self.rng.usize(1..6),
            };
            for _ in 0..pods {
                self.run(sim);
            }
        };
        let node = match (odd, kernel) {
            (Some(odd), _) => Node::watch_through(sim, odd, &[], config, prepare).await,
            (None, true) => Node::watch_with_kernel(config, prepare).await,
            (None, false) => Node::watch_with(config, prepare).await,
        };
        let mut reported = node.pleg.subscribe().await.expect("it runs");
        let mut trace = Trace::default();
        let end = Instant::now() + seconds(self.rng.f64() * 60.0);
        self.past.note(&node.sim);
        while Instant::now() < end {
            self.note_held(&node.sim.outstanding());
            self.happen(&node.sim);
            self.past.note(&node.sim);
            let pause = seconds(self.rng.f64() * 2.0);
            self.wait(&node, pause).await;
            self.check_claims(&node).await;
            while let Ok(Some(record)) = timeout(seconds(0.0), reported.next()).await {
                self.note(format_args!("  reported: {}", node::line(&record)));
                trace.add(&record);
                self.note_blame(&record);
            }
            let for_long = |since: Instant| since.elapsed() > MAX_WITHOUT_CULPRIT;
            assert!(
                !self.without_culprit.is_some_and(for_long),
                "no culprit is reported"
            );
            self.check_bystander(&trace);
        }
        self.lift_all(&node.sim);
        if let Some(odd) = &self.odd {
            odd.oddities().journey = None;
        }
        self.learn_of_the_dead(&node.sim);
        sleep(seconds(40.0)).await;
        while let Ok(Some(record)) = timeout(seconds(0.0), reported.next()).await {
            trace.add(&record);
        }
        self.check_end(&node, &trace).await;
        if let Some(odd) = &self.odd {
            odd.assert_no_endless_loop();
        }
    }

    /// Lets time pass. Also notes culprits that are reported only for a moment.
    async fn wait(&mut self, node: &Node, pause: Duration) {
        let until = Instant::now() + pause;
        while self.without_culprit.is_some() && Instant::now() < until {
            sleep(GLANCE.min(until - Instant::now())).await;
            if !node.status().await.stuck.is_empty() {
                self.without_culprit = Some(Instant::now());
            }
        }
        sleep_until(until).await;
    }

    /// In some odd worlds, the runtime imitates another one.
    fn begin_odd(&mut self, sim: &Sim) {
        let Some(odd) = &self.odd else {
            return;
        };
        match self.rng.u32(0..4) {
            0 => sim.behave_as(Manner::CriO),
            1 => sim.behave_as(Manner::CriDockerd),
            _ => {}
        }
        if self.rng.u32(0..3) == 0 {
            sim.fill_sandboxes();
            odd.oddities().fills_sandboxes = true;
        }
        self.change_journeys();
    }

    /// Changes how answers are delayed.
    fn change_journeys(&mut self) {
        let Some(odd) = &self.odd else {
            return;
        };
        let random = &mut self.rng;
        let share = |random: &mut Rng| match random.bool() {
            true => random.f64() * 0.2,
            false => 0.0,
        };
        let journey = Journey {
            past: random.f64(),
            longest: random.f64() * random.f64() * 6.0,
            fails: share(random),
            lost: share(random),
            random: Rng::with_seed(random.u64(..)),
        };
        odd.oddities().journey = Some(journey);
    }

    /// Lets the runtime notice the exits that it has missed.
    fn learn_of_the_dead(&mut self, sim: &Sim) {
        let now = sim.now();
        let mut world = sim.world();
        for id in self.killed.drain(..) {
            if let Some(container) = world.container_by_id_mut(id.as_str())
                && container.state == ContainerState::Running
            {
                container.exit(137, now);
            }
        }
    }

    fn note_held(&mut self, outstanding: &[Outstanding]) {
        let held = outstanding.iter().filter(|call| call.has_own_fault);
        for call in held {
            let key = (call.rpc, call.id.clone());
            self.held.insert(key, Instant::now());
        }
    }

    fn run(&mut self, sim: &Sim) {
        let name = format!("p{}", self.born);
        self.born += 1;
        let containers = ["x", "y", "z"];
        sim.run(&name, &containers[..self.rng.usize(1..3)]);
        self.pods.push(name);
    }

    /// Prints what happened, if a seed is replayed.
    fn note(&self, what: std::fmt::Arguments<'_>) {
        if self.replayed {
            eprintln!("{:.3} {what}", self.began.elapsed().as_secs_f64());
        }
    }

    /// Makes one random change to the node, which the kernel may not report.
    fn happen(&mut self, sim: &Sim) {
        match self.births.as_mut().map(|random| random.u32(0..16)) {
            Some(0) => {
                self.note(format_args!("births are not watched"));
                sim.unwatch_births();
            }
            Some(1 | 2) => {
                self.note(format_args!("births are watched"));
                sim.watch_births();
            }
            Some(3) => {
                self.note(format_args!("births are lost"));
                return sim.lose_births(|sim| self.happen_one(sim));
            }
            _ => {}
        }
        self.happen_one(sim);
    }

    fn happen_one(&mut self, sim: &Sim) {
        let now = sim.now();
        if self.stopped.is_some_and(|until| until <= Instant::now()) {
            self.note(format_args!("the runtime continues"));
            sim.resume();
            self.goes_on();
        }
        if self.odd.is_some() && self.rng.u32(0..6) == 0 {
            self.change_journeys();
        }
        let index = self.rng.usize(0..self.pods.len().max(1));
        let pod = self.pods.get(index).cloned();
        match (self.rng.u32(0..18), pod) {
            (0, _) => self.run(sim),
            (1, Some(pod)) => {
                sim.world().remove(&pod);
                self.pods.remove(index);
            }
            (2, Some(pod)) => sim.world().pod(&pod).stop(now),
            (3 | 4, Some(pod)) => sim.world().pod(&pod).restart("x", 1, now),
            (5, Some(pod)) => {
                sim.world().pod(&pod).create("late", now);
            }
            (6, Some(pod)) => {
                let mut world = sim.world();
                let containers = &mut world.pod(&pod).containers;
                // The newest stays, so that its successor gets a number of its own.
                let newest = |name: &str| {
                    let of_name = containers.iter().filter(|it| it.name == name);
                    of_name.map(|it| it.attempt).max()
                };
                let newest =
                    BTreeMap::from(["x", "y", "z", "late"].map(|name| (name, newest(name))));
                containers.retain(|it| Some(it.attempt) == newest[&*it.name]);
            }
            (7 | 8, Some(pod)) => self.break_pod(sim, &pod),
            (9, _) => self.break_lists(sim),
            (10, _) => {
                self.note(format_args!("all faults are lifted"));
                self.lift_all(sim);
            }
            (11, Some(pod)) => {
                let id = sim.world().container(&pod, "x").id.clone();
                sim.kill(&pod, "x");
                self.killed.push(id);
            }
            (12, _) if self.mutes => {
                let fault = self.stream_fault();
                self.note(format_args!("the stream: {fault:?}"));
                match fault {
                    Some(fault) => sim.set_stream_fault(fault),
                    None => sim.lift_stream_faults(),
                }
            }
            (13, _) if self.mutes => {
                self.note(format_args!("the stream ends"));
                sim.end_streams();
            }
            (14, _) => self.break_nearly_all(sim),
            (15, _) if self.stopped.is_none() => {
                let time = self.rng.f64() * 15.0;
                match self.restarts {
                    true => {
                        self.note(format_args!("the runtime is away for {time} s"));
                        sim.restart(seconds(time));
                        self.hide_version(sim);
                        self.away = Some(Instant::now() + seconds(time));
                    }
                    false => {
                        self.note(format_args!("the runtime is stopped for {time} s"));
                        sim.stop();
                    }
                }
                self.stopped = Some(Instant::now() + seconds(time));
            }
            (16, _) => self.hang_many(sim),
            _ => self.kill_bystander(sim),
        }
    }

    fn hide_version(&self, sim: &Sim) {
        if self.hides_version {
            sim.fault(Rpc::Version, None, Fault::Hang);
        }
    }

    fn lift_all(&mut self, sim: &Sim) {
        sim.lift_all();
        self.goes_on();
    }

    /// Records that the runtime continues. What could not be observed while it was stopped counts
    /// from now.
    fn goes_on(&mut self) {
        if self.stopped.take().is_some()
            && let Some((died, _)) = &mut self.bystander
        {
            *died = Instant::now();
        }
    }

    /// Makes the statuses of half of the pods stuck, and restarts these pods.
    fn hang_many(&mut self, sim: &Sim) {
        self.note(format_args!("many statuses hang"));
        let now = sim.now();
        for pod in self.pods.clone() {
            if self.rng.bool() {
                let mut world = sim.world();
                let id = world.pod(&pod).container("x").map(|it| it.id.clone());
                world.pod(&pod).restart("x", 1, now);
                drop(world);
                if let Some(id) = id {
                    sim.fault(Rpc::ContainerStatus, Some(id.as_str()), Fault::Hang);
                }
            }
        }
    }

    /// Makes both lists hang, and the inspections of all pods but the bystander fail.
    fn break_nearly_all(&mut self, sim: &Sim) {
        self.note(format_args!("both lists hang, and many statuses fail"));
        for list in [Rpc::ListContainers, Rpc::ListPodSandbox] {
            sim.fault(list, None, Fault::Hang);
        }
        for pod in self.pods.clone() {
            let container = sim.world().pod(&pod).container("x").map(|it| it.id.clone());
            if let Some(id) = container {
                let fault = Fault::Fail(CallError::Refused("Unknown: broken".into()));
                sim.fault(Rpc::ContainerStatus, Some(id.as_str()), fault);
            }
        }
    }

    fn break_pod(&mut self, sim: &Sim, pod: &str) {
        let mut world = sim.world();
        let pod = world.pod(pod);
        let sandbox = pod.sandbox().map(|sandbox| sandbox.id.to_string());
        let container = pod.container("x").map(|container| container.id.to_string());
        drop(world);
        let (call, id) = match self.rng.bool() {
            true => (Rpc::PodSandboxStatus, sandbox),
            false => (Rpc::ContainerStatus, container),
        };
        if let Some(id) = id {
            let fault = self.fault();
            self.note(format_args!("{call} of {id}: {fault:?}"));
            sim.fault(call, Some(&id), fault);
        }
    }

    fn break_lists(&mut self, sim: &Sim) {
        let call = match self.rng.bool() {
            true => Rpc::ListContainers,
            false => Rpc::ListPodSandbox,
        };
        // Other errors of a list are not used here.
        let fault = match self.rng.u32(0..4) {
            0 => too_large(),
            1 => Fault::Hang,
            2 => Fault::Slow(seconds(self.rng.f64() * 0.4)),
            _ => Fault::Slow(seconds(self.rng.f64() * 4.0)),
        };
        self.note(format_args!("{call} of all: {fault:?}"));
        sim.fault(call, None, fault);
    }

    fn fault(&mut self) -> Fault {
        match self.rng.u32(0..4) {
            0 => Fault::Slow(seconds(self.rng.f64())),
            1 => Fault::Slow(seconds(self.rng.f64() * 3.0)),
            2 => Fault::Fail(CallError::Refused("Unknown: broken".into())),
            _ => Fault::Hang,
        }
    }

    fn stream_fault(&mut self) -> Option<StreamFault> {
        let every = NonZeroU32::MIN.saturating_add(self.rng.u32(1..4));
        match self.rng.u32(0..8) {
            0 => Some(StreamFault::Silent),
            1 => Some(StreamFault::Drop { every }),
            2 => Some(StreamFault::Duplicate { every }),
            3 => Some(StreamFault::Swap),
            4 => Some(StreamFault::Delay(seconds(self.rng.f64() * 5.0))),
            5 => Some(StreamFault::Scatter {
                within: seconds(self.rng.f64() * 5.0),
                seed: self.rng.u64(..),
            }),
            6 => Some(StreamFault::WithoutStatus),
            _ => None,
        }
    }

    fn kill_bystander(&mut self, sim: &Sim) {
        let now = sim.now();
        let mut world = sim.world();
        let container = world.container(BYSTANDER, "app");
        if container.state == ContainerState::Running {
            container.exit(9, now);
            self.bystander = Some((Instant::now(), container.id.clone()));
            drop(world);
            sim.kill(BYSTANDER, "app");
            self.note(format_args!("the bystander dies"));
        } else {
            world.pod(BYSTANDER).restart("app", 0, now);
            self.note(format_args!("the bystander lives again"));
        }
    }

    /// Checks that the present status report is true.
    async fn check_claims(&mut self, node: &Node) {
        // A fault that ends at this moment was in force a moment ago.
        let mut held = node.sim.outstanding();
        sleep(TICK).await;
        let failed = failing(node);
        let status = node.status().await;
        let outstanding = node.sim.outstanding();
        let (health, stuck) = (&status.health, &status.stuck);
        let age = |call: &Outstanding| call.since.elapsed();
        assert!(health.last_seen >= self.last_seen, "it goes back");
        self.last_seen = health.last_seen;
        let world = node.sim.world().clone();
        self.past.check_the_dead(node);
        self.past.check_times(node, &status);
        if health.reason == Reason::RuntimeUnreachable && self.odd.is_none() {
            let back = self.away.map(|until| until.elapsed());
            assert!(back < Some(KNOWN_TO_BE_BACK), "it is back since {back:?}");
            assert!(back.is_some(), "it was never away");
        }

        let without_culprit = health.reason == Reason::ContainerStuck
            && stuck.is_empty()
            && !health.message.contains(" yet to be inspected")
            // While the whole runtime is stopped, nothing shows that there is no culprit any more.
            && self.stopped.is_none();
        let since = self.without_culprit.filter(|_| without_culprit);
        self.without_culprit = since.or(without_culprit.then(Instant::now));

        if health.state == HealthState::Healthy {
            assert_eq!(status.blind, [], "Healthy");
            let there = |id: &Id| {
                let id = id.as_str();
                world.container_by_id(id).is_some() || world.sandbox_by_id(id).is_some()
            };
            let hangs = outstanding.iter().find(|call| {
                let is_unary = call.rpc != Rpc::GetContainerEvents;
                let there = call.id.as_ref().is_none_or(there);
                is_unary && there && age(call) >= DEGRADED_AFTER
            });
            assert_eq!(hangs, None, "Healthy, and that has not been answered");
            self.past.check(node, &status);
        }

        // No pod has an error while no problem is reported.
        let nothing_wrong = health.message == "all pods are up to date"
            || health.message.starts_with("recovering: no problem found");
        if nothing_wrong {
            // What failed since the status was made is not in it.
            let failed: Vec<_> = failed.intersection(&failing(node)).cloned().collect();
            assert!(failed.is_empty(), "{failed:?}: {}", health.message);
        }

        if self.odd.is_some() {
            return;
        }
        self.note_held(&outstanding);
        held.extend(outstanding.iter().cloned());
        let is_held: BTreeSet<(Rpc, Option<Id>)> = held
            .into_iter()
            .filter(|call| call.has_own_fault && age(call) >= SUSPECT_AFTER)
            .map(|call| (call.rpc, call.id))
            .collect();
        for call in stuck.iter().filter(|call| call.id.is_some()) {
            let key = (call.call, call.id.clone());
            // While the whole runtime is stopped, the end of a fault cannot be known.
            let held = self.held.get(&key).filter(|_| self.stopped.is_some());
            let was_held = held.is_some_and(|at| at.elapsed() < KNOWN_FOR);
            assert!(
                was_held || is_held.contains(&key),
                "{call:?} is not held up"
            );
        }

        let calls = outstanding.len();
        // While the runtime is unresponsive, no call is reported as stuck, so only the limit of all
        // calls applies.
        let is_unresponsive = health.reason == Reason::RuntimeSilent;
        assert!(
            calls
                <= if is_unresponsive {
                    MAX_OUTSTANDING
                } else {
                    WINDOW + stuck.len()
                },
            "{calls} calls, {} stuck",
            stuck.len()
        );
    }

    /// A culprit that was reported in between restarts the time.
    fn note_blame(&mut self, record: &Record) {
        if let Record::Health(health) = record
            && !health.stuck.is_empty()
        {
            self.without_culprit = self.without_culprit.map(|_| Instant::now());
        }
    }

    fn check_bystander(&mut self, trace: &Trace) {
        if self.stopped.is_some() || self.odd.is_some() {
            return;
        }
        if let Some((died, id)) = &self.bystander {
            let waited = died.elapsed().as_secs_f64();
            let reported = trace.deaths.contains_key(id);
            let longest = match self.mutes {
                true => LONGEST_WAIT + LONGEST_PERIOD,
                false => LONGEST_WAIT,
            };
            let longest = match self.hides_version && self.restarts {
                true => longest + VERSION_IS_WAITED_FOR,
                false => longest,
            };
            // Passes are at most two seconds apart; that much is allowed.
            assert!(
                reported || waited < longest,
                "{id} died {waited} s ago and no exit was reported"
            );
        }
    }

    async fn check_end(&self, node: &Node, trace: &Trace) {
        assert!(node.sim.max_outstanding_per_id() <= 1);
        let most = node.sim.max_outstanding();
        assert!(most <= MAX_OUTSTANDING, "{most} calls");
        let status = node.status().await;
        assert_eq!(status.health.state, HealthState::Healthy, "{status:?}");
        assert!(status.stuck.is_empty() && status.failing.is_empty());
        for (id, deaths) in &trace.deaths {
            assert_eq!(*deaths, 1, "deaths of {id} in\n{}", node.reported());
        }
        let world = node.sim.world().clone();
        let cached = node.pleg.cache().all();
        let names = cached.iter().map(|entry| entry.status.name.to_string());
        let there: Vec<String> = world.pods.keys().cloned().collect();
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, there);
        for entry in cached {
            assert_eq!(entry.error, None, "{}", entry.status.name);
            let pod = &world.pods[&*entry.status.name];
            let states = |id: &Id| {
                let mut containers = pod.containers.iter();
                containers.find(|it| it.id == *id).map(|it| it.state)
            };
            let (seen, there) = (entry.status.containers.len(), pod.containers.len());
            assert_eq!(seen, there, "of {pod:?}, {entry:?} in\n{}", node.reported());
            for container in &entry.status.containers {
                assert_eq!(
                    states(&container.id),
                    Some(container.state),
                    "{}",
                    container.id
                );
            }
            for container in &pod.containers {
                let died = trace.deaths.contains_key(&container.id);
                let ended = container.state == ContainerState::Exited;
                assert_eq!(died, ended, "{} {:?}", container.id, container.state);
            }
        }
        // A container that was reported as started and is removed was reported as dead.
        for id in &trace.started {
            let mut containers = world.pods.values().flat_map(|pod| &pod.containers);
            let runs = containers.any(|it| it.id == *id && it.state == ContainerState::Running);
            assert!(
                runs || trace.deaths.contains_key(id),
                "{id} is gone and no exit was reported"
            );
        }
    }
}
