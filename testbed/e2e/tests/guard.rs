//! A kubelet behind the guard, and one stuck container on real containerd: what a kubelet needs
//! of all others goes on.

#![allow(
    clippy::print_stdout,
    reason = "the times are what a person wants to see"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cri::v1::ContainerState;
use e2e::{Agent, VERSIONS};
use testbed_driver::{Driver, Pod, PodSpec, Testbed};

/// From the first list under the lock to its answer: 2 s until it is overdue, and a moment in
/// which the one that is stuck may still answer; with room for a noisy machine.
const FIRST_LIST: Duration = Duration::from_secs(5);

/// While the fault is known, with room for a noisy machine (50 ms are asked for).
const KNOWN: Duration = Duration::from_millis(500);

/// A new pod: both of its calls wait a second for their proof.
const NEW_POD: Duration = Duration::from_secs(12);

/// The states of all containers by id, and how long it took to be told.
async fn list(driver: &Driver) -> (BTreeMap<String, ContainerState>, Duration) {
    let asked = Instant::now();
    let pods = driver.pods().await.unwrap();
    let containers = pods.into_iter().flat_map(|pod: Pod| pod.containers);
    let states = containers.map(|container| (container.id, container.state));
    (states.collect(), asked.elapsed())
}

async fn one_stuck_container_holds_up_nobody_else(version: &str) {
    let testbed = Testbed::up(version, &format!("e2e-guard-{version}"))
        .await
        .unwrap();
    let direct = Driver::new(&testbed.endpoint()).unwrap();
    let (mut agent, guarded) = Agent::guarding(&testbed.endpoint());
    let kubelet = direct.through(&guarded);
    let run = async |kubelet: &Driver, name: &str| {
        let spec = PodSpec::new(name).container("app");
        kubelet.run_pod(&spec).await.unwrap()
    };
    let locked = run(&kubelet, "locked").await;
    let dies = run(&kubelet, "dies").await;
    let goes = run(&kubelet, "goes").await;
    let (before, _) = list(&kubelet).await;
    assert_eq!(before, list(&direct).await.0, "it passes");

    testbed
        .verb(&["shim-stop", &locked.sandbox_id])
        .await
        .unwrap();
    let stuck = locked.id("app").unwrap();
    let update = direct.hold_update(stuck).await;
    assert!(update.is_held());

    let (first, took) = list(&kubelet).await;
    println!("containerd {version}: the first list took {took:?}");
    assert!(took < FIRST_LIST, "{took:?}");
    assert_eq!(first, before, "nothing has changed");

    // What it knows survives: a kubelet is told no less by the next one.
    agent.kill_and_start_again();
    let kubelet = direct.through(&guarded);
    let (again, took) = list(&kubelet).await;
    println!("containerd {version}: after kill -9 of the guard a list took {took:?}");
    assert!(took < FIRST_LIST, "{took:?}");
    assert_eq!(again, before, "nothing has changed");

    let id = dies.id("app").unwrap();
    let killed = Instant::now();
    direct.kill(id, direct.pid(id).await.unwrap()).unwrap();
    let mut slowest = Duration::ZERO;
    loop {
        let (states, took) = list(&kubelet).await;
        slowest = slowest.max(took);
        assert_eq!(states[stuck], ContainerState::ContainerRunning);
        if states[id] == ContainerState::ContainerExited {
            break;
        }
        assert!(killed.elapsed() < Duration::from_secs(10), "{states:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let died = killed.elapsed();
    println!(
        "containerd {version}: a death was listed after {died:?}, each list within {slowest:?}"
    );

    // It is started again, another pod is made, and one is removed.
    let asked = Instant::now();
    kubelet.restart_container(&dies, "app").await.unwrap();
    println!("containerd {version}: restarted in {:?}", asked.elapsed());
    let asked = Instant::now();
    let new = run(&kubelet, "new").await;
    let took = asked.elapsed();
    println!("containerd {version}: a new pod took {took:?}");
    assert!(took < NEW_POD, "{took:?}");
    let asked = Instant::now();
    // As a kubelet does it: a sandbox is removed once it is empty.
    let container = goes.id("app").unwrap();
    kubelet.stop_container(container).await.unwrap();
    kubelet.stop_pod(&goes).await.unwrap();
    kubelet.remove_container(container).await.unwrap();
    kubelet.remove_pod(&goes).await.unwrap();
    println!(
        "containerd {version}: a pod was removed in {:?}",
        asked.elapsed()
    );

    let (states, _) = list(&kubelet).await;
    let (_, quickly) = list(&kubelet).await;
    println!("containerd {version}: a list of the known fault took {quickly:?}");
    assert!(quickly < KNOWN, "{quickly:?}");
    assert_eq!(
        states[new.id("app").unwrap()],
        ContainerState::ContainerRunning
    );
    assert!(!states.contains_key(goes.id("app").unwrap()));
    let status = agent.status();
    assert_eq!(status["guard"]["mode"], "guard", "{status}");
    assert_eq!(status["guard"]["guarding"], true, "{status}");
    assert_eq!(status["guard"]["culprits"][0]["id"], stuck, "{status}");

    testbed
        .verb(&["shim-cont", &locked.sandbox_id])
        .await
        .unwrap();
    update.answered().await.unwrap();
    agent.until("the end of it", |status| {
        status["guard"]["guarding"] == false
    });
    assert_eq!(
        list(&kubelet).await.0,
        list(&direct).await.0,
        "it passes again"
    );
}

#[tokio::test]
async fn under_the_status_lock_a_kubelet_behind_the_guard_goes_on() {
    for version in VERSIONS {
        one_stuck_container_holds_up_nobody_else(version).await;
    }
}
