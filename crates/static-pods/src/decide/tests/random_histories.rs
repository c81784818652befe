//! Random histories. Whatever happens, nothing is created twice. Once faults and events have ended,
//! the pod reaches its goal.

use pleg::model::listed::ContainerState;

use super::super::view::Extent;
use super::super::{Memory, Outcome, Phase, Why};
use super::world::{SECOND, World, pod};
use crate::spec::{RestartPolicy, Role};
use crate::testing::each_seed;

const HISTORIES: u64 = 1500;
/// Seeds whose histories once failed.
const FAILED: [u64; 3] = [
    // An old view of the previous pod with this UID changed the next attempt.
    10760172769343492718,
    // An init container in an unknown state could not succeed.
    3833169785083259709,
    // An old view restored a dead container that another client had removed.
    9923842494125339081,
];
const EVENTS: usize = 250;

#[test]
fn nothing_is_created_twice_and_the_pod_reaches_its_goal_after_all_faults() {
    let mut ends = [0; 4];
    let are_all = each_seed(&FAILED, HISTORIES, |seed| ends[history(seed)] += 1);
    // The histories must reach each kind of end.
    let is_rare = ends.iter().any(|count| *count < HISTORIES / 100);
    assert!(!are_all || !is_rare, "{ends:?}");
}

/// Plays a history. Returns how it ended: 0 is running, 1 succeeded, 2 failed, 3 gone.
fn history(seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let policies = [
        RestartPolicy::Always,
        RestartPolicy::OnFailure,
        RestartPolicy::Never,
    ];
    let policy = policies[random.usize(..3)];
    let shapes: [&[&str]; 4] = [
        &["app"],
        &["app", "log"],
        &["i:setup", "app", "log"],
        &["i:setup", "s:mesh", "i:check", "app"],
    ];
    let mut world = World::new(pod(policy, shapes[random.usize(..4)]));
    for _ in 0..EVENTS {
        event(&mut world, &mut random);
        world.check();
    }
    end_faults(&mut world, &mut random);
    verify(&world)
}

fn event(world: &mut World, random: &mut fastrand::Rng) {
    match random.u32(..100) {
        0..25 => {
            world.decide();
            if world.decision().is_gone {
                // The manifest is added again. Calls of the previous pod have ended.
                world.calls.clear();
                world.ending = None;
                world.memory = Memory::new(world.now);
            }
        }
        25..45 => world.observe(),
        45..52 => world.pass(random.u32(1..20_000) * SECOND / 1000),
        52..80 => call(world, random),
        80..86 => exit(world, random),
        86..88 => world.restart(),
        88..90 => world.lists_hang = !world.lists_hang,
        90..92 => {
            let count = world.containers.len();
            let is_over = world.stuck.take().is_some();
            if count > 0 && !is_over {
                world.stuck = Some(world.containers[random.usize(..count)].id.clone());
            }
        }
        92 => world.sandbox_dies(),
        93 if random.bool() => world.view.extent = Extent::Unclear,
        93 => {
            // An old view arrives late.
            if !world.older.is_empty() {
                let old = world.older[random.usize(..world.older.len())].clone();
                let newest = std::mem::replace(&mut world.view, old);
                world.decide();
                world.view = newest;
            }
        }
        94 => {
            let running = |state| state == ContainerState::Running;
            let mut all = world.containers.iter_mut();
            if let Some(container) = all.find(|it| running(it.state)) {
                container.state = ContainerState::Unknown;
            }
        }
        95 => {
            // A dead container is removed by another client.
            let dead = |state| state == ContainerState::Exited;
            if let Some(place) = world.containers.iter().position(|it| dead(it.state)) {
                world.containers.remove(place);
            }
        }
        96 => {
            let all = world.live();
            let id = (!all.is_empty()).then(|| all[random.usize(..all.len())].id.clone());
            world.failed.extend(id);
        }
        97 if random.u32(..6) == 0 => world.ending = Some(Why::ManifestRemoved),
        _ => world.perform(),
    }
}

