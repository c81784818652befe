//! Decisions while a part of the pod is not observed.

use pleg::model::listed::ContainerState;

use super::super::view::{Extent, Visibility};
use super::super::{ContainerView, Outcome, Phase, Step, Why};
use super::world::{SECOND, World, pod};
use crate::spec::RestartPolicy::Always;

fn two_running() -> World {
    let mut world = World::new(pod(Always, &["app", "log"]));
    world.settle(30 * SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
    world
}

#[test]
fn a_stuck_container_does_not_delay_the_restart_of_another() {
    let mut world = two_running();
    world.stuck = Some(world.running("log").id.clone());
    let stuck = world.running("log").id.clone();
    world.exit("app", 1);
    let exit = world.now;
    world.settle(SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
    assert!(world.now < exit + 2 * SECOND);
    assert_eq!(world.memory.visibility, Visibility::KnownIdsOnly);
    let log = &world.decision().report.containers[1];
    assert_eq!(log.waits, Some(Why::StatusStuck));
    assert_eq!(world.running("log").id, stuck, "it is not changed");
}

#[test]
fn a_stuck_container_is_neither_restarted_nor_killed_before_it_is_observed() {
    let mut world = two_running();
    let id = world.running("log").id.clone();
    world.stuck = Some(id.clone());
    world.failed.insert(id.clone());
    world.exit("log", 1);
    world.settle(600 * SECOND);
    assert_eq!(world.live_names(), ["app"]);
    world.stuck = None;
    world.settle(SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
    assert_ne!(world.running("log").id, id);
}

#[test]
fn a_container_whose_process_is_dead_is_not_ready_although_the_runtime_reports_it_as_running() {
    let mut world = two_running();
    world.stuck = Some(world.running("log").id.clone());
    world.settle(SECOND);
    assert!(world.decision().report.is_ready, "no evidence against it");
    world.why_stuck = Why::ProcessDead;
    world.settle(SECOND);
    let report = &world.decision().report;
    let ready: Vec<bool> = report.containers.iter().map(|it| it.is_ready).collect();
    assert_eq!((report.is_ready, ready), (false, vec![true, false]));
    assert_eq!(report.containers[1].waits, Some(Why::ProcessDead));
    assert_eq!(world.live_names(), ["app", "log"]);
}

#[test]
fn no_container_whose_process_is_dead_is_ready_whatever_the_extent_of_the_view() {
    for extent in [Extent::KnownIds, Extent::Unclear] {
        let mut world = two_running();
        world.observe();
        world.view.extent = extent;
        for name in ["app", "log"] {
            let id = world.running(name).id.clone();
            world.view.unobserved.insert(id, Why::ProcessDead);
        }
        world.decide();
        for container in &world.decision().report.containers {
            assert!(!container.is_ready, "{container:?}");
            assert_eq!(container.waits, Some(Why::ProcessDead));
        }
        assert!(world.calls.is_empty(), "none is restarted");
    }
}

#[test]
fn a_container_restarts_while_containers_cannot_be_listed() {
    let mut world = two_running();
    world.lists_hang = true;
    world.exit("app", 1);
    world.settle(2 * SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
    assert_eq!(world.memory.visibility, Visibility::KnownIdsOnly);
}

#[test]
fn a_run_that_starts_while_containers_cannot_be_listed_creates_nothing() {
    let mut world = two_running();
    world.exit("app", 1);
    world.lists_hang = true;
    world.restart();
    world.settle(100 * SECOND);
    assert_eq!(world.live_names(), ["log"]);
    assert_eq!(world.memory.visibility, Visibility::Blind);
    assert!(world.decision().needs_view_after.is_some());
    assert_eq!(world.decision().report.phase, Phase::Unknown);
    world.lists_hang = false;
    world.settle(2 * SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
    assert_eq!(world.decision().report.phase, Phase::Running);
    assert_eq!(world.sandboxes.len(), 1);
}

#[test]
fn nothing_is_created_while_the_pod_is_not_observed() {
    let mut world = two_running();
    world.exit("app", 1);
    world.observe();
    world.view.extent = Extent::Unclear;
    for _ in 0..10 {
        world.decide();
        world.pass(SECOND);
    }
    assert!(world.calls.is_empty());
    let app = &world.decision().report.containers[0];
    assert_eq!(app.state, ContainerView::Waiting(Why::NotSeen));
}

/// The index of the outstanding call with this action.
fn call_index(world: &World, action: &str) -> usize {
    let mut calls = world.calls.iter();
    calls
        .position(|call| call.step.action() == action)
        .expect("the call is outstanding")
}

#[test]
fn a_creation_whose_answer_was_lost_is_repeated_with_the_same_name_after_a_complete_view() {
    let mut world = two_running();
    world.exit("app", 1);
    world.observe();
    world.decide();
    world.perform();
    world.decide();
    let index = call_index(&world, "CreateContainer");
    world.answer(index, Outcome::AnswerLost("no answer".into()));
    // Without a newer view the container is not created again, and the other container continues.
    world.exit("log", 1);
    world.lists_hang = true;
    world.observe();
    for _ in 0..100 {
        world.decide();
        world.pass(SECOND);
    }
    assert_eq!(world.times("CreateContainer app").len(), 2);
    assert_eq!(world.times("EnsureImage log").len(), 2);
    let app = &world.decision().report.containers[0];
    assert_eq!(app.state, ContainerView::Waiting(Why::AnswerLost));
    // The newer view does not contain the container, so the attempt is repeated. It is refused
    // while the first call is outstanding.
    world.lists_hang = false;
    world.observe();
    world.decide();
    let mut lost = world.calls.remove(index);
    for _ in 0..4 {
        world.perform();
        world.observe();
        world.calls.push(lost.clone());
        world.decide();
        lost = world.calls.remove(0);
    }
    let attempts = world.calls.iter().chain([&lost]);
    let attempts: Vec<_> = attempts
        .filter_map(|call| match &call.step {
            Step::CreateContainer {
                container, attempt, ..
            } if &**container == "app" => Some(attempt.number()),
            _ => None,
        })
        .collect();
    assert!(attempts.iter().all(|attempt| *attempt == 1), "{attempts:?}");
    world.calls.push(lost);
    world.perform();
    world.settle(100 * SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
}

#[test]
fn a_step_is_done_once_a_view_shows_it_although_its_call_is_stuck() {
    let mut world = World::new(pod(Always, &["app"]));
    let mut hanging = Vec::new();
    for _ in 0..20 {
        world.observe();
        world.decide();
        for mut call in std::mem::take(&mut world.calls) {
            let outcome = world.effect(&call.step);
            if let Step::EnsureImage { .. } = call.step {
                world.memory.note_outcome(&call.step, outcome, world.now);
            } else {
                call.outcome = Some(outcome);
                hanging.push(call);
            }
        }
    }
    assert_eq!(world.live_names(), ["app"]);
    assert_eq!(hanging.len(), 3);
    // The late answers change nothing.
    for call in hanging {
        world
            .memory
            .note_outcome(&call.step, call.outcome.unwrap(), world.now);
    }
    world.settle(30 * SECOND);
    assert_eq!(world.live_names(), ["app"]);
    assert_eq!(world.containers.len(), 1);
}

#[test]
fn a_container_that_an_earlier_run_left_unstarted_is_started() {
    let mut world = World::new(pod(Always, &["app"]));
    while world.containers.is_empty() {
        world.observe();
        world.decide();
        world.perform();
    }
    world.restart();
    world.settle(30 * SECOND);
    assert_eq!(world.live_names(), ["app"]);
    assert_eq!(world.containers.len(), 1, "no attempt is lost");
    assert_eq!(world.times("StartContainer app: LeftUnstarted").len(), 1);
}

#[test]
fn a_container_that_cannot_be_started_is_removed_and_created_again_with_back_off() {
    let mut world = World::new(pod(Always, &["app"]));
    let end = world.now + 60 * SECOND;
    while world.now < end {
        world.observe();
        world.decide();
        for call in &mut world.calls {
            if let Step::StartContainer { .. } = call.step {
                call.outcome = Some(Outcome::Failed("no such file".into()));
            }
        }
        world.perform();
        world.pass(SECOND / 5);
    }
    let creations = world.times("CreateContainer");
    assert!((5..9).contains(&creations.len()), "{creations:?}");
    let removals = world.times("RemoveContainer app: StartFailed");
    assert_eq!(removals.len(), creations.len());
    let app = &world.decision().report.containers[0];
    assert!(matches!(
        &app.waits,
        Some(Why::CreateContainerError(failure)) if &*failure.message == "no such file"
    ));
    world.settle(100 * SECOND);
    assert_eq!(world.live_names(), ["app"]);
}

#[test]
fn a_container_in_an_unknown_state_is_killed_and_restarted() {
    for policy in [Always, crate::spec::RestartPolicy::Never] {
        let mut world = World::new(pod(policy, &["app", "log"]));
        world.settle(30 * SECOND);
        let id = world.running("app").id.clone();
        let mut all = world.containers.iter_mut();
        let app = all.find(|it| it.id == id).unwrap();
        app.state = ContainerState::Unknown;
        world.settle(30 * SECOND);
        assert_eq!(world.live_names(), ["app", "log"]);
        assert_ne!(world.running("app").id, id);
        let kills = world.times("KillContainer app: StateUnknown");
        assert_eq!(kills.len(), 1);
    }
}

#[test]
fn a_run_that_is_killed_after_any_event_duplicates_and_loses_nothing() {
    let pods: [&[&str]; 2] = [&["i:setup", "s:mesh", "app"], &["app", "log"]];
    for spec in pods {
        for killed_at in 0..25 {
            let mut world = World::new(pod(Always, spec));
            let mut events = 0;
            while events < 60 {
                for part in 0..4 {
                    if events == killed_at {
                        world.restart();
                    }
                    events += 1;
                    match part {
                        0 => world.observe(),
                        1 => world.decide(),
                        2 => {
                            for index in 0..world.calls.len() {
                                let step = world.calls[index].step.clone();
                                if world.calls[index].outcome.is_none() {
                                    let outcome = world.effect(&step);
                                    world.calls[index].outcome = Some(outcome);
                                }
                            }
                        }
                        _ => world.perform(),
                    }
                }
                if world.live_names().contains(&"setup") {
                    world.exit("setup", 0);
                }
            }
            world.settle(30 * SECOND);
            let last = world.live_names();
            assert_eq!(
                last.last(),
                Some(spec.last().unwrap()).map(|it| if *it == "app" { &"mesh" } else { it })
            );
            assert_eq!(last.len(), 2);
            assert_eq!(world.sandboxes.len(), 1);
            let restarts = world.live().iter().map(|it| it.attempt).max();
            assert_eq!(restarts, Some(0), "killed at {killed_at}: {:?}", world.log);
        }
    }
}

#[test]
fn a_view_from_before_a_removal_does_not_restore_the_container() {
    let mut world = two_running();
    world.exit("app", 1);
    world.settle(SECOND);
    world.exit("app", 1);
    world.observe();
    world.decide();
    let removal = "RemoveContainer app: GarbageCollected";
    world.perform();
    assert_eq!(world.times(removal).len(), 1);
    for _ in 0..5 {
        world.decide();
        world.perform();
    }
    assert_eq!(world.times(removal).len(), 1);
}

#[test]
fn a_sandbox_that_is_reported_as_not_ready_is_stopped_before_another_is_created() {
    let mut world = two_running();
    // The runtime was restarted and cannot read the sandbox.
    world.observe();
    let mut status = pleg::model::status::PodStatus::clone(&world.view.status);
    status.sandboxes[0].state = pleg::model::listed::SandboxState::NotReady;
    world.view.status = std::sync::Arc::new(status);
    for _ in 0..6 {
        world.decide();
        world.perform();
    }
    assert!(!world.sandboxes[0].is_ready);
    world.settle(30 * SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
    let lines = world.actions();
    let place = |line: &str| lines.iter().rposition(|it| it.starts_with(line)).unwrap();
    assert!(place("StopSandbox: SandboxNotReady") < place("CreateSandbox: SandboxNotReady"));
}
