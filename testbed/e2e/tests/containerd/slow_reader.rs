//! A reader that stops reading while a real containerd is busy: it delays no other reader, and
//! when it reads again it receives the final state.
//!
//! ```text
//!   pleg watch --> pipe of 64 KiB, full --> queue of 1000 records, full --> gap
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use e2e::{Running, is_event, newest};
use serde_json::Value;
use testbed_driver::{ContainerSpec, Driver, PodSpec};

/// How many crowded pods there are.
const CROWDED: usize = 8;
/// How many containers each crowded pod has, which are created and never started. The removal of
/// such a pod is cheap for containerd, and causes two events for each container.
const CROWD: usize = 90;

/// The limit for an event: a relist period, and the time that a busy containerd takes.
const IN_TIME: Duration = Duration::from_millis(2500);

/// A watch whose output is read only by `read_until`.
struct Unread {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The last event about each container and sandbox.
    last: BTreeMap<String, String>,
    conflated: u64,
}

impl Unread {
    fn watch(endpoint: &cri::Endpoint) -> Self {
        let mut child = e2e::command()
            .args(["watch", "-o", "json", "--agent", "off"])
            .args(["-r", &endpoint.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            last: BTreeMap::new(),
            conflated: 0,
        }
    }

    /// Reads up to the first record that is wanted.
    fn read_until(&mut self, wanted: impl Fn(&Value) -> bool) {
        loop {
            let line = self.lines.next().expect("the watch still runs").unwrap();
            let record: Value = serde_json::from_str(&line).unwrap();
            match record["kind"].as_str() {
                Some("event") => {
                    let id = record["id"].as_str().unwrap().to_owned();
                    let kind = record["type"].as_str().unwrap().to_owned();
                    self.last.insert(id, kind);
                }
                Some("gap") => self.conflated += record["conflated"].as_u64().unwrap(),
                _ => {}
            }
            if wanted(&record) {
                return;
            }
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_reader_that_stops_delays_no_other_and_receives_the_final_state() {
    let testbed = newest("e2e-unread").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let spec = |name: &str, pod| PodSpec::new(format!("{name}-{pod}"));
    let specs: Vec<_> = (0..CROWDED).map(|pod| spec("crowded", pod)).collect();
    let crowded = driver.run_pods(&specs, |_| ()).await.unwrap();
    let specs: Vec<_> = (0..4)
        .map(|pod| spec("web", pod).container("app"))
        .collect();
    let web = driver.run_pods(&specs, |_| ()).await.unwrap();
    for pod in &crowded {
        let creations = (0..CROWD).map(|number| {
            let (driver, pod) = (driver.clone(), pod.clone());
            tokio::spawn(async move {
                let spec = ContainerSpec::new(format!("never-{number}"), &[]);
                driver.create_container(&pod, &spec).await.unwrap();
            })
        });
        for creation in creations.collect::<Vec<_>>() {
            creation.await.unwrap();
        }
    }
    let mut unread = Unread::watch(&testbed.endpoint());
    unread.read_until(|record| record["kind"] == "synced");
    // The stream begins with the events that containerd sent before it had a reader.
    std::thread::sleep(Duration::from_secs(3));
    // This watch reads no stream, so that the reader that stopped receives every event of the stream
    // on any version.
    let other = Running::watch(&testbed.endpoint(), &["--mode", "generic"]);
    other.synced();

    driver.remove_pods(&crowded, |_| ()).await.unwrap();
    let mut latencies = Vec::new();
    for pod in &web {
        let pod = driver.pod(&pod.name).await.unwrap();
        let (id, init) = (pod.id("app").unwrap(), driver.pid(pod.id("app").unwrap()));
        let init = init.await.unwrap();
        let killed = Instant::now();
        driver.kill(id, init).unwrap();
        let (reported, _) = other.event("ContainerDied", id);
        latencies.push(reported.duration_since(killed));
        let pod = driver.pod(&pod.name).await.unwrap();
        let next = driver.restart_container(&pod, "app").await.unwrap();
        other.event("ContainerStarted", &next.id);
    }
    let pod = driver.pod("web-0").await.unwrap();
    let last = pod.id("app").unwrap();
    driver.kill_container(last).await.unwrap();
    other.event("ContainerDied", last);

    unread.read_until(|record| is_event(record, "ContainerDied", last));
    println!(
        "{} events were conflated; meanwhile others were reported after {latencies:?}",
        unread.conflated
    );
    assert!(unread.conflated >= 1000, "{}", unread.conflated);
    assert!(
        latencies.iter().all(|latency| *latency <= IN_TIME),
        "{latencies:?}"
    );
    for pod in &web {
        for container in driver.pod(&pod.name).await.unwrap().containers {
            let expected = match container.state {
                testbed_driver::ContainerState::ContainerRunning => "ContainerStarted",
                _ => "ContainerDied",
            };
            assert_eq!(unread.last.get(&container.id).unwrap(), expected);
        }
    }
}
