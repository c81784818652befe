//! Many pods die at once on real containerd: each death is reported once, and the death of another
//! pod in the meantime is reported without a delay.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use e2e::{Running, VERSIONS, is_event};
use serde_json::Value;
use testbed_driver::{ContainerState, Driver, PodSpec, Testbed};

const BURST: usize = 50;

/// How long after the start of the burst the other container dies.
const MIDDLE: Duration = Duration::from_millis(50);

/// The limit from the time at which containerd knows of a death to our event, on a machine that
/// is busy with the end of fifty containers.
const IN_TIME: Duration = Duration::from_millis(500);

#[tokio::test]
async fn fifty_deaths_at_once_are_reported_once_each_and_do_not_delay_another() {
    for version in VERSIONS {
        let testbed = Testbed::up(version, &format!("e2e-burst-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let spec = |pod| PodSpec::new(format!("pod-{pod}")).container("app");
        let specs: Vec<_> = (0..=BURST).map(spec).collect();
        let pods = driver.run_pods(&specs, |_| ()).await.unwrap();
        let mut inits = Vec::new();
        for pod in &pods {
            let id = pod.id("app").unwrap();
            inits.push((id, driver.pid(id).await.unwrap()));
        }
        let (other, other_init) = inits.pop().unwrap();
        let watch = Running::watch(&testbed.endpoint(), &[]);
        watch.synced();

        let killed = Instant::now();
        for (id, init) in &inits {
            driver.kill(id, *init).unwrap();
        }
        tokio::time::sleep(MIDDLE).await;
        let other_killed = Instant::now();
        driver.kill(other, other_init).unwrap();
        while driver.status(other).await.unwrap().state() != ContainerState::ContainerExited {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let known = other_killed.elapsed();

        let mut reported = BTreeMap::<String, Duration>::new();
        while reported.len() <= BURST {
            let is_death = |record: &Value| record["type"] == "ContainerDied";
            let (when, death) = watch.until("another death", is_death).pop().unwrap();
            assert_eq!(death["exitCode"], 137);
            let id = death["id"].as_str().unwrap().to_owned();
            let latency = when.duration_since(if id == other { other_killed } else { killed });
            assert_eq!(
                reported.insert(id, latency),
                None,
                "reported twice: {death}"
            );
        }
        let after = watch.within(Duration::from_secs(3));
        assert!(
            after.iter().all(|record| record["kind"] != "event"),
            "{after:#?}"
        );

        let latency_of_other = reported.remove(other).unwrap();
        assert!(inits.iter().all(|(id, _)| reported.contains_key(*id)));
        let mut latencies: Vec<_> = reported.into_values().collect();
        latencies.sort();
        println!(
            "containerd {version}: of {BURST} deaths at once the first was reported after {:?}, half \
             after {:?}, the last after {:?}; another in the middle after {latency_of_other:?}, which containerd \
             knew after {known:?}",
            latencies[0],
            latencies[BURST / 2],
            latencies[BURST - 1],
        );
        // On a busy machine pleg is as slow as containerd.
        assert!(
            latency_of_other <= known + IN_TIME.max(known),
            "{latency_of_other:?}, known after {known:?}"
        );
        // A watch that starts now reports each container of the burst as dead.
        let late = Running::watch(&testbed.endpoint(), &["--mode", "generic"]);
        let first = late.until("synced", |record| record["kind"] == "synced");
        let dead = |(id, _): &(&str, _)| {
            first
                .iter()
                .any(|(_, record)| is_event(record, "ContainerDied", id))
        };
        assert!(inits.iter().all(dead));
    }
}
