//! A client that relies on the cache starts nothing twice: random worlds with random faults, in
//! virtual time. In each of them a client keeps containers running by what [`Cache::newer_than`]
//! returns, as a kubelet does.
//!
//! - an entry that is complete as of a time shows all containers that existed then and still do;
//! - a container that is shown as running as of a time had not ended before, and an ended container
//!   has ended;
//! - so no container is started while another one of its name runs, and no second sandbox;
//! - once no fault is in force, all wanted containers run.
//!
//! `PLEG_WORLDS=100000` tries this many fresh seeds; a failure prints its seed, and `PLEG_SEED=n`
//! replays it.
//!
//! [`Cache::newer_than`]: pleg::out::cache::Cache::newer_than

#![allow(
    clippy::print_stderr,
    reason = "a failing seed is printed with the events of its world"
)]

mod keeper;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::node::{broken, seconds, too_large};
use crate::odd::Odd;
use crate::worlds::live_each;
use fastrand::Rng;
use keeper::{Keeper, Truth, WANTED, check, shown};
use pleg::model::id::{HostId, Id};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::runtime::{CallError, Rpc};
use pleg::{Config, Environment, Mode, NoObserver, Pleg};
use sim::{Fault, Sim, StreamFault};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const WORLDS: u64 = 500;

/// How long no fault is in force at the end.
const QUIET: Duration = Duration::from_secs(90);

#[test]
fn a_client_of_the_cache_starts_nothing_twice_in_random_worlds() {
    // 38239: a sandbox that fails, and fails again while it is not listed.
    // 45453: a list contradicts an open inspection.
    // 107168, 136862, 203229, 209508, 214385: a list shows a new part of a pod that seemed to be
    // removed.
    // 80024, 98609, 103378: a sweep waits for a sandbox that an inspection requests, and that is
    // not found.
    // 5453866726073225827, 7285713005317956636: a container ends while an inspection that found it as
    // created waits for another one.
    let seeds = [
        38239,
        45453,
        80024,
        98609,
        103378,
        107168,
        136862,
        203229,
        209508,
        214385,
        5_453_866_726_073_225_827,
        7_285_713_005_317_956_636,
    ];
    live_each(&seeds, WORLDS, |seed| async move {
        World::new(seed).live().await
    });
}

struct World {
    rng: Rng,
    sim: Sim,
    odd: Odd,
    truth: Arc<Mutex<Truth>>,
    names: Vec<String>,
    began: Instant,
    replayed: bool,
    /// How many seconds the wall clock was set back.
    clock: Arc<AtomicU64>,
    fills: bool,
    /// Whether lists may be slow or stuck. In such a world, no status call fails with `NotFound`
    /// for long.
    lists_break: bool,
    /// The ids that were not found once.
    missed: BTreeSet<Id>,
}

impl World {
    fn new(seed: u64) -> Self {
        let sim = Sim::new();
        Self {
            rng: Rng::with_seed(seed),
            odd: Odd::new(sim.clone()),
            sim,
            truth: Arc::default(),
            names: Vec::new(),
            began: Instant::now(),
            replayed: std::env::var("PLEG_SEED").is_ok(),
            clock: Arc::default(),
            fills: false,
            lists_break: false,
            missed: BTreeSet::new(),
        }
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        if self.replayed {
            eprintln!("{:.3} {what}", self.began.elapsed().as_secs_f64());
        }
    }

    fn begin(&mut self) -> Pleg {
        self.fills = self.rng.bool();
        self.lists_break = self.rng.bool();
        self.note(format_args!(
            "fills: {}, lists break: {}",
            self.fills, self.lists_break
        ));
        if self.fills {
            self.sim.fill_sandboxes();
        }
        {
            let mut oddities = self.odd.oddities();
            oddities.shows_the_past = self.rng.bool();
            oddities.fills_sandboxes = self.fills;
        }
        let mode = match self.rng.bool() {
            true => Mode::Generic,
            false => Mode::Auto,
        };
        let (offset, clock) = (self.clock.clone(), self.sim.clock());
        let shows = self.rng.u32(0..3);
        let world = self.sim.clone();
        let environment = Environment {
            endpoint: "sim".into(),
            clock: Arc::new(move || {
                let offset = offset.load(Ordering::Relaxed);
                clock().before(Duration::from_secs(offset))
            }),
            observer: Arc::new(NoObserver),
            ids: Arc::new(move || {
                let world = world.world();
                let sandboxes = world.sandboxes().map(|(_, it)| it.id.clone());
                let containers = world.containers().map(|(_, it)| it.id.clone());
                let ids: Vec<HostId> = match shows {
                    0 => Vec::new(),
                    1 => sandboxes.map(HostId::from).collect(),
                    _ => sandboxes.chain(containers).map(HostId::from).collect(),
                };
                Box::pin(async move { Some(ids) })
            }),
            kernel: match self.rng.bool() {
                true => Some(Arc::new(self.sim.clone())),
                false => None,
            },
        };
        Pleg::start(
            Arc::new(self.odd.clone()),
            Config {
                mode,
                ..Config::default()
            },
            environment,
        )
    }

