//! containerd stops, crashes and comes back while pleg watches.

use std::time::Duration;

use e2e::{Running, VERSIONS, is_event};
use testbed_driver::{Driver, PodSpec, Testbed};

#[tokio::test]
async fn a_crash_is_said_and_every_death_in_between_is_told_once() {
    for version in VERSIONS {
        let testbed = Testbed::up(version, &format!("e2e-crash-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let dies = driver
            .run_pod(&PodSpec::new("dies").container("app"))
            .await
            .unwrap();
        driver
            .run_pod(&PodSpec::new("lives").container("app"))
            .await
            .unwrap();
        let id = dies.id("app").unwrap();
        let init = driver.pid(id).await.unwrap();
        let watch = Running::watch(&testbed.endpoint(), &[]);
        watch.synced();

        testbed.verb(&["crash"]).await.unwrap();
        let health = watch.health("Degraded");
        let message = health["message"].as_str().unwrap();
        assert!(message.contains("cannot be reached"), "{message}");
        driver.kill(id, init).unwrap();
        testbed.verb(&["start"]).await.unwrap();
        let back = watch.until("health", |record| record["state"] == "Healthy");
        let after = watch.within(Duration::from_secs(3));

        let events = back.iter().map(|(_, record)| record).chain(&after);
        let events: Vec<_> = events.filter(|record| record["kind"] == "event").collect();
        assert_eq!(
            events.len(),
            1,
            "nothing but the death is told: {events:#?}"
        );
        assert!(is_event(events[0], "ContainerDied", id));
        assert_eq!(events[0]["initial"], false);
    }
}

#[tokio::test]
async fn a_stopped_runtime_is_named_and_a_death_in_between_is_told_once() {
    for version in VERSIONS {
        let testbed = Testbed::up(version, &format!("e2e-stop-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let pod = driver
            .run_pod(&PodSpec::new("dies").container("app"))
            .await
            .unwrap();
        let id = pod.id("app").unwrap();
        let init = driver.pid(id).await.unwrap();
        let watch = Running::watch(&testbed.endpoint(), &[]);
        watch.synced();

        testbed.verb(&["stop"]).await.unwrap();
        let health = watch.health("Degraded");
        let stuck: Vec<_> = health["stuck"].as_array().unwrap().iter().collect();
        assert!(
            stuck.iter().any(|stuck| stuck["call"] == "ListContainers"),
            "{health}"
        );
        driver.kill(id, init).unwrap();
        testbed.verb(&["cont"]).await.unwrap();
        let records = watch.within(Duration::from_secs(5));
        let events: Vec<_> = records
            .iter()
            .filter(|record| record["kind"] == "event")
            .collect();
        assert_eq!(
            events.len(),
            1,
            "nothing but the death is told: {records:#?}"
        );
        assert!(is_event(events[0], "ContainerDied", id));
        let health = records.iter().rfind(|record| record["kind"] == "health");
        assert_eq!(health.unwrap()["state"], "Healthy");
    }
}

#[tokio::test]
async fn an_agent_outlives_its_runtime() {
    let testbed = Testbed::up("1.7", "e2e-agent").await.unwrap();
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    driver
        .run_pod(&PodSpec::new("web").container("app"))
        .await
        .unwrap();
    let endpoint = testbed.endpoint().to_string();
    // A port of our own, for an agent may run on this machine.
    let address = "127.0.0.1:20358";
    let url = format!("http://{address}");
    let _agent = Running::start(&["agent", "-r", &endpoint, "--listen", address]);
    let state = |wanted: &str| {
        let deadline = std::time::Instant::now() + e2e::PATIENCE;
        loop {
            let output = e2e::pleg(&["status", "--agent", &url, "-o", "json"]);
            let text = String::from_utf8_lossy(&output.stdout);
            if text.contains(&format!("\"state\":\"{wanted}\"")) {
                return;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "{wanted} did not come: {text}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    state("Healthy");
    testbed.verb(&["crash"]).await.unwrap();
    state("Degraded");
    testbed.verb(&["start"]).await.unwrap();
    state("Healthy");
}
