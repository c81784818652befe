//! How sandboxes are replaced and removed.

use super::super::Why;
use super::world::{SECOND, Sandbox, World, pod};
use crate::spec::Network;
use crate::spec::RestartPolicy::{Always, OnFailure};

#[test]
fn a_sandbox_without_an_address_is_replaced_with_back_off() {
    let mut spec = pod(Always, &["app"]);
    spec.network = Network::Pod {
        hostname: "web".into(),
    };
    let mut world = World::new(spec);
    world.settle(60 * SECOND);
    let creations = world.times("CreateSandbox");
    let gaps: Vec<_> = creations.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(matches!(gaps[..], [0..=1, 10..=12, 20..=22]), "{gaps:?}");
    assert_eq!(world.times("StopSandbox: SandboxHasNoAddress").len(), 4);
    let waits = &world.decision().report.waits;
    assert!(matches!(waits, Some(Why::SandboxBackOff { .. })));
}

#[test]
fn a_pod_with_two_running_sandboxes_keeps_neither() {
    let mut world = World::new(pod(Always, &["app"]));
    world.settle(30 * SECOND);
    world.sandboxes.push(Sandbox {
        id: "second".into(),
        attempt: 1,
        is_ready: true,
    });
    world.observe();
    world.decide();
    let last = world.actions().last().copied();
    assert_eq!(last, Some("KillContainer app: SecondSandbox"));
}

#[test]
fn an_old_sandbox_is_removed_when_no_container_in_it_is_kept() {
    let mut world = World::new(pod(Always, &["app"]));
    world.settle(30 * SECOND);
    world.sandbox_dies();
    world.settle(30 * SECOND);
    // The newest dead container is in the old sandbox.
    assert_eq!((world.sandboxes.len(), world.containers.len()), (2, 2));
    world.exit("app", 1);
    world.settle(30 * SECOND);
    assert_eq!((world.sandboxes.len(), world.containers.len()), (1, 2));
    assert_eq!(world.live_names(), ["app"]);
}

#[test]
fn a_later_run_removes_an_old_sandbox_if_it_knows_the_sandboxes_of_all_containers() {
    let mut world = World::new(pod(OnFailure, &["app", "log"]));
    world.settle(30 * SECOND);
    for container in ["app", "log"] {
        world.exit(container, 1);
    }
    world.sandbox_dies();
    world.settle(60 * SECOND);
    world.exit("app", 1);
    world.exit("log", 1);
    world.restart();
    world.settle(60 * SECOND);
    assert_eq!(world.live_names(), ["app", "log"]);
    let count = world.sandboxes.len();
    for container in &world.containers {
        let (id, sandbox) = (container.id.clone(), container.sandbox.clone());
        world.memory.adopt(id, sandbox);
    }
    world.settle(60 * SECOND);
    assert_eq!((count, world.sandboxes.len()), (2, 1));
}
