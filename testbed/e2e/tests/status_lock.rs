//! One stuck container on real containerd: it is named, and nobody else waits.

#![allow(
    clippy::print_stdout,
    reason = "the latencies are what a person wants to see"
)]

use std::time::Duration;

use e2e::{Running, VERSIONS, pleg};
use testbed_driver::{Driver, PodSpec, Testbed};

/// From the kill to the event, once the list is known to hang: a sweep a second, and what
/// containerd takes itself (60 to 100 ms). Half as much again for a noisy machine.
const IN_TIME: Duration = Duration::from_millis(2250);

#[tokio::test]
async fn under_the_status_lock_the_culprit_is_named_and_other_deaths_are_told_in_time() {
    for version in VERSIONS {
        let testbed = Testbed::up(version, &format!("e2e-lock-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let locked = driver
            .run_pod(&PodSpec::new("locked").container("app"))
            .await
            .unwrap();
        let mut free = Vec::new();
        for number in 0..5 {
            let spec = PodSpec::new(format!("free-{number}")).container("app");
            let pod = driver.run_pod(&spec).await.unwrap();
            let id = pod.id("app").unwrap().to_owned();
            let init = driver.pid(&id).await.unwrap();
            free.push((id, init));
        }
        let watch = Running::watch(&testbed.endpoint(), &["--mode", "generic"]);
        watch.synced();

        testbed
            .verb(&["shim-stop", &locked.sandbox_id])
            .await
            .unwrap();
        let update = driver.hold_update(locked.id("app").unwrap()).await;
        assert!(update.is_held());
        let health = watch.health("Degraded");
        let message = health["message"].as_str().unwrap();
        assert!(
            message.contains("ListContainers has not answered"),
            "{message}"
        );

        let mut latencies = Vec::new();
        for (id, init) in free {
            let killed = std::time::Instant::now();
            driver.kill(&id, init).unwrap();
            let (told, died) = watch.event("ContainerDied", &id);
            assert_eq!(died["exitCode"], 137);
            assert_eq!(died["source"], "sweep");
            latencies.push(told.duration_since(killed));
        }
        println!(
            "containerd {version}: unrelated deaths under the status lock told after {latencies:?}"
        );
        assert!(
            latencies.iter().all(|latency| *latency < IN_TIME),
            "{latencies:?}"
        );
        let record = watch.ever("the culprit", |record| {
            let stuck = record["stuck"].as_array();
            stuck.is_some_and(|stuck| stuck.iter().any(|call| call["container"] == "app"))
        });
        let culprit = record["stuck"].as_array().unwrap().iter();
        let culprit = culprit
            .clone()
            .find(|call| call["container"] == "app")
            .unwrap();
        assert_eq!(culprit["call"], "ContainerStatus");
        assert_eq!(culprit["id"], locked.id("app").unwrap());
        assert_eq!(culprit["pod"]["name"], "locked");
        assert_eq!(record["state"], "Degraded");

        // Who comes only now sees all the same, by what the runtime's folders show.
        let endpoint = testbed.endpoint().to_string();
        let look = pleg(&["status", "--agent", "off", "-r", &endpoint, "-o", "json"]);
        assert_eq!(look.status.code(), Some(1), "{look:?}");
        let status: serde_json::Value = serde_json::from_slice(&look.stdout).unwrap();
        assert_eq!(status["relist"]["lastKind"], "sweep", "{status}");
        assert_eq!(status["containers"]["exited"], 5, "{status}");
        let stuck = status["stuck"].as_array().unwrap();
        let names_it = |call: &&serde_json::Value| call["id"] == locked.id("app").unwrap();
        assert!(stuck.iter().any(|call| names_it(&call)), "{status}");
        let pods = pleg(&["pods", "-r", &endpoint, "-o", "json"]);
        assert_eq!(pods.status.code(), Some(1), "{pods:?}");
        let pods: serde_json::Value = serde_json::from_slice(&pods.stdout).unwrap();
        assert_eq!(pods.as_array().unwrap().len(), 6, "{pods}");

        testbed
            .verb(&["shim-cont", &locked.sandbox_id])
            .await
            .unwrap();
        update.answered().await.unwrap();
        watch.health("Healthy");
        let after = watch.within(Duration::from_secs(2));
        assert!(
            after.iter().all(|record| record["kind"] != "event"),
            "{after:#?}"
        );
    }
}
