//! What an agent records under the status lock of real containerd, read afterwards.

use std::time::{Duration, Instant};

use e2e::{Agent, WAIT_LIMIT, newest, pleg, pleg_json};
use serde_json::Value;
use testbed_driver::{Driver, PodSpec};

#[tokio::test]
async fn the_history_of_a_status_lock_shows_the_culprit_and_the_death_of_another_container() {
    let testbed = newest("e2e-history").await;
    let driver = Driver::new(&testbed.endpoint()).unwrap();
    let spec = PodSpec::new("locked").container("app");
    let locked = driver.run_pod(&spec).await.unwrap();
    let spec = PodSpec::new("free").container("app");
    let free = driver.run_pod(&spec).await.unwrap();
    let (stuck, other) = (locked.id("app").unwrap(), free.id("app").unwrap());
    let pid = driver.pid(other).await.unwrap();
    let mut agent = Agent::configured(&testbed.endpoint(), "relistCeiling: 1s\n");
    let watch = agent.watch();
    watch.health("Healthy");

    testbed
        .verb(&["shim-stop", &locked.sandbox_id])
        .await
        .unwrap();
    let update = driver.hold_update(stuck).await;
    assert!(update.is_held());
    watch.ever("the culprit", |record| {
        let calls = record["stuck"].as_array().into_iter().flatten();
        calls.into_iter().any(|call| call["id"] == stuck)
    });
    driver.kill(other, pid).unwrap();
    watch.event("ContainerDied", other);
    testbed
        .verb(&["shim-cont", &locked.sandbox_id])
        .await
        .unwrap();
    update.answered().await.unwrap();
    watch.health("Healthy");
    let history = agent.path("history");
    // The recorder receives each event at the same time as the watch above.
    let deadline = Instant::now() + WAIT_LIMIT;
    let ended = |picture: &Value| hung(picture, stuck)["to"].is_string();
    while !ended(&pleg_json(&["timeline", "--from", &history])) {
        assert!(Instant::now() < deadline, "the end was not recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The recording must be on the disk even though the agent is killed.
    agent.end();

    let from_history = pleg_json(&["timeline", "--from", &history]);
    let drawn = hung(&from_history, stuck);
    assert_eq!(drawn["call"], "ContainerStatus", "{drawn}");
    assert_eq!(drawn["who"]["pod"]["name"], "locked", "{drawn}");
    assert!(
        drawn["from"].is_string() && drawn["to"].is_string(),
        "{drawn}"
    );
    let died = episodes(&from_history).find(|it| it["event"] == "ContainerDied");
    let died = died.unwrap_or_else(|| panic!("a death in {from_history:#}"));
    assert_eq!(died["who"]["id"], other, "{died}");
    assert!(died["delaySeconds"].is_number(), "{died}");

    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz").display().to_string();
    let endpoint = testbed.endpoint().to_string();
    let from = ["--agent", "off", "-r", &endpoint, "--history", &history];
    let taken = pleg(&[&["snapshot"], &from[..], &[&file]].concat());
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    let from_snapshot = pleg_json(&["timeline", "--from", &file]);
    assert_eq!(hung(&from_snapshot, stuck)["from"], drawn["from"]);
    let text = pleg(&["timeline", "-o", "text", "--from", &file]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("default/locked"), "{text}");
}

fn episodes(picture: &Value) -> impl Iterator<Item = &Value> {
    picture["episodes"].as_array().into_iter().flatten()
}

/// The call for this container that hung.
#[track_caller]
fn hung<'a>(picture: &'a Value, id: &str) -> &'a Value {
    let found = episodes(picture).find(|it| it["what"] == "hungCall" && it["who"]["id"] == id);
    found.unwrap_or_else(|| panic!("no hung call for {id} in {picture:#}"))
}
