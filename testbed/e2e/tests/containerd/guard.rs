//! A kubelet behind the guard, and one stuck container on real containerd: the kubelet can still manage
//! all other pods.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cri::v1::ContainerState;
use e2e::{ALL_VERSIONS, Agent, NEWEST, newest};
use testbed_driver::{Driver, HeldUpdate, Network, Pod, PodSpec, Testbed};

/// The limit from the first list under the lock to its answer: 2 s until it is overdue, a short time in
/// which the stuck call may still be answered, and the rest for a busy machine.
const FIRST_LIST_WITHIN: Duration = Duration::from_secs(5);

/// The limit for a list while the fault is known: 50 ms, and the rest for a busy machine.
const KNOWN_FAULT_WITHIN: Duration = Duration::from_millis(500);

/// How long a test waits for a state.
const TRUE_WITHIN: Duration = Duration::from_secs(20);

/// The limit for a new pod: both of its calls wait a second until the runtime shows that they are done.
const NEW_POD_WITHIN: Duration = Duration::from_secs(12);

/// The states of all containers by id, and how long the lists took.
async fn list(driver: &Driver) -> (BTreeMap<String, ContainerState>, Duration) {
    let sent = Instant::now();
    let pods = driver.pods().await.unwrap();
    let containers = pods.into_iter().flat_map(|pod: Pod| pod.containers);
    let states = containers.map(|container| (container.id, container.state));
    (states.collect(), sent.elapsed())
}

/// A containerd, a kubelet that goes through a guard, and three pods.
struct Guarded {
    testbed: Testbed,
    direct: Driver,
    kubelet: Driver,
    guarded: cri::Endpoint,
    agent: Agent,
    locked: Pod,
    dies: Pod,
    goes: Pod,
}

async fn run(kubelet: &Driver, name: &str) -> Pod {
    let spec = PodSpec::new(name).container("app");
    kubelet.run_pod(&spec).await.unwrap()
}

impl Guarded {
    async fn up(name: &str, lines: &str) -> Self {
        let name = format!("e2e-guard-{name}");
        Self::of(newest(&name).await, lines).await
    }

    async fn of(testbed: Testbed, lines: &str) -> Self {
        let direct = Driver::new(&testbed.endpoint()).unwrap();
        let (agent, guarded) = Agent::guarding(&testbed.endpoint(), lines);
        let kubelet = direct.through(&guarded);
        let locked = run(&kubelet, "locked").await;
        let dies = run(&kubelet, "dies").await;
        let goes = run(&kubelet, "goes").await;
        assert_eq!(list(&kubelet).await.0, list(&direct).await.0, "it passes");
        Self {
            testbed,
            direct,
            kubelet,
            guarded,
            agent,
            locked,
            dies,
            goes,
        }
    }

    async fn verb(&self, words: &[&str]) {
        self.testbed.verb(words).await.unwrap();
    }

    /// Stops the shim of one pod, and makes containerd wait for it while it holds the status lock.
    async fn lock(&self) -> HeldUpdate {
        self.verb(&["shim-stop", &self.locked.sandbox_id]).await;
        self.held().await
    }

    async fn held(&self) -> HeldUpdate {
        let update = self.direct.hold_update(self.stuck()).await;
        assert!(update.is_held());
        update
    }

    fn stuck(&self) -> &str {
        self.locked.id("app").unwrap()
    }

