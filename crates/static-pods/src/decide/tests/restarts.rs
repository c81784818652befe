//! When containers are started and restarted: init containers, sidecars, policies, back-off.

use std::time::Duration;

use super::super::{ContainerView, Outcome, Phase, Step, Why};
use super::world::{SECOND, World, pod};
use crate::spec::RestartPolicy::{Always, Never, OnFailure};
use crate::spec::{Probe, PullPolicy, RestartPolicy};

/// Plays the exits of a pod. An event is the name of the container that exits, its exit code, and the
/// names of the containers that run afterwards. The name `sandbox` stands for the death of the
/// sandbox, and an empty name for no exit.
#[track_caller]
fn check(
    policy: RestartPolicy,
    containers: &[&str],
    events: &[(&str, i32, &[&str])],
    phase: Phase,
) {
    let mut world = World::new(pod(policy, containers));
    world.settle(30 * SECOND);
    for (name, code, then) in events {
        match *name {
            "" => {}
            "sandbox" => world.sandbox_dies(),
            name => world.exit(name, *code),
        }
        world.settle(120 * SECOND);
        assert_eq!(world.live_names(), *then, "after {name}: {:?}", world.log);
    }
    assert_eq!(world.decision().report.phase, phase, "{:?}", world.log);
}

#[test]
fn containers_are_restarted_by_policy() {
    let (app, both): (&[&str], &[&str]) = (&["app"], &["app", "log"]);
    check(Always, app, &[("app", 0, app)], Phase::Running);
    check(Always, app, &[("app", 1, app)], Phase::Running);
    check(OnFailure, app, &[("app", 1, app)], Phase::Running);
    check(OnFailure, app, &[("app", 0, &[])], Phase::Succeeded);
    check(Never, app, &[("app", 0, &[])], Phase::Succeeded);
    check(Never, app, &[("app", 1, &[])], Phase::Failed);
    check(Never, both, &[("app", 1, &["log"])], Phase::Running);
    let events: &[(&str, i32, &[&str])] = &[("app", 0, &["log"]), ("log", 1, &[])];
    check(Never, both, events, Phase::Failed);
    let events: &[(&str, i32, &[&str])] = &[("app", 0, &["log"]), ("log", 1, &["log"])];
    check(OnFailure, both, events, Phase::Running);
}

#[test]
fn init_containers_run_one_after_the_other_and_are_retried_by_policy() {
    let pod: &[&str] = &["i:one", "i:two", "app"];
    let events: &[(&str, i32, &[&str])] = &[
        ("", 0, &["one"]),
        ("one", 0, &["two"]),
        ("two", 0, &["app"]),
        ("app", 1, &["app"]),
    ];
    check(Always, pod, events, Phase::Running);
    for policy in [Always, OnFailure] {
        let events: &[(&str, i32, &[&str])] = &[("one", 1, &["one"]), ("one", 0, &["two"])];
        check(policy, pod, events, Phase::Pending);
    }
    check(Never, pod, &[("one", 1, &[])], Phase::Failed);
}

#[test]
fn sidecars_start_in_order_and_end_when_the_other_containers_have_finished() {
    let pod: &[&str] = &["s:mesh", "i:setup", "app"];
    let events: &[(&str, i32, &[&str])] = &[
        ("", 0, &["mesh", "setup"]),
        ("mesh", 0, &["mesh", "setup"]),
        ("setup", 0, &["app", "mesh"]),
        ("mesh", 1, &["app", "mesh"]),
        ("app", 0, &[]),
    ];
    check(OnFailure, pod, events, Phase::Succeeded);
    check(Never, pod, events, Phase::Succeeded);
    check(Always, pod, &events[..4], Phase::Running);
    check(Never, pod, &[("setup", 1, &[])], Phase::Failed);
}