/// Applies a random event to an outstanding call.
fn call(world: &mut World, random: &mut fastrand::Rng) {
    if world.calls.is_empty() {
        return;
    }
    let index = random.usize(..world.calls.len());
    match random.u32(..10) {
        // The call takes effect. Its answer arrives later or never.
        0..5 => {
            if world.calls[index].outcome.is_none() {
                let step = world.calls[index].step.clone();
                let outcome = world.effect(&step);
                world.calls[index].outcome = Some(outcome);
            }
        }
        5..8 => {
            let call = world.calls.swap_remove(index);
            let (step, outcome) = world.finish(call);
            if let Some(outcome) = outcome {
                world.memory.note_outcome(&step, outcome, world.now);
            }
        }
        // The connection of the call is lost, but the runtime continues the call.
        8 => world.answer(index, Outcome::AnswerLost("no answer".into())),
        _ => {
            if world.calls[index].outcome.is_none() {
                let refused = Outcome::Failed("injected failure".into());
                world.calls[index].outcome = Some(refused);
            }
        }
    }
}

fn exit(world: &mut World, random: &mut fastrand::Rng) {
    let running = |state| state == ContainerState::Running;
    let all = world.containers.iter().filter(|it| running(it.state));
    let names: Vec<_> = all.map(|it| it.name.clone()).collect();
    if !names.is_empty() {
        let name = names[random.usize(..names.len())].clone();
        world.exit(&name, if random.bool() { 0 } else { 1 });
    }
}

/// Ends all faults, answers or loses each call, and lets init containers succeed.
fn end_faults(world: &mut World, random: &mut fastrand::Rng) {
    world.stuck = None;
    world.lists_hang = false;
    world.failed.clear();
    world.calls.retain(|call| call.has_caller || random.bool());
    world.perform();
    run_pod(world, 200);
    if world.decision().is_gone {
        return;
    }
    // Some pods finish.
    let code = random.i32(..4) % 3;
    let is_over = world.spec.restart_policy != RestartPolicy::Always && code < 2;
    for container in world.spec.containers.clone() {
        let name = container.name.as_str();
        let runs = world.runs(name);
        if is_over && runs && container.role == Role::Container {
            world.exit(name, code);
        }
    }
    run_pod(world, 70);
}

/// Lets time pass, and lets init containers succeed.
fn run_pod(world: &mut World, steps: u32) {
    for _ in 0..steps {
        world.settle(30 * SECOND);
        for container in world.spec.containers.clone() {
            let name = container.name.as_str();
            if container.role == Role::Init && world.runs(name) {
                world.exit(name, 0);
            }
        }
        if world.decision().is_gone {
            return;
        }
    }
}

fn verify(world: &World) -> usize {
    let decision = world.decision();
    assert_eq!(decision.steps, [], "steps are left: {:?}", world.actions());
    let ready: Vec<_> = world.sandboxes.iter().filter(|it| it.is_ready).collect();
    if world.ending.is_some() {
        assert!(decision.is_gone, "{:?}", decision);
        assert!(world.containers.is_empty() && world.sandboxes.is_empty());
        return 3;
    }
    for container in &world.spec.containers {
        let dead = world.containers.iter();
        let dead = dead.filter(|it| *it.name == *container.name && it.code.is_some());
        assert!(dead.count() <= 1, "garbage: {:?}", world.containers);
    }
    let phase = decision.report.phase;
    match phase {
        Phase::Pending | Phase::Running => {
            assert_eq!(phase, Phase::Running, "{:?}", decision.report);
            assert_eq!(ready.len(), 1);
            let mut wanted = Vec::new();
            for container in &world.spec.containers {
                let name = container.name.as_str();
                let mut all = world.containers.iter();
                let done = all.find(|it| &*it.name == name && it.code.is_some());
                let is_done = container.role == Role::Container
                    && done.is_some_and(|done| match world.spec.restart_policy {
                        RestartPolicy::Always => false,
                        RestartPolicy::OnFailure => done.code == Some(0),
                        RestartPolicy::Never => !world.live_names().contains(&name),
                    });
                if container.role != Role::Init && !is_done {
                    wanted.push(name);
                }
            }
            wanted.sort_unstable();
            assert_eq!(world.live_names(), wanted, "{:?}", world.containers);
            assert!(!wanted.is_empty());
            let are_in_it = world.live().iter().all(|it| it.sandbox == ready[0].id);
            assert!(are_in_it, "several sandboxes: {:?}", world.containers);
            assert!(world.spec.restart_policy != RestartPolicy::Always || decision.report.is_ready);
            0
        }
        _ => {
            assert!(world.live().is_empty(), "{:?}", world.containers);
            assert!(ready.is_empty());
            assert_ne!(world.spec.restart_policy, RestartPolicy::Always);
            usize::from(phase == Phase::Failed) + 1
        }
    }
}
