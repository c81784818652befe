//! Performs the actions, or reports why that is not possible.

use pleg::model::listed::ContainerState;
use pleg::model::wall_time::WallTime;

use super::words::Unexpected;
use super::{Action, Calls, ContainerName, ExitReport, Lifted, Scenario, ScenarioError, Target};
use crate::faults::Fault;
use crate::world::{Container, Pod, World};
use crate::{Rpc, Sim};

/// The result of an action. The error is a message, for example that an object does not exist.
pub(super) type Done<T> = Result<T, String>;

impl Scenario {
    /// Checks that all actions can be performed, and that all objects to which they refer will exist, if
    /// the scenario begins with this world and nothing else changes the world.
    pub fn check(&self, world: &World, now: WallTime) -> Result<(), ScenarioError> {
        let mut world = world.clone();
        for step in &self.steps {
            let checked = change(&mut world, &step.action, now);
            let checked = checked.and_then(|_| check_references(&mut world, &step.action));
            checked.map_err(|why| {
                let wrong = Unexpected::part(&step.text, step.written.clone(), why);
                wrong.at(&self.name, step.line, &step.text)
            })?;
        }
        Ok(())
    }
}

/// Performs an action.
pub(super) fn perform(sim: &Sim, action: &Action) -> Done<()> {
    let now = sim.now();
    if change(&mut sim.world(), action, now)? {
        return Ok(());
    }
    match action {
        Action::Fault(calls, fault) => {
            let set = |rpc, id: Option<&str>| sim.fault(rpc, id, Fault::clone(fault));
            for_each(sim, calls, set)?;
        }
        Action::StatusLock(name) => {
            container(&mut sim.world(), name)?;
            sim.status_lock(&name.pod, &name.container);
        }
        Action::Lift(Lifted::All) => sim.lift_all(),
        Action::Lift(Lifted::Events) => sim.lift_stream_faults(),
        Action::Lift(Lifted::StatusLock(name)) => {
            container(&mut sim.world(), name)?;
            sim.status_unlock(&name.pod, &name.container);
        }
        Action::Lift(Lifted::Calls(calls)) => for_each(sim, calls, |rpc, id| sim.lift(rpc, id))?,
        Action::SetStreamFault(fault) => sim.set_stream_fault(*fault),
        Action::Flood(flood, events) => sim.flood(*flood, *events),
        Action::Serve(serving) => sim.serve_stream(*serving),
        Action::BehaveAs(manner) => sim.behave_as(*manner),
        Action::CutStreams => sim.end_streams(),
        Action::StopRuntime => sim.stop(),
        Action::ContinueRuntime => sim.resume(),
        Action::RestartRuntime(down) => sim.restart(*down),
        // `change` has performed the actions on the world, and `play` performs the others.
        _ => {}
    }
    Ok(())
}

fn for_each(sim: &Sim, calls: &Calls, act: impl Fn(Rpc, Option<&str>)) -> Done<()> {
    let of = calls.of.as_ref();
    let id = of.map(|of| id(&mut sim.world(), of)).transpose()?;
    for rpc in &calls.rpcs {
        act(*rpc, id.as_deref());
    }
    Ok(())
}

/// Changes the world. Returns `false` for an action that does not concern the world.
fn change(world: &mut World, action: &Action, now: WallTime) -> Done<bool> {
    match action {
        Action::Run {
            pod: name,
            containers,
        } => {
            if world.pods.contains_key(name) {
                return Err(format!("there is a pod {name:?} already"));
            }
            let containers: Vec<&str> = containers.iter().map(String::as_str).collect();
            world.run(name, &containers, now);
        }
        Action::Exit(name, code, report) => {
            let container = container(world, name)?;
            if container.state != ContainerState::Running {
                return Err(format!("container {name} does not run"));
            }
            match report {
                ExitReport::NotListed => container.exit_unlisted(*code, now),
                ExitReport::Prompt => container.exit(*code, now),
                ExitReport::CodeDelayed(delay) => {
                    container.exit(*code, now);
                    container.exit_code_delay = *delay;
                }
            }
        }
        Action::Restart(name, code) => {
            container(world, name)?;
            pod(world, &name.pod)?.restart(&name.container, *code, now);
        }
        Action::Stop(name) => pod(world, name)?.stop(now),
        Action::RemovePod(name) => {
            pod(world, name)?;
            world.remove(name);
        }
        Action::RemoveContainer(name) => {
            let id = container(world, name)?.id.clone();
            world.remove_container(id.as_str());
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Checks that the objects to which an action refers exist.
fn check_references(world: &mut World, action: &Action) -> Done<()> {
    match action {
        Action::StatusLock(name) | Action::Lift(Lifted::StatusLock(name)) => {
            container(world, name).map(drop)
        }
        Action::Fault(calls, _) | Action::Lift(Lifted::Calls(calls)) => {
            let of = calls.of.as_ref();
            of.map(|of| id(world, of)).transpose().map(drop)
        }
        _ => Ok(()),
    }
}

/// The id of an existing object. A literal id may also be that of an object that is created later.
fn id(world: &mut World, of: &Target) -> Done<String> {
    match of {
        Target::Id(id) => Ok(id.clone()),
        Target::Container(name) => Ok(container(world, name)?.id.to_string()),
        Target::Pod(name) => {
            let sandbox = pod(world, name)?.sandbox();
            let sandbox = sandbox.ok_or_else(|| format!("pod {name:?} has no sandbox"))?;
            Ok(sandbox.id.to_string())
        }
    }
}

fn pod<'a>(world: &'a mut World, name: &str) -> Done<&'a mut Pod> {
    let pod = world.pods.get_mut(name);
    pod.ok_or_else(|| format!("there is no pod {name:?}"))
}

fn container<'a>(world: &'a mut World, name: &ContainerName) -> Done<&'a mut Container> {
    let container = pod(world, &name.pod)?.container(&name.container);
    container.ok_or_else(|| format!("there is no container {name}"))
}