    async fn live(mut self) {
        let pleg = self.begin();
        let mut keepers = JoinSet::new();
        let pods = self.rng.usize(1..5);
        for number in 0..pods {
            let name = format!("p{number}");
            self.names.push(name.clone());
            let keeper = Keeper {
                sim: self.sim.clone(),
                pleg: pleg.clone(),
                truth: self.truth.clone(),
                name,
                began: self.began,
                replayed: self.replayed,
            };
            let rng = self.rng.fork();
            keepers.spawn(keeper.keep(rng));
        }
        let end = Instant::now() + seconds(10.0 + self.rng.f64() * 60.0);
        while Instant::now() < end {
            self.happen();
            sleep(seconds(self.rng.f64() * 1.5)).await;
            for entry in pleg.cache().all() {
                check(&entry, &self.sim, &self.truth, self.began);
            }
            while let Some(ended) = keepers.try_join_next() {
                ended.expect("nothing is started twice");
            }
        }
        self.note(format_args!("quiet"));
        self.sim.lift_all();
        self.sim.lift_stream_faults();
        self.odd.oddities().not_found_once.clear();
        sleep(QUIET).await;
        while let Some(ended) = keepers.try_join_next() {
            ended.expect("nothing is started twice");
        }
        self.odd.assert_no_endless_loop();
        let world = self.sim.world();
        for name in &self.names {
            let Some(pod) = world.pods.get(name) else {
                panic!("{name} was never started");
            };
            for wanted in WANTED {
                let mut of_name = pod.containers.iter().filter(|it| it.name == wanted);
                let runs = of_name.any(|it| it.state == ContainerState::Running);
                let entry = pleg.cache().get(&pod.pod.uid);
                let entry_shown = shown(&entry, self.began);
                assert!(
                    runs,
                    "{wanted} of {name} does not run: {:?}, {entry_shown}",
                    entry.error
                );
            }
        }
    }