#[test]
fn a_dead_sandbox_is_replaced_and_the_pod_starts_from_its_first_init_container() {
    let pod: &[&str] = &["i:setup", "app"];
    let events: &[(&str, i32, &[&str])] = &[
        ("setup", 0, &["app"]),
        ("sandbox", 0, &["setup"]),
        ("setup", 0, &["app"]),
    ];
    check(Always, pod, events, Phase::Running);
    check(OnFailure, pod, events, Phase::Running);
}

#[test]
fn a_finished_pod_gets_no_new_sandbox() {
    let app: &[&str] = &["app", "log"];
    // As in the kubelet, a pod that restarts nothing fails when its sandbox dies.
    check(Never, app, &[("sandbox", 0, &[])], Phase::Failed);
    let events: &[(&str, i32, &[&str])] =
        &[("app", 0, &["log"]), ("log", 0, &[]), ("sandbox", 0, &[])];
    check(OnFailure, app, events, Phase::Succeeded);
    check(Never, app, events, Phase::Succeeded);
}

#[test]
fn a_container_that_has_succeeded_does_not_run_again_in_a_new_sandbox() {
    let app: &[&str] = &["app", "log"];
    let events: &[(&str, i32, &[&str])] = &[("app", 0, &["log"]), ("sandbox", 0, &["log"])];
    check(OnFailure, app, events, Phase::Running);
}

