//! containerd stops, crashes and starts again while pleg watches with the default settings: by
//! lists, by the event stream where there is one, and by the kernel.

use std::time::{Duration, Instant};

use e2e::{ALL_VERSIONS, Agent, Running, VERSIONS, WITHOUT_EVENTS, is_event, newest};
use serde_json::Value;
use testbed_driver::{Driver, Pid, PodSpec, Testbed};

/// The limit from the time at which containerd continues to the event of a death in between.
const IN_TIME: Duration = Duration::from_millis(1500);

/// One pod that dies and one that continues to run, and an agent that watches them.
struct Node {
    // Dropped before the agent: otherwise the watch would report the agent's end.
    watch: Running,
    agent: Agent,
    dies: (String, Pid),
    driver: Driver,
    testbed: Testbed,
}

impl Node {
    async fn up(version: &str, name: &str) -> Self {
        let testbed = Testbed::up(version, &format!("e2e-{name}-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let spec = |name: &str| PodSpec::new(name).container("app");
        let dies = driver.run_pod(&spec("dies")).await.unwrap();
        driver.run_pod(&spec("lives")).await.unwrap();
        let id = dies.id("app").unwrap().to_owned();
        let init = driver.pid(&id).await.unwrap();
        let agent = Agent::watching(&testbed.endpoint());
        let watch = agent.watch();
        watch.synced();
        agent.until("what the stream is", |status| {
            status["stream"]["state"] == stream(version)
        });
        agent.until("both processes", |status| status["kernel"]["watched"] == 2);
        Self {
            watch,
            agent,
            dies: (id, init),
            driver,
            testbed,
        }
    }

    fn kill(&self) {
        let (id, init) = &self.dies;
        self.driver.kill(id, *init).unwrap();
    }
}

/// The state of the stream of this version while there is no fault.
fn stream(version: &str) -> &'static str {
    match version {
        WITHOUT_EVENTS => "unsupported",
        _ => "live",
    }
}

/// Asserts that the only event is the death of this container, and that there is one.
#[track_caller]
fn assert_only_its_death<'a>(records: impl IntoIterator<Item = &'a Value>, id: &str) {
    let events: Vec<_> = records
        .into_iter()
        .filter(|record| record["kind"] == "event")
        .collect();
    assert_eq!(events.len(), 1, "nothing but the death: {events:#?}");
    assert!(is_event(events[0], "ContainerDied", id), "{events:#?}");
    assert_eq!(events[0]["initial"], false);
}

#[tokio::test]
async fn a_crash_is_reported_and_every_death_in_between_is_reported_once() {
    for version in ALL_VERSIONS {
        let node = Node::up(version, "crash").await;
        let before = node.agent.status();
        node.testbed.verb(&["crash"]).await.unwrap();
        let health = node.watch.health("Degraded");
        let message = health["message"].as_str().unwrap();
        assert!(message.contains("cannot be reached"), "{message}");
        node.kill();
        node.testbed.verb(&["start"]).await.unwrap();
        let back = node
            .watch
            .until("health", |record| record["state"] == "Healthy");
        let after = node.watch.within(Duration::from_secs(3));
        let records = back.iter().map(|(_, record)| record).chain(&after);
        assert_only_its_death(records, &node.dies.0);

        let status = node.agent.until("the stream as before", |status| {
            status["stream"]["state"] == stream(version)
        });
        if stream(version) == "live" {
            assert!(
                status["stream"]["reconnects"].as_u64() > before["stream"]["reconnects"].as_u64(),
                "{status:#}"
            );
            let spec = PodSpec::new("new").container("app");
            let new = node.driver.run_pod(&spec).await.unwrap();
            node.agent.until("events again", |status| {
                status["stream"]["events"].as_u64() > before["stream"]["events"].as_u64()
            });
            node.watch.ever("the start", |record| {
                is_event(record, "ContainerStarted", new.id("app").unwrap())
            });
        }
    }
}

#[tokio::test]
async fn a_stopped_runtime_is_reported_and_a_death_in_between_is_reported_as_soon_as_it_continues()
{
    for version in VERSIONS {
        let node = Node::up(version, "stop").await;
        node.testbed.verb(&["stop"]).await.unwrap();
        let health = node.watch.health("Degraded");
        let stuck = health["stuck"].as_array().unwrap();
        assert!(
            // Lists may be 30 s apart by then, and a heartbeat is sent between them.
            ["ListContainers", "Version"]
                .iter()
                .any(|call| stuck.iter().any(|stuck| stuck["call"] == *call)),
            "{health}"
        );
        node.kill();
        let meanwhile = node.watch.within(Duration::from_secs(1));
        assert!(
            meanwhile.iter().all(|record| record["kind"] != "event"),
            "the death cannot be known yet: {meanwhile:#?}"
        );
        let continued = Instant::now();
        node.testbed.verb(&["cont"]).await.unwrap();
        let until_death = node.watch.until("the death", |record| {
            is_event(record, "ContainerDied", &node.dies.0)
        });
        let (when, death) = until_death.last().unwrap();
        assert_eq!(death["exitCode"], 137);
        let latency = when.duration_since(continued);
        println!("containerd {version}: reported {latency:?} after it continued");
        assert!(latency <= IN_TIME, "{latency:?}");
        let after = node.watch.within(Duration::from_secs(3));
        let records = || until_death.iter().map(|(_, record)| record).chain(&after);
        assert_only_its_death(records(), &node.dies.0);
        let health = records().rfind(|record| record["kind"] == "health");
        assert_eq!(health.unwrap()["state"], "Healthy");
        node.agent.until("the stream as before", |status| {
            status["stream"]["state"] == stream(version)
        });
    }
}

#[tokio::test]
async fn an_agent_outlives_its_runtime() {
    let testbed = newest("e2e-agent").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    driver
        .run_pod(&PodSpec::new("web").container("app"))
        .await
        .unwrap();
    let agent = Agent::watching(&testbed.endpoint());
    let state = |wanted: &str| agent.until(wanted, |status| status["health"]["state"] == wanted);
    state("Healthy");
    testbed.verb(&["crash"]).await.unwrap();
    state("Degraded");
    testbed.verb(&["start"]).await.unwrap();
    state("Healthy");
}
