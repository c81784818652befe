//! The random changes and faults of a world.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::{BYSTANDER, World};
use crate::node::{broken, seconds, too_large};
use crate::odd::Journey;
use fastrand::Rng;
use pleg::model::listed::ContainerState;
use pleg::runtime::Rpc;
use sim::{Fault, Manner, Sim, StreamFault};
use tokio::time::Instant;

impl World {
    /// In some odd worlds, the runtime imitates another one.
    pub(super) fn begin_odd(&mut self, sim: &Sim) {
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
    pub(super) fn learn_of_the_dead(&mut self, sim: &Sim) {
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

    pub(super) fn run(&mut self, sim: &Sim) {
        let name = format!("p{}", self.born);
        self.born += 1;
        let containers = ["x", "y", "z"];
        sim.run(&name, &containers[..self.rng.usize(1..3)]);
        self.pods.push(name);
    }

    /// Makes one random change to the node, which the kernel may not report.
    pub(super) fn happen(&mut self, sim: &Sim) {
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

    pub(super) fn hide_version(&self, sim: &Sim) {
        if self.hides_version {
            sim.fault(Rpc::Version, None, Fault::Hang);
        }
    }

    pub(super) fn lift_all(&mut self, sim: &Sim) {
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
                let fault = broken();
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
            2 => broken(),
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
}
