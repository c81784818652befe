//! How pods end.

use std::time::Duration;

use pleg::model::listed::ContainerState;

use super::super::{Outcome, Phase, Step, Why};
use super::world::{SECOND, World, pod};
use crate::spec::RestartPolicy::{self, Always};

fn kills(world: &World) -> Vec<(&str, Duration, bool)> {
    let calls = world.calls.iter();
    let kills = calls.filter_map(|call| match &call.step {
        Step::KillContainer {
            container,
            grace,
            pre_stop,
            ..
        } => Some((&**container, *grace, pre_stop.is_some())),
        _ => None,
    });
    kills.collect()
}

/// A world in which the pod has started to end.
fn ending_world(containers: &[&str]) -> World {
    let mut spec = pod(Always, containers);
    for container in &mut spec.containers {
        if container.name == "app" {
            container.pre_stop = Some(vec!["drain".into()]);
        }
    }
    let mut world = World::new(spec);
    world.settle(30 * SECOND);
    world.ending = Some(Why::ManifestRemoved);
    world.decide();
    world
}

#[test]
fn containers_end_in_parallel_and_then_sidecars_the_last_one_first() {
    let mut world = ending_world(&["s:one", "s:two", "app", "log"]);
    assert_eq!(
        kills(&world),
        [("app", 30 * SECOND, true), ("log", 30 * SECOND, false)]
    );
    world.pass(10 * SECOND);
    world.perform();
    world.observe();
    world.decide();
    assert_eq!(kills(&world).len(), 1);
    let (name, grace, _) = kills(&world)[0];
    assert_eq!(name, "two");
    assert!(grace > 19 * SECOND && grace <= 20 * SECOND);
    world.perform();
    world.observe();
    world.decide();
    assert_eq!(kills(&world)[0].0, "one");
    world.settle(30 * SECOND);
    assert!(world.decision().is_gone);
    assert!(world.containers.is_empty() && world.sandboxes.is_empty() && !world.has_volumes);
}

#[test]
fn sidecars_do_not_wait_longer_than_the_grace_period() {
    let mut world = ending_world(&["s:one", "app"]);
    assert_eq!(kills(&world)[0].0, "app");
    let deadline = world.decision().wake_at.unwrap();
    assert_eq!(deadline, world.now + 30 * SECOND);
    world.now = deadline;
    world.decide();
    let (name, grace, _) = kills(&world)[1];
    assert_eq!((name, grace), ("one", 2 * SECOND));
}

#[test]
fn a_pod_ends_even_if_the_run_is_killed_at_any_event() {
    for killed_at in 0..20 {
        let mut world = ending_world(&["s:one", "app"]);
        for event in 0..20 {
            if event == killed_at {
                world.restart();
            }
            match event % 3 {
                0 => world.observe(),
                1 => world.decide(),
                _ => world.perform(),
            }
        }
        world.settle(60 * SECOND);
        assert!(world.decision().is_gone, "killed at {killed_at}");
        assert!(world.containers.is_empty() && world.sandboxes.is_empty() && !world.has_volumes);
    }
}

#[test]
fn a_pod_that_is_not_in_the_runtime_is_gone_after_a_complete_view() {
    let mut world = World::new(pod(Always, &["app"]));
    world.ending = Some(Why::ManifestRemoved);
    world.decide();
    assert!(!world.decision().is_gone);
    assert!(world.calls.is_empty());
    assert!(world.decision().needs_view_after.is_some());
    world.settle(10 * SECOND);
    assert!(world.decision().is_gone && !world.has_volumes);
}

#[test]
fn a_pod_with_an_unobserved_container_ends_when_the_container_is_observed() {
    let mut world = World::new(pod(Always, &["app", "log"]));
    world.settle(30 * SECOND);
    world.stuck = Some(world.running("log").id.clone());
    world.observe();
    world.ending = Some(Why::ManifestRemoved);
    world.settle(600 * SECOND);
    assert_eq!(world.live_names(), ["log"]);
    assert!(world.has_volumes && world.sandboxes[0].is_ready);
    world.stuck = None;
    world.settle(60 * SECOND);
    assert!(world.decision().is_gone && world.containers.is_empty());
}

