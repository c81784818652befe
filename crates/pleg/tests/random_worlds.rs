//! What is always true, whatever the faults: thousands of random worlds with random
//! faults, in virtual time.
//!
//! - once it is quiet, the cache equals the world;
//! - each death that was bracketed by looks is told exactly once;
//! - no pod's death waits for another pod's stuck call, nor for a list that hangs; a
//!   stream that falls silent delays it by the longest period at most;
//! - at most one call per (RPC, id) is ever outstanding.
//!
//! `PLEG_WORLDS=100000` tries more; a failure prints its seed, and `PLEG_SEED=n` replays it.

#![allow(
    clippy::print_stderr,
    reason = "a failing seed is printed, and what it does"
)]

mod node;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fastrand::Rng;
use node::{Node, seconds};
use pleg::event::EventType;
use pleg::id::Id;
use pleg::listed::ContainerState;
use pleg::runtime::{Call, CallError};
use pleg::told::Record;
use pleg::{Config, Mode};
use sim::{Fault, Sim, StreamFault};
use tokio::time::{Instant, sleep, timeout};

const WORLDS: u64 = 10_000;

/// A pod without faults of its own, whose deaths must never wait.
const BYSTANDER: &str = "bystander";

/// Overdue list, a period, a sweep of a small node, an inspection of slow calls.
const LONGEST_WAIT: f64 = 2.0 + 1.0 + 1.0 + 1.5;

/// The ceiling of the relist period.
const LONGEST_PERIOD: f64 = 30.0;

#[test]
fn what_is_always_true_is_true_in_random_worlds() {
    if let Ok(seed) = std::env::var("PLEG_SEED") {
        live(seed.parse().expect("PLEG_SEED is a number"));
        return;
    }
    let worlds = std::env::var("PLEG_WORLDS").map_or(WORLDS, |worlds| {
        worlds.parse().expect("PLEG_WORLDS is a number")
    });
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (thread..worlds).step_by(threads as usize) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| live(seed))) {
                        eprintln!("the world of PLEG_SEED={seed} is wrong");
                        resume_unwind(panic);
                    }
                }
            });
        }
    });
}

fn live(seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime
        .expect("a runtime needs nothing")
        .block_on(async { World::new(seed).live().await });
}

