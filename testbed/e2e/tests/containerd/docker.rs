//! `pleg analyze` of the goroutines that a real dockerd writes.

use std::sync::Arc;
use std::time::Duration;

use e2e::doctor::only;
use e2e::{newest, pleg_json};
use serde_json::Value;
use testbed_driver::Testbed;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A call is outstanding after this time.
const OUTSTANDING_AFTER: Duration = Duration::from_secs(2);

/// A dockerd with containers.
struct Docker {
    testbed: Arc<Testbed>,
}

impl Docker {
    async fn with(names: &[&str]) -> Self {
        let testbed = newest("docker").await;
        testbed.verb(&["dockerd"]).await.unwrap();
        let testbed = Arc::new(testbed);
        for name in names {
            let run = ["docker", "run", "--detach", "--network", "host", "--name"];
            let words = [&run[..], &[name, "pleg.test/busybox"]].concat();
            testbed.verb(&words).await.unwrap();
        }
        Self { testbed }
    }

    async fn verb(&self, words: &[&str]) -> String {
        self.testbed.verb(words).await.unwrap()
    }

    /// A call that is not answered until the fault ends.
    fn call(&self, words: &'static [&'static str]) -> JoinHandle<String> {
        let testbed = self.testbed.clone();
        tokio::spawn(async move { testbed.verb(words).await.unwrap() })
    }

    /// The analysis of dockerd's current goroutines.
    async fn explained(&self) -> Value {
        let file = self.verb(&["docker-stacks"]).await;
        let explained = pleg_json(&["analyze", file.trim()]);
        assert_eq!(explained["inputs"][0]["kind"], "goroutine-dump");
        explained
    }
}

#[tokio::test]
async fn the_goroutines_of_dockerd_show_what_it_waits_for() {
    let docker = Docker::with(&["web", "db", "cache"]).await;
    assert_eq!(docker.explained().await["findings"], Value::Array(vec![]));

    // dockerd holds the lock of a container while it waits for the shim.
    let inspect = ["docker", "inspect", "--format", "{{.Id}}", "db"];
    let id = docker.verb(&inspect).await;
    docker.verb(&["shim-stop", id.trim()]).await;
    let stop = docker.call(&["docker", "stop", "db"]);
    sleep(OUTSTANDING_AFTER).await;
    let inspected = docker.call(&["docker", "inspect", "db"]);
    sleep(OUTSTANDING_AFTER).await;
    let finding = only(&docker.explained().await, "container-lock");
    assert_eq!(finding["culprit"]["process"], "dockerd", "{finding:#}");
    docker.verb(&["shim-cont", id.trim()]).await;
    stop.await.unwrap();
    inspected.await.unwrap();

    // dockerd waits for containerd, and no call waits for a container's lock.
    docker.verb(&["stop"]).await;
    let info = docker.call(&["docker", "info"]);
    sleep(OUTSTANDING_AFTER).await;
    let stop = docker.call(&["docker", "stop", "web"]);
    let inspected = docker.call(&["docker", "inspect", "web"]);
    sleep(OUTSTANDING_AFTER).await;
    let explained = docker.explained().await;
    let first = &explained["findings"][0];
    assert_eq!(first["cause"], "runtime-unresponsive", "{explained:#}");
    assert_eq!(first["confidence"], "certain", "{explained:#}");
    docker.verb(&["cont"]).await;
    for call in [info, stop, inspected] {
        call.await.unwrap();
    }
    assert_eq!(docker.explained().await["findings"], Value::Array(vec![]));
}