/// Lets the container `app` exit whenever it runs. Returns the seconds between its creations.
fn creations_of_a_crash_loop(world: &mut World, seconds: u64) -> Vec<u64> {
    let end = world.now + SECOND * seconds as u32;
    while world.now < end {
        if world.live_names().contains(&"app") {
            world.exit("app", 1);
        }
        world.observe();
        world.decide();
        world.perform();
        if world.calls.is_empty() && !world.live_names().contains(&"app") {
            world.pass(Duration::from_millis(500));
        }
    }
    let times = world.times("CreateContainer app");
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn the_back_off_of_a_crash_loop_is_the_kubelets() {
    let mut world = World::new(pod(Always, &["app", "log"]));
    let gaps = creations_of_a_crash_loop(&mut world, 1300);
    let about = |gap: &u64, wait: u64| (wait..=wait + 4).contains(gap);
    let waits = [0, 10, 20, 40, 80, 160, 300, 300, 300];
    assert_eq!(gaps.len(), waits.len(), "{gaps:?}");
    assert!(
        gaps.iter().zip(waits).all(|(gap, wait)| about(gap, wait)),
        "{gaps:?}"
    );
    let state = &world.decision().report.containers[0];
    assert!(matches!(
        &state.state,
        ContainerView::Waiting(Why::CrashLoopBackOff { .. })
    ));
    assert_eq!(state.last_exit.as_ref().unwrap().code, Some(1));
    assert_eq!(world.decision().report.phase, Phase::Running);
    assert_eq!(world.times("CreateContainer log").len(), 1);
}

#[test]
fn a_failed_pull_is_retried_after_10_20_40_seconds() {
    let mut world = World::new(pod(Always, &["app"]));
    let end = world.now + 100 * SECOND;
    while world.now < end {
        world.observe();
        world.decide();
        for index in 0..world.calls.len() {
            if let Step::EnsureImage { .. } = world.calls[index].step {
                world.calls[index].outcome = Some(Outcome::Failed("no such image".into()));
            }
        }
        world.perform();
        world.pass(Duration::from_millis(200));
    }
    let times = world.times("EnsureImage");
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let about = |gap: &u64, wait: u64| (wait..=wait + 1).contains(gap);
    assert_eq!(gaps.len(), 3, "{gaps:?}");
    assert!(
        gaps.iter()
            .zip([10, 20, 40])
            .all(|(gap, wait)| about(gap, wait)),
        "{gaps:?}"
    );
    let report = &world.decision().report;
    assert_eq!(report.phase, Phase::Pending);
    let state = &report.containers[0].state;
    assert!(matches!(
        state,
        ContainerView::Waiting(Why::ImagePullBackOff(failure)) if &*failure.message == "no such image"
    ));
}

#[test]
fn a_container_waits_for_the_startup_probe_of_the_sidecar_before_it() {
    let mut spec = pod(Always, &["s:mesh", "app"]);
    spec.containers[0].probes.startup = Some(Probe {
        check: crate::spec::Check::Tcp {
            host: None,
            port: 1,
        },
        initial_delay: Duration::ZERO,
        period: SECOND,
        timeout: SECOND,
        success_threshold: 1,
        failure_threshold: 3,
        grace_period: None,
    });
    let mut world = World::new(spec);
    world.slow.insert("mesh".into());
    world.settle(30 * SECOND);
    assert_eq!(world.live_names(), ["mesh"]);
    let app = &world.decision().report.containers[1];
    assert_eq!(app.state, ContainerView::Waiting(Why::PodInitializing));
    world.slow.clear();
    world.settle(30 * SECOND);
    assert_eq!(world.live_names(), ["app", "mesh"]);
    // Once all containers have started, the restart of a sidecar delays no other container.
    world.slow.insert("mesh".into());
    world.exit("mesh", 1);
    world.settle(30 * SECOND);
    world.exit("app", 1);
    world.settle(SECOND);
    assert!(world.live_names().contains(&"mesh"));
}

#[test]
fn a_container_that_fails_its_liveness_probe_is_killed_once_and_restarted_by_policy() {
    for (policy, then) in [
        (Always, vec!["app", "log"]),
        (OnFailure, vec!["app", "log"]),
        (Never, vec!["log"]),
    ] {
        let mut world = World::new(pod(policy, &["app", "log"]));
        world.settle(30 * SECOND);
        let id = world.running("app").id.clone();
        world.failed.insert(id);
        world.settle(30 * SECOND);
        assert_eq!(world.live_names(), then, "{policy:?}");
        let kills = world.times("KillContainer app: LivenessFailed");
        assert_eq!(kills.len(), 1);
        assert!(world.times("KillContainer log").is_empty());
    }
}

#[test]
fn the_steps_of_a_pod_that_starts_have_reasons() {
    let mut world = World::new(pod(Always, &["app"]));
    world.settle(30 * SECOND);
    assert_eq!(
        world.actions(),
        [
            "CreateSandbox: PodAdded",
            "EnsureImage app: ContainerAdded",
            "CreateContainer app: ContainerAdded",
            "StartContainer app: ContainerCreated",
        ]
    );
    world.exit("app", 3);
    world.settle(SECOND);
    assert_eq!(world.actions()[4], "EnsureImage app: ContainerDied");
    let why = Why::ContainerDied { exit_code: Some(3) };
    assert_eq!(why.to_string(), "the container exited with code 3");
}

/// Until containerd is restarted, it reserves the name of a creation that never ends.
#[test]
fn a_reserved_name_is_retried_with_back_off_and_its_image_is_pulled_once() {
    let mut world = World::new(pod(Always, &["app"]));
    world.spec.containers[0].pull_policy = PullPolicy::Always;
    world.is_reserved = true;
    world.settle(600 * SECOND);
    let sandboxes = world.times("CreateSandbox");
    assert!((5..20).contains(&sandboxes.len()), "{sandboxes:?}");

    world.is_reserved = false;
    world.settle(70 * SECOND);
    world.exit("app", 1);
    world.image_policies.clear();
    world.is_reserved = true;
    world.settle(600 * SECOND);
    let creations = world.times("CreateContainer app");
    assert!((5..20).contains(&creations.len()), "{creations:?}");
    let pulls = world.image_policies.iter();
    let pulls = pulls.filter(|it| **it == PullPolicy::Always).count();
    assert_eq!(pulls, 1, "{:?}", world.image_policies);
    let app = &world.decision().report.containers[0];
    let Some(Why::CreateContainerError(failure)) = &app.waits else {
        panic!("{app:?}");
    };
    assert_eq!(&*failure.message, "the name is reserved");

    world.is_reserved = false;
    world.settle(70 * SECOND);
    assert_eq!(world.live_names(), ["app"]);
}