    fn happen(&mut self) {
        let now = self.sim.now();
        let name = self.names[self.rng.usize(0..self.names.len())].clone();
        let wanted = WANTED[self.rng.usize(0..WANTED.len())];
        let Some(id) = self.pick(&name) else { return };
        match self.rng.u32(0..16) {
            0..=2 => self.end(&name, wanted),
            3 => {
                let mut world = self.sim.world();
                let pod = world.pod(&name);
                let mut truth = self.truth.lock().unwrap();
                let runs = |state| state == ContainerState::Running;
                for container in pod.containers.iter().filter(|it| runs(it.state)) {
                    truth.ended.insert(container.id.clone(), Instant::now());
                }
                // A created container cannot run once its sandbox has stopped.
                for container in &mut pod.containers {
                    if container.state == ContainerState::Created {
                        container.exit(128, now);
                    }
                }
                pod.stop(now);
                drop(truth);
                drop(world);
                self.note(format_args!("{name} is stopped"));
            }
            4 => {
                // An ended container is removed, as by garbage collection.
                let mut world = self.sim.world();
                let pod = world.pod(&name);
                // The newest stays, so that its successor gets an id of its own.
                let containers = pod.containers.iter();
                let newest: BTreeMap<String, u32> =
                    containers.map(|it| (it.name.clone(), it.attempt)).collect();
                pod.containers.retain(|it| {
                    it.state != ContainerState::Exited || newest[&it.name] == it.attempt
                });
                let used: Vec<Id> = pod
                    .containers
                    .iter()
                    .map(|it| it.sandbox_id.clone())
                    .collect();
                let newest = pod.sandboxes.len().saturating_sub(1);
                let mut index = 0;
                pod.sandboxes.retain(|it| {
                    let stays =
                        index == newest || it.state == SandboxState::Ready || used.contains(&it.id);
                    index += 1;
                    stays
                });
                drop(world);
                self.note(format_args!("the dead of {name} are removed"));
            }
            // An id that two sweeps do not find counts as removed.
            5 | 6 if self.missed.insert(id.clone()) => {
                self.note(format_args!("{id} is not found once"));
                self.odd.oddities().not_found_once.insert(id);
            }
            7 | 8 => {
                let call = match id.as_str().contains('/') {
                    true => Rpc::ContainerStatus,
                    false => Rpc::PodSandboxStatus,
                };
                let fault = self.fault();
                self.note(format_args!("{call} of {id}: {fault:?}"));
                self.sim.fault(call, Some(id.as_str()), fault);
            }
            9 | 10 if self.lists_break => {
                let list = match self.rng.bool() {
                    true => Rpc::ListContainers,
                    false => Rpc::ListPodSandbox,
                };
                let fault = match self.rng.u32(0..5) {
                    0 => too_large(),
                    1 => Fault::Hang,
                    2 => Fault::Slow(seconds(self.rng.f64() * 0.4)),
                    3 => Fault::Jitter(seconds(0.0), seconds(self.rng.f64() * 2.0)),
                    _ => Fault::Slow(seconds(self.rng.f64() * 4.0)),
                };
                self.note(format_args!("{list}: {fault:?}"));
                self.sim.fault(list, None, fault);
            }
            11 => {
                let call = match self.rng.bool() {
                    true => Rpc::ContainerStatus,
                    false => Rpc::PodSandboxStatus,
                };
                let fault = Fault::Jitter(seconds(0.0), seconds(self.rng.f64()));
                self.note(format_args!("{call} of all: {fault:?}"));
                self.sim.fault(call, None, fault);
            }
            12 | 13 => {
                self.note(format_args!("all faults are lifted"));
                self.sim.lift_all();
            }
            14 => {
                let by = self.rng.u64(0..5000);
                self.clock.store(by, Ordering::Relaxed);
            }
            _ => match self.rng.u32(0..4) {
                0 => self.sim.set_stream_fault(StreamFault::Silent),
                1 => self
                    .sim
                    .set_stream_fault(StreamFault::Delay(seconds(self.rng.f64() * 5.0))),
                2 => self.sim.end_streams(),
                _ => {
                    self.note(format_args!("the runtime restarts"));
                    self.sim.restart(seconds(self.rng.f64() * 3.0));
                }
            },
        }
    }

    /// A random id of the pod.
    fn pick(&mut self, name: &str) -> Option<Id> {
        let world = self.sim.world();
        let pod = world.pods.get(name)?;
        let sandboxes = pod.sandboxes.iter().map(|it| it.id.clone());
        let containers = pod.containers.iter().map(|it| it.id.clone());
        let ids: Vec<Id> = sandboxes.chain(containers).collect();
        drop(world);
        self.rng.choice(ids)
    }

    fn end(&mut self, name: &str, wanted: &str) {
        let now = self.sim.now();
        let late = match self.rng.bool() {
            true => seconds(self.rng.f64() * 20.0),
            false => Duration::ZERO,
        };
        let mut world = self.sim.world();
        if let Some(container) = world.pod(name).container(wanted)
            && container.state == ContainerState::Running
        {
            container.exit(1, now);
            container.exit_code_delay = late;
            let id = container.id.clone();
            drop(world);
            self.note(format_args!("{id} ends"));
            self.truth.lock().unwrap().ended.insert(id, Instant::now());
            self.sim.kill(name, wanted);
        }
    }

    fn fault(&mut self) -> Fault {
        match self.rng.u32(0..5) {
            0 => Fault::Slow(seconds(self.rng.f64())),
            1 => Fault::Slow(seconds(self.rng.f64() * 3.0)),
            2 => broken(),
            3 if !self.lists_break => Fault::Fail(CallError::NotFound("for a while".into())),
            _ => Fault::Hang,
        }
    }
}
