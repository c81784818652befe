//! The steps of a world, and which of them are tried next.

use std::time::Duration;

use cri::Rpc;
use guard::Kind;

use super::runtime::{CREATED, EXITED, Fault, Item, Life, NOT_READY, READY, RUNNING, Runtime};
use super::runtime::{list_of, status_of};
use super::world::World;

pub const SHORT: Duration = Duration::from_secs(1);
pub const LONG: Duration = Duration::from_secs(5);

/// The highest number of faults at the same time.
const MAX_FAULTS: usize = 3;

/// The highest number of outstanding lists of one kind.
const MAX_LISTS: usize = 2;

/// The state that the answer to a hanging call shows: as of its request, or as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Early,
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A container exits.
    Dies(Item),
    Begins(Fault),
    Ends(Fault),
    /// A caller requests a list, a status or a change.
    List(Kind),
    Status(Item),
    Change(Rpc, Item),
    /// The hanging call at this place is answered.
    Answer(usize, Answer),
    /// The guard is killed and started again.
    Restart,
    Wait(Duration),
}

/// The start of worlds: a node whose lists the guard has received.
pub struct Start {
    /// The states of the containers of each sandbox; `None` for a container that can be created.
    pub pods: &'static [&'static [Option<i32>]],
    /// How many steps are taken from here.
    pub steps: usize,
    /// Whether the host reports the runtime's ids.
    pub host_reports: bool,
    /// The kind whose lists hang and are answered by the guard, if any.
    pub guards: Option<Kind>,
}

/// The steps that worlds are made of.
pub struct Alphabet {
    pub name: &'static str,
    pub starts: &'static [Start],
    pub lists: &'static [Kind],
    pub statuses: &'static [Kind],
    pub changes: &'static [Rpc],
    pub faults: fn(&Runtime) -> Vec<Fault>,
    pub restarts: bool,
}

impl Alphabet {
    /// The steps that are tried after these. At most `left` more steps may be taken.
    pub fn next(&self, world: &World, path: &[Step], left: usize) -> Vec<Step> {
        let mut steps = self.enabled(world);
        steps.retain(|step| {
            self.is_worth(world, path, *step, left) && is_first_of_its_kind(world, path, *step)
        });
        steps
    }

    fn enabled(&self, world: &World) -> Vec<Step> {
        let runtime = &world.runtime;
        let has = |fault| runtime.faults.contains(&fault);
        let mut steps = Vec::new();
        let containers = || runtime.items(Kind::Container);
        let in_state = |item: Item, state| runtime.life(item) == Life::In(state);
        if !has(Fault::All) {
            let running = containers().filter(|item| in_state(*item, RUNNING));
            steps.extend(running.map(Step::Dies));
            let mut faults = (self.faults)(runtime);
            faults.retain(|fault| !has(*fault) && !is_covered(runtime, *fault));
            if runtime.faults.len() < MAX_FAULTS {
                steps.extend(faults.into_iter().map(Step::Begins));
            }
        }
        steps.extend(runtime.faults.iter().copied().map(Step::Ends));
        let lists = self.lists.iter().copied();
        let lists = lists.filter(|kind| world.open(list_of(*kind), None) < MAX_LISTS);
        steps.extend(lists.map(Step::List));
        for kind in self.statuses {
            let known = runtime.items(*kind);
            let known = known.filter(|item| runtime.life(*item) != Life::NotMade);
            let known = known.filter(|item| world.open(status_of(*kind), Some(*item)) == 0);
            steps.extend(known.map(Step::Status));
        }
        for rpc in self.changes {
            let kind = match rpc {
                Rpc::StopPodSandbox | Rpc::RemovePodSandbox => Kind::Sandbox,
                _ => Kind::Container,
            };
            let items = runtime.items(kind).filter(|item| {
                let is_open = world.open(*rpc, Some(*item)) > 0;
                !is_open && can_change(*rpc, runtime.life(*item))
            });
            steps.extend(items.map(|item| Step::Change(*rpc, item)));
        }
        for (place, sent) in world.held.iter().enumerate() {
            if sent.rpc != Rpc::Version {
                let answers = world.answers(sent).into_iter();
                steps.extend(answers.map(|answer| Step::Answer(place, answer)));
            }
        }
        if self.restarts {
            steps.push(Step::Restart);
        }
        steps.extend([SHORT, LONG].map(Step::Wait));
        steps
    }

    /// Whether the guard can still answer a list after this step, and the step may affect that list.
    fn is_worth(&self, world: &World, path: &[Step], step: Step, left: usize) -> bool {
        let kinds = || self.lists.iter().copied();
        let waits = kinds().any(|kind| world.open(list_of(kind), None) > 0);
        let guards = world.is_guarding();
        // The number of steps until the guard answers a list.
        let needed = match step {
            Step::List(_) if guards => 1,
            Step::List(_) if !world.runtime.faults.is_empty() => 2,
            Step::Wait(_) | Step::Answer(..) | Step::Ends(_) if waits => 1,
            Step::Restart => 3,
            _ if waits || guards => 2,
            Step::Begins(_) => 3,
            _ if world.runtime.faults.is_empty() => 4,
            _ => 3,
        };
        let is_idle = world.held.is_empty() && !guards;
        let last = path.last();
        let is_wanted = match step {
            // In an idle world, time only makes the guard save its records.
            Step::Wait(_) if is_idle && !self.restarts => false,
            Step::Wait(_) if is_idle && matches!(last, Some(Step::Wait(_)) | None) => false,
            Step::Restart => !matches!(last, Some(Step::Restart) | None),
            Step::Status(_) | Step::List(_) => last != Some(&step),
            _ => true,
        };
        needed <= left && is_wanted
    }
}