#[test]
fn the_end_of_a_pod_waits_for_a_creation_and_removes_the_container() {
    let mut world = World::new(pod(Always, &["app"]));
    let is_creation = |step: &Step| matches!(step, Step::CreateContainer { .. });
    while !world.calls.iter().any(|call| is_creation(&call.step)) {
        world.perform();
        world.observe();
        world.decide();
    }
    let call = world.calls.remove(0);
    world.ending = Some(Why::ManifestRemoved);
    world.settle(10 * SECOND);
    assert!(!world.decision().is_gone && world.has_volumes);
    world.sandboxes[0].is_ready = true;
    let outcome = world.effect(&call.step);
    assert_eq!(world.containers[0].state, ContainerState::Created);
    world.memory.note_outcome(&call.step, outcome, world.now);
    world.settle(10 * SECOND);
    assert!(world.decision().is_gone && world.containers.is_empty());
    assert!(world.times("StartContainer").is_empty());
}

#[test]
fn a_refused_stop_is_retried_with_back_off() {
    let mut world = ending_world(&["app"]);
    let end = world.now + 60 * SECOND;
    while world.now < end {
        for call in &mut world.calls {
            call.outcome = Some(Outcome::Failed("busy".into()));
        }
        world.perform();
        world.pass(SECOND / 5);
        world.observe();
        world.decide();
    }
    assert!((5..9).contains(&world.times("KillContainer").len()));
    world.settle(100 * SECOND);
    assert!(world.decision().is_gone);
}

#[test]
fn a_pod_has_finished_only_when_all_its_containers_have_exited() {
    for code in [0, 3] {
        let mut world = World::new(pod(RestartPolicy::Never, &["app"]));
        world.settle(30 * SECOND);
        for sandbox in &mut world.sandboxes {
            sandbox.is_ready = false;
        }
        world.observe();
        world.decide();
        assert!(
            world
                .calls
                .iter()
                .any(|it| it.step.action() == "KillContainer")
        );
        let report = &world.decision().report;
        assert_eq!(report.phase, Phase::Running, "the container still runs");
        assert!(!report.is_ready && !report.containers[0].is_ready);
        world.exit("app", code);
        world.observe();
        world.decide();
        let phase = match code {
            0 => Phase::Succeeded,
            _ => Phase::Failed,
        };
        assert_eq!(world.decision().report.phase, phase);
    }
}

#[test]
fn a_pod_that_ends_before_all_its_containers_have_run_stays_pending() {
    for without_image in [&["log"][..], &["app", "log"]] {
        let mut world = World::new(pod(RestartPolicy::Never, &["app", "log"]));
        for _ in 0..20 {
            world.observe();
            world.decide();
            for call in &mut world.calls {
                let of_image = matches!(call.step, Step::EnsureImage { .. });
                let container = call.step.container();
                if of_image && container.is_some_and(|name| without_image.contains(&&**name)) {
                    call.outcome = Some(Outcome::Failed("no such image".into()));
                }
            }
            world.perform();
        }
        if !without_image.contains(&"app") {
            world.exit("app", 0);
        }
        world.observe();
        world.decide();
        assert_eq!(world.decision().report.phase, Phase::Pending);
        world.ending = Some(Why::ManifestRemoved);
        world.observe();
        world.decide();
        assert_eq!(world.decision().report.phase, Phase::Pending);
    }
}

#[test]
fn a_pod_with_a_huge_grace_period_ends_when_its_containers_have_exited() {
    let mut spec = pod(Always, &["s:one", "app"]);
    spec.grace_period = Duration::from_secs(i64::MAX as u64);
    let mut world = World::new(spec);
    world.settle(30 * SECOND);
    world.ending = Some(Why::ManifestRemoved);
    world.settle(30 * SECOND);
    assert!(world.decision().is_gone);
}