struct World {
    rng: Rng,
    began: Instant,
    replayed: bool,
    pods: Vec<String>,
    born: usize,
    hangs: usize,
    /// Whether the event stream falls silent now and then.
    mutes: bool,
    kernel: bool,
    /// When the bystander's present container died, and which it was.
    bystander: Option<(Instant, Id)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            mutes: rng.bool(),
            kernel: rng.bool(),
            rng,
            began: Instant::now(),
            replayed: std::env::var("PLEG_SEED").is_ok(),
            pods: Vec::new(),
            born: 0,
            hangs: 0,
            bystander: None,
        }
    }

    async fn live(mut self) {
        let config = Config {
            mode: match self.rng.bool() {
                true => Mode::Generic,
                false => Mode::Auto,
            },
            ..Config::default()
        };
        let kernel = self.kernel;
        let prepare = |sim: &Sim| {
            sim.run(BYSTANDER, &["app"]);
            for _ in 0..self.rng.usize(1..6) {
                self.run(sim);
            }
        };
        let node = match kernel {
            true => Node::watch_with_kernel(config, prepare).await,
            false => Node::watch_with(config, prepare).await,
        };
        let mut told = node.pleg.subscribe().await.expect("it runs");
        let mut heard = Heard::default();
        let end = Instant::now() + seconds(self.rng.f64() * 60.0);
        while Instant::now() < end {
            self.happen(&node.sim);
            sleep(seconds(self.rng.f64() * 2.0)).await;
            while let Ok(Some(record)) = timeout(seconds(0.0), told.next()).await {
                self.note(format_args!("  told: {}", node::line(&record)));
                heard.hear(&record);
            }
            self.check_bystander(&heard);
        }
        node.sim.lift_all();
        sleep(seconds(40.0)).await;
        while let Ok(Some(record)) = timeout(seconds(0.0), told.next()).await {
            heard.hear(&record);
        }
        self.check_end(&node, &heard).await;
    }

    fn run(&mut self, sim: &Sim) {
        let name = format!("p{}", self.born);
        self.born += 1;
        let containers = ["x", "y", "z"];
        sim.run(&name, &containers[..self.rng.usize(1..3)]);
        self.pods.push(name);
    }

    /// Notes what happened, for whoever replays a seed.
    fn note(&self, what: std::fmt::Arguments<'_>) {
        if self.replayed {
            eprintln!("{:.3} {what}", self.began.elapsed().as_secs_f64());
        }
    }

    /// One thing happens to the node.
    fn happen(&mut self, sim: &Sim) {
        let now = sim.now();
        let index = self.rng.usize(0..self.pods.len().max(1));
        let pod = self.pods.get(index).cloned();
        match (self.rng.u32(0..16), pod) {
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
                sim.lift_all();
            }
            (11, Some(pod)) => sim.kill(&pod, "x"),
            (12, _) if self.mutes => {
                let fault = self.stream_fault();
                self.note(format_args!("the stream: {fault:?}"));
                match fault {
                    Some(fault) => sim.disturb_stream(fault),
                    None => sim.calm_stream(),
                }
            }
            (13, _) if self.mutes => {
                self.note(format_args!("the stream ends"));
                sim.end_announcements();
            }
            (14, _) if self.hangs < 2 => self.break_nearly_all(sim),
            _ => self.kill_bystander(sim),
        }
    }

    /// Neither list comes, and every pod but the bystander cannot be inspected.
    fn break_nearly_all(&mut self, sim: &Sim) {
        self.hangs += 2;
        self.note(format_args!("both lists hang, and many statuses fail"));
        for list in [Call::ListContainers, Call::ListPodSandbox] {
            sim.fault(list, None, Fault::Hang);
        }
        for pod in self.pods.clone() {
            let container = sim.world().pod(&pod).container("x").map(|it| it.id.clone());
            if let Some(id) = container {
                let fault = Fault::Fail(CallError::Refused("Unknown: broken".into()));
                sim.fault(Call::ContainerStatus, Some(id.as_str()), fault);
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
            true => (Call::PodSandboxStatus, sandbox),
            false => (Call::ContainerStatus, container),
        };
        if let Some(id) = id {
            let fault = self.fault();
            self.note(format_args!("{call} of {id}: {fault:?}"));
            sim.fault(call, Some(&id), fault);
        }
    }

    fn break_lists(&mut self, sim: &Sim) {
        let call = match self.rng.bool() {
            true => Call::ListContainers,
            false => Call::ListPodSandbox,
        };
        // A list that merely fails makes everybody wait, as there is nothing to sweep for.
        // What happens to one list in twenty is common, and would be waited for longer.
        let fault = match self.rng.u32(0..3) {
            0 => Fault::Fail(CallError::TooLarge("by far".into())),
            1 if self.hangs < 3 => {
                self.hangs += 1;
                Fault::Hang
            }
            _ => Fault::Slow(seconds(self.rng.f64() * 0.4)),
        };
        self.note(format_args!("{call} of all: {fault:?}"));
        sim.fault(call, None, fault);
    }

    fn fault(&mut self) -> Fault {
        match self.rng.u32(0..3) {
            0 => Fault::Slow(seconds(self.rng.f64())),
            1 => Fault::Fail(CallError::Refused("Unknown: broken".into())),
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
        }
    }

    fn check_bystander(&mut self, heard: &Heard) {
        if let Some((died, id)) = &self.bystander {
            let waited = died.elapsed().as_secs_f64();
            let told = heard.deaths.contains_key(id);
            let longest = match self.mutes {
                true => LONGEST_WAIT + LONGEST_PERIOD,
                false => LONGEST_WAIT,
            };
            // A look is made every two seconds at most, so that much is ours.
            assert!(
                told || waited < longest,
                "{id} died {waited} s ago and nobody told"
            );
        }
    }

    async fn check_end(&self, node: &Node, heard: &Heard) {
        assert!(node.sim.most_outstanding() <= 1);
        for (id, deaths) in &heard.deaths {
            assert_eq!(*deaths, 1, "deaths of {id} in\n{}", node.told());
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
            assert_eq!(seen, there, "of {pod:?}, {entry:?} in\n{}", node.told());
            for container in &entry.status.containers {
                assert_eq!(
                    states(&container.id),
                    Some(container.state),
                    "{}",
                    container.id
                );
            }
            for container in &pod.containers {
                let died = heard.deaths.contains_key(&container.id);
                let ended = container.state == ContainerState::Exited;
                assert_eq!(died, ended, "{} {:?}", container.id, container.state);
            }
        }
        // Whoever was told alive and is no more was told dead.
        for id in &heard.started {
            let mut containers = world.pods.values().flat_map(|pod| &pod.containers);
            let runs = containers.any(|it| it.id == *id && it.state == ContainerState::Running);
            assert!(
                runs || heard.deaths.contains_key(id),
                "{id} is gone and nobody told"
            );
        }
    }
}

#[derive(Default)]
struct Heard {
    started: Vec<Id>,
    deaths: BTreeMap<Id, usize>,
}

impl Heard {
    fn hear(&mut self, record: &Record) {
        let Record::Event(event) = record else {
            return;
        };
        let (Some(id), Some(_)) = (&event.id, &event.container) else {
            return;
        };
        match event.event_type {
            EventType::ContainerStarted => self.started.push(id.clone()),
            EventType::ContainerDied => *self.deaths.entry(id.clone()).or_default() += 1,
            EventType::ContainerRemoved | EventType::PodSync => {}
        }
    }
}