    /// Kills a container. Returns how long it took until a list showed that.
    async fn death(&self, id: &str) -> Duration {
        let killed = Instant::now();
        let pid = self.direct.pid(id).await.unwrap();
        self.direct.kill(id, pid).unwrap();
        loop {
            let (states, _) = list(&self.kubelet).await;
            assert_eq!(states[self.stuck()], ContainerState::ContainerRunning);
            if states[id] == ContainerState::ContainerExited {
                return killed.elapsed();
            }
            assert!(killed.elapsed() < TRUE_WITHIN, "{states:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the fault is over and the guard passes all calls again.
    async fn over(&self) {
        self.agent.until("the end of it", |status| {
            status["guard"]["guarding"] == false
        });
        let (through, direct) = (list(&self.kubelet).await.0, list(&self.direct).await.0);
        assert_eq!(through, direct, "it passes again");
    }
}

async fn one_stuck_container_delays_no_other(version: &str, testbed: Testbed) {
    let mut node = Guarded::of(testbed, "").await;
    let (before, _) = list(&node.kubelet).await;
    let update = node.lock().await;

    let (first, took) = list(&node.kubelet).await;
    println!("containerd {version}: the first list took {took:?}");
    assert!(took < FIRST_LIST_WITHIN, "{took:?}");
    assert_eq!(first, before, "nothing has changed");

    // The guard's records survive: the lists of the next guard are complete.
    node.agent.kill_and_start_again();
    node.kubelet = node.direct.through(&node.guarded);
    let (again, took) = list(&node.kubelet).await;
    println!("containerd {version}: after kill -9 of the guard a list took {took:?}");
    assert!(took < FIRST_LIST_WITHIN, "{took:?}");
    assert_eq!(again, before, "nothing has changed");

    let died = node.death(node.dies.id("app").unwrap()).await;
    println!("containerd {version}: a death was listed after {died:?}");

    // The container is started again, another pod is created, and one is removed.
    let Guarded { kubelet, goes, .. } = &node;
    let sent = Instant::now();
    let again = kubelet.restart_container(&node.dies, "app").await.unwrap();
    println!("containerd {version}: restarted in {:?}", sent.elapsed());
    let died = node.death(&again.id).await;
    println!("containerd {version}: its second death was listed after {died:?}");
    let sent = Instant::now();
    // A pod with its own network: it is created once it has its address.
    let spec = PodSpec {
        network: Network::Pod,
        ..PodSpec::new("new").container("app")
    };
    let new = kubelet.run_pod(&spec).await.unwrap();
    let took = sent.elapsed();
    println!("containerd {version}: a new pod took {took:?}");
    assert!(took < NEW_POD_WITHIN, "{took:?}");
    let sent = Instant::now();
    // Like a kubelet, remove the sandbox once it is empty.
    let container = goes.id("app").unwrap();
    kubelet.stop_container(container).await.unwrap();
    kubelet.stop_pod(goes).await.unwrap();
    kubelet.remove_container(container).await.unwrap();
    // containerd 2 hangs while it makes the event of the removal, before the sandbox is gone: the runtime
    // does not show that it is removed, and a kubelet's garbage collection waits.
    if version != NEWEST {
        kubelet.remove_pod(goes).await.unwrap();
    }
    println!(
        "containerd {version}: a pod was removed in {:?}",
        sent.elapsed()
    );

    let (states, _) = list(kubelet).await;
    let (_, quickly) = list(kubelet).await;
    println!("containerd {version}: a list of the known fault took {quickly:?}");
    assert!(quickly < KNOWN_FAULT_WITHIN, "{quickly:?}");
    assert_eq!(
        states[new.id("app").unwrap()],
        ContainerState::ContainerRunning
    );
    assert!(!states.contains_key(container));
    let status = node.agent.status();
    assert_eq!(status["health"]["reason"], "Guarding", "{status}");
    assert_eq!(status["kubeletView"]["ready"], true, "{status}");
    assert_eq!(status["guard"]["mode"], "guard", "{status}");
    assert_eq!(status["guard"]["guarding"], true, "{status}");
    assert_eq!(
        status["guard"]["culprits"][0]["id"],
        node.stuck(),
        "{status}"
    );
    // The container's name is known, although this guard was started while the list hung.
    assert_eq!(
        status["guard"]["culprits"][0]["container"], "app",
        "{status}"
    );

    node.verb(&["shim-cont", &node.locked.sandbox_id]).await;
    update.answered().await.unwrap();
    node.over().await;
}

#[tokio::test]
async fn under_the_status_lock_a_kubelet_behind_the_guard_continues() {
    for version in ALL_VERSIONS {
        let name = format!("e2e-guard-{version}");
        let testbed = Testbed::up(version, &name).await.unwrap();
        one_stuck_container_delays_no_other(version, testbed).await;
    }
}

/// No list has shown the container, and its pod has two sandboxes: only containerd knows in which sandbox
/// it is.
#[tokio::test]
async fn a_container_of_another_client_in_mid_fault_is_listed_in_its_sandbox() {
    let node = Guarded::up("foreign", "").await;
    let second = PodSpec {
        uid: Some(node.goes.uid.clone()),
        attempt: 1,
        ..PodSpec::new("goes")
    };
    node.kubelet.run_pod(&second).await.unwrap();
    let (before, _) = list(&node.kubelet).await;
    let update = node.lock().await;
    list(&node.kubelet).await;
    // The container is created, and its event hangs.
    let (direct, pod) = (node.direct.clone(), node.goes.clone());
    let made = tokio::spawn(async move { direct.create_container(&pod, &"other".into()).await });
    let began = Instant::now();
    let listed = loop {
        let pods = node.kubelet.pods().await.unwrap();
        let first = pods.into_iter();
        let mut first = first.filter(|pod| pod.sandbox_id == node.goes.sandbox_id);
        let pod = first.next().expect("it is there");
        if let Ok(id) = pod.id("other") {
            break id.to_owned();
        }
        assert!(began.elapsed() < TRUE_WITHIN, "{pod:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    println!("it was listed after {:?}", began.elapsed());
    assert!(!made.is_finished(), "its event hangs");
    assert_eq!(list(&node.kubelet).await.0.len(), before.len() + 1);
    node.verb(&["shim-cont", &node.locked.sandbox_id]).await;
    update.answered().await.unwrap();
    assert_eq!(made.await.unwrap().unwrap(), listed);
    node.over().await;
}

#[tokio::test]
async fn a_stuck_runc_delays_only_its_own_container() {
    let node = Guarded::up("runc", "").await;
    let (before, _) = list(&node.kubelet).await;
    node.verb(&["runc-stuck", "update"]).await;
    let update = node.held().await;
    let (first, took) = list(&node.kubelet).await;
    assert!(took < FIRST_LIST_WITHIN, "{took:?}");
    assert_eq!(first, before, "nothing has changed");
    node.death(node.dies.id("app").unwrap()).await;
    node.kubelet
        .restart_container(&node.dies, "app")
        .await
        .unwrap();
    node.verb(&["runc-free"]).await;
    update.answered().await.unwrap();
    node.over().await;
}

#[tokio::test]
async fn while_a_network_plugin_hangs_the_lists_pass() {
    let node = Guarded::up("cni", "").await;
    let (before, _) = list(&node.kubelet).await;
    node.verb(&["cni-hang"]).await;
    let kubelet = node.kubelet.clone();
    let hung = tokio::spawn(async move {
        let spec = PodSpec {
            network: Network::Pod,
            ..PodSpec::new("network").container("app")
        };
        kubelet.run_pod(&spec).await
    });
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!hung.is_finished(), "it waits for the plugin");
    let (now, took) = list(&node.kubelet).await;
    assert!(took < KNOWN_FAULT_WITHIN, "{took:?}");
    assert_eq!(now, before, "nothing has changed");
    assert_eq!(node.agent.status()["guard"]["guarding"], false);
    node.verb(&["cni-free"]).await;
    let made = hung.await.unwrap().unwrap();
    let (now, _) = list(&node.kubelet).await;
    let state = now[made.id("app").unwrap()];
    assert_eq!(state, ContainerState::ContainerRunning);
}

#[tokio::test]
async fn a_containerd_that_is_killed_in_mid_fault_never_shortens_a_list() {
    let node = Guarded::up("crash", "").await;
    let (before, _) = list(&node.kubelet).await;
    let update = node.lock().await;
    assert_eq!(list(&node.kubelet).await.0, before);
    node.verb(&["crash"]).await;
    assert!(update.answered().await.is_err(), "it went with containerd");
    // While containerd is down, a list fails; no incomplete list is returned.
    assert!(node.kubelet.pods().await.is_err());
    // containerd waits for the stopped shim before it listens, and may give up on it.
    node.verb(&["shim-cont", &node.locked.sandbox_id]).await;
    node.verb(&["start"]).await;
    let back = Instant::now();
    loop {
        match node.kubelet.pods().await {
            Ok(pods) => {
                let containers = pods.iter().map(|pod| pod.containers.len()).sum::<usize>();
                assert_eq!(containers, before.len(), "{pods:?}");
                break;
            }
            Err(error) => assert!(back.elapsed() < TRUE_WITHIN, "{error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    node.over().await;
}

#[tokio::test]
async fn the_stopped_shim_of_the_culprit_is_continued_if_that_is_configured() {
    let remedy = "remedy: shim\nremedyAfter: 3s\n";
    let node = Guarded::up("remedy", remedy).await;
    let update = node.lock().await;
    // Let the guard answer a list: without that, there is no remedy.
    list(&node.kubelet).await;
    update.answered().await.unwrap();
    node.over().await;
    let records = node.agent.kept(".remedies");
    for step in ["announced", "done"] {
        let wanted = format!("\"step\":\"{step}\"");
        assert!(records.contains(&wanted), "{records}");
    }
    assert!(records.contains(node.stuck()), "{records}");
}

#[tokio::test]
async fn a_runc_that_blocks_the_lists_is_ended_if_that_is_configured_and_its_pod_lives() {
    let remedy = "remedy: shimKill\nremedyAfter: 3s\n";
    let node = Guarded::up("remedy-runc", remedy).await;
    node.verb(&["runc-stuck", "update"]).await;
    let update = node.held().await;
    list(&node.kubelet).await;
    // The runc was killed before it changed anything.
    update.answered().await.unwrap_err();
    node.over().await;
    let (states, _) = list(&node.direct).await;
    assert_eq!(states[node.stuck()], ContainerState::ContainerRunning);
    let records = node.agent.kept(".remedies");
    assert!(records.contains("\"action\":\"endRunc\""), "{records}");
    assert!(records.contains("\"step\":\"done\""), "{records}");
}
