//! The event stream of containerd: it reports a change at once, it is trusted only while it reports
//! every change, and a stream that shares its events with other clients is not trusted.

use std::time::Duration;

use e2e::{Agent, LEGACY, NEWEST, Running, is_event};
use serde_json::Value;
use testbed_driver::{Driver, Pod, PodSpec, Testbed};

/// How many containers are restarted. Each restart is a death and a start, and a stream has to
/// announce ten changes before it is trusted.
const RESTARTS: usize = 6;

/// How many containers are killed: more than enough changes to trust a stream that announces all of
/// them.
const DEATHS: usize = 12;

struct Node {
    testbed: Testbed,
    driver: Driver,
    pods: Vec<Pod>,
}

impl Node {
    async fn up(version: &str, name: &str, pods: usize) -> Self {
        let testbed = Testbed::up(version, name).await.unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let spec = |pod| PodSpec::new(format!("pod-{pod}")).container("app");
        let specs: Vec<_> = (0..pods).map(spec).collect();
        let pods = driver.run_pods(&specs, |_| ()).await.unwrap();
        Self {
            testbed,
            driver,
            pods,
        }
    }

    /// Restarts a container in each of the first `pods` pods.
    async fn restart(&self, pods: usize) {
        for pod in &self.pods[..pods] {
            let pod = self.driver.pod(&pod.name).await.unwrap();
            self.driver.restart_container(&pod, "app").await.unwrap();
        }
    }
}

fn period(status: &Value) -> f64 {
    status["relist"]["periodSeconds"].as_f64().unwrap()
}

fn is_live(status: &Value) -> bool {
    status["stream"]["state"] == "live"
}

#[tokio::test]
async fn a_change_that_containerd_sends_on_its_stream_is_reported() {
    let node = Node::up(NEWEST, "e2e-announced", 1).await;
    // Relists are so rare that none can report a change first.
    let by_stream = ["--kernel-hints", "off", "--relist-period", "1m"];
    let watch = Running::watch(&node.testbed.endpoint(), &by_stream);
    watch.synced();
    // The stream counts as open after its first event, or after one second.
    std::thread::sleep(Duration::from_secs(2));

    let new = PodSpec::new("new").container("app");
    let new = node.driver.run_pod(&new).await.unwrap();
    let id = new.id("app").unwrap();
    let (_, started) = watch.event("ContainerStarted", id);
    assert_eq!(started["pod"]["name"], "new");
    assert_eq!(started["source"], "stream");
    node.driver.kill_container(id).await.unwrap();
    let (_, died) = watch.event("ContainerDied", id);
    assert_eq!(died["exitCode"], 137);
    assert_eq!(died["source"], "stream");
}

#[tokio::test]
async fn a_stream_that_has_proved_itself_makes_lists_rarer_until_a_fault_silences_it() {
    let node = Node::up(NEWEST, "e2e-proof", RESTARTS + 1).await;
    // With hints of the kernel, lists are rare even if the stream is not trusted.
    let agent = Agent::configured(&node.testbed.endpoint(), "kernelHints: off\n");
    let watch = agent.watch();
    watch.synced();
    agent.until("a live stream", is_live);
    assert_eq!(period(&agent.status()), 1.0);

    node.restart(RESTARTS).await;
    let status = agent.until("a longer period", |status| period(status) > 1.0);
    assert_eq!(status["stream"]["missed"], 0, "{status:#}");
    assert_eq!(status["relist"]["mode"], "evented");

    let (locked, free) = (&node.pods[RESTARTS], &node.pods[0]);
    let free = node.driver.pod(&free.name).await.unwrap();
    node.testbed
        .verb(&["shim-stop", &locked.sandbox_id])
        .await
        .unwrap();
    let _update = node.driver.hold_update(locked.id("app").unwrap()).await;
    let status = agent.until("the shortest period", |status| period(status) == 1.0);
    assert_eq!(status["health"]["state"], "Degraded", "{status:#}");
    let id = free.id("app").unwrap();
    node.driver.kill_container(id).await.unwrap();
    let (_, died) = watch.event("ContainerDied", id);
    assert_ne!(died["source"], "stream", "the lock silences it");
}

#[tokio::test]
async fn a_stream_that_another_client_reads_too_is_not_trusted() {
    let node = Node::up(LEGACY, "e2e-split", DEATHS).await;
    let agent = Agent::watching(&node.testbed.endpoint());
    let watch = agent.watch();
    watch.synced();
    agent.until("a live stream", is_live);
    // This containerd gives each event to one of its clients.
    let other = Running::watch(&node.testbed.endpoint(), &["--kernel-hints", "off"]);
    other.synced();
    // An event of a container within the last ten seconds would also count as announcing
    // its death.
    std::thread::sleep(Duration::from_secs(11));

    for pod in &node.pods {
        node.driver
            .kill_container(pod.id("app").unwrap())
            .await
            .unwrap();
    }
    let status = agent.until("a change that was missed", |status| {
        status["stream"]["missed"].as_u64() > Some(0)
    });
    let missed = status["stream"]["missed"].as_u64().unwrap();
    assert!(missed < DEATHS as u64, "it had its share: {status:#}");
    // If the stream were trusted, the period would have grown by now. Nothing is lost.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(period(&agent.status()), 1.0);
    for pod in &node.pods {
        let id = pod.id("app").unwrap();
        watch.ever("the death", |record| is_event(record, "ContainerDied", id));
        other.ever("the death", |record| is_event(record, "ContainerDied", id));
    }
}
