//! Doing what a step says, or saying why it cannot be done.

use pleg::model::listed::ContainerState;
use pleg::model::wall_time::WallTime;

use super::words::Unexpected;
use super::{Action, Calls, ContainerName, Lifted, Of, Scenario, ScenarioError, Told};
use crate::faults::Fault;
use crate::world::{Container, Pod, World};
use crate::{Rpc, Sim};

/// What a step speaks of is not there.
pub(super) type Done<T> = Result<T, String>;

impl Scenario {
    /// Whether all that it speaks of will be there, in a world that begins like this one
    /// and to which nothing else happens.
    pub fn check(&self, world: &World, now: WallTime) -> Result<(), ScenarioError> {
        let mut world = world.clone();
        for step in &self.steps {
            let checked = change(&mut world, &step.action, now);
            let checked = checked.and_then(|_| refers(&mut world, &step.action));
            checked.map_err(|why| {
                let wrong = Unexpected::whole(&step.text, step.begins, step.written(), why);
                wrong.at(&self.name, step.line, &step.text)
            })?;
        }
        Ok(())
    }
}

/// Does what an action says.
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
        Action::Lift(Lifted::Events) => sim.calm_stream(),
        Action::Lift(Lifted::StatusLock(name)) => {
            container(&mut sim.world(), name)?;
            sim.status_unlock(&name.pod, &name.container);
        }
        Action::Lift(Lifted::Calls(calls)) => for_each(sim, calls, |rpc, id| sim.lift(rpc, id))?,
        Action::Disturb(fault) => sim.disturb_stream(*fault),
        Action::Flood(flood, events) => sim.flood(*flood, *events),
        Action::Serve(serving) => sim.serve_stream(*serving),
        Action::BehaveAs(manner) => sim.behave_as(*manner),
        Action::CutStreams => sim.end_announcements(),
        Action::StopRuntime => sim.stop(),
        Action::ContinueRuntime => sim.go_on(),
        Action::RestartRuntime(down) => sim.restart(*down),
        // The world's own are done, and the others are the player's.
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

/// Changes the world; `false` for an action that is about something else.
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
        Action::Exit(name, code, told) => {
            let container = container(world, name)?;
            if container.state != ContainerState::Running {
                return Err(format!("container {name} does not run"));
            }
            match told {
                Told::NotListed => container.exit_unlisted(*code, now),
                Told::AsItIs => container.exit(*code, now),
                Told::CodeAfter(late) => {
                    container.exit(*code, now);
                    container.code_late = *late;
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

/// Whether what an action refers to is there.
fn refers(world: &mut World, action: &Action) -> Done<()> {
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

/// The id of what is there; a literal one need not be, so that it may come later.
fn id(world: &mut World, of: &Of) -> Done<String> {
    match of {
        Of::Id(id) => Ok(id.clone()),
        Of::Container(name) => Ok(container(world, name)?.id.to_string()),
        Of::Pod(name) => {
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