/// Whether another fault already affects all calls that this one would affect.
fn is_covered(runtime: &Runtime, fault: Fault) -> bool {
    let has = |fault| runtime.faults.contains(&fault);
    match fault {
        Fault::StatusOf(item) => has(Fault::Statuses(item.0)) || has(Fault::Fails(item)),
        Fault::Fails(item) => has(Fault::Statuses(item.0)) || has(Fault::StatusOf(item)),
        _ => false,
    }
}

fn can_change(rpc: Rpc, life: Life) -> bool {
    match rpc {
        Rpc::CreateContainer => life == Life::NotMade,
        Rpc::StartContainer => life == Life::In(CREATED),
        Rpc::StopContainer => life == Life::In(RUNNING),
        // A kubelet does not remove a running container.
        Rpc::RemoveContainer => matches!(life, Life::In(CREATED | EXITED)),
        Rpc::StopPodSandbox => life == Life::In(READY),
        _ => life == Life::In(NOT_READY),
    }
}

/// Whether this step continues the one world that is tried among equivalent ones: those with another
/// order of the same steps, or with an exchange of containers that are alike.
fn is_first_of_its_kind(world: &World, path: &[Step], step: Step) -> bool {
    let Some(last) = path.last() else {
        return is_first_alike(world, path, step);
    };
    let is_undone = |fault| {
        let mut since = path.iter().rev().take_while(|step| sends_nothing(**step));
        since.any(|before| *before == Step::Begins(fault))
    };
    let in_order = match (*last, step) {
        (_, Step::Ends(fault)) if is_undone(fault) => false,
        (Step::Ends(ended), Step::Begins(fault)) if ended == fault => false,
        // Three short waits are almost a long one.
        (Step::Wait(last), Step::Wait(time)) => {
            let is_third = path.len() > 1 && matches!(path[path.len() - 2], Step::Wait(_));
            time <= last && !is_third
        }
        (last, step) => !commute(last, step) || order(last) <= order(step),
    };
    in_order && is_first_alike(world, path, step)
}

/// Whether a step causes no call.
fn sends_nothing(step: Step) -> bool {
    matches!(step, Step::Dies(_) | Step::Begins(_))
}

fn order(step: Step) -> (u8, Option<Fault>, Option<Item>) {
    match step {
        Step::Dies(item) => (0, None, Some(item)),
        Step::Begins(fault) => (1, Some(fault), None),
        Step::List(kind) => (2 + kind as u8, None, None),
        Step::Status(item) => (4, None, Some(item)),
        _ => (5, None, None),
    }
}

/// Whether two steps at one time lead to the same world in either order.
fn commute(first: Step, second: Step) -> bool {
    match (first, second) {
        (first, second) if sends_nothing(first) && sends_nothing(second) => true,
        (Step::Begins(fault), call) | (call, Step::Begins(fault)) => !affects(fault, call),
        (Step::Dies(dead), Step::Status(item) | Step::Change(_, item))
        | (Step::Status(item) | Step::Change(_, item), Step::Dies(dead)) => {
            dead != item && item.0 == Kind::Container
        }
        (Step::Dies(_), Step::List(kind)) | (Step::List(kind), Step::Dies(_)) => {
            kind == Kind::Sandbox
        }
        (Step::Status(first), Step::Status(second)) => first != second,
        (Step::List(first), Step::List(second)) => first != second,
        (Step::List(kind), Step::Status(item)) | (Step::Status(item), Step::List(kind)) => {
            kind != item.0
        }
        _ => false,
    }
}

/// Whether a fault may change the result of a step.
fn affects(fault: Fault, call: Step) -> bool {
    match (fault, call) {
        (Fault::All, _) => true,
        (Fault::Lists(kind), Step::List(of)) => kind == of,
        (Fault::Statuses(kind), Step::Status(item)) => kind == item.0,
        (Fault::StatusOf(item) | Fault::Fails(item), Step::Status(of) | Step::Change(_, of)) => {
            item == of
        }
        (Fault::Changes, Step::Change(..)) => true,
        (_, Step::List(_) | Step::Status(_) | Step::Change(..)) => false,
        _ => true,
    }
}

/// Whether a step names the first of the containers that are still interchangeable. Those that began
/// alike are, until a step names one.
fn is_first_alike(world: &World, path: &[Step], step: Step) -> bool {
    let Some(Item(kind, number)) = item_of(step) else {
        return true;
    };
    let sandbox = |container: usize| world.runtime.containers[container].1;
    let is_named = |item| path.iter().any(|step| item_of(*step) == Some(item));
    let of = |number: usize| {
        let all = world.runtime.containers.iter().enumerate();
        all.filter(move |(_, (_, of))| *of == number)
            .map(|(number, _)| number)
    };
    let is_pod_named = |number: usize| {
        is_named(Item(Kind::Sandbox, number))
            || of(number).any(|container| is_named(Item(Kind::Container, container)))
    };
    match kind {
        Kind::Sandbox => {
            let mut before = (0..number).filter(|other| !is_pod_named(*other));
            is_pod_named(number) || !before.any(|other| world.is_pod_alike(other, number))
        }
        Kind::Container => {
            let is_distinct = |one: usize, from: usize| {
                let is_other_pod = sandbox(one) != sandbox(from);
                is_named(Item(Kind::Container, one)) || is_other_pod && is_pod_named(sandbox(one))
            };
            let mut before = (0..number).filter(|other| world.is_alike(*other, number));
            !before.any(|other| !is_distinct(other, number) && !is_distinct(number, other))
        }
    }
}

fn item_of(step: Step) -> Option<Item> {
    match step {
        Step::Dies(item) | Step::Status(item) | Step::Change(_, item) => Some(item),
        Step::Begins(Fault::StatusOf(item) | Fault::Fails(item)) => Some(item),
        _ => None,
    }
}
