//! The recording of an agent as a picture.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pleg::model::wall_time::WallTime;
use pleg::runtime::Rpc;
use sim::Fault;

use super::*;
use crate::support::{Agent, FakeRuntime, eventually};

#[test]
fn without_from_the_history_of_this_node_is_drawn() {
    let runtime = FakeRuntime::with_pods(&[("web", &["app"]), ("db", &["app"])]);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let timeline = |more: &[&str]| {
        let args = [&["timeline", "-o", "json"], more].concat();
        Pleg::new(&args).env("PLEG_STATE_DIR", state).run()
    };
    let sentence = timeline(&[]).sentence();
    assert!(sentence.contains("no recording in"), "{sentence}");

    let history = folder.path().join("history").display().to_string();
    let lines = format!("history:\n  directory: {history}\n");
    let agent = Agent::configured(&runtime.endpoint(), &lines);
    agent.wait_healthy();
    let call = Some("db/app.0");
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    runtime.sim.fault(Rpc::ContainerStatus, call, Fault::Hang);
    let value = eventually("the culprit is in the history", || {
        let ended = timeline(&["--since", "1h"]);
        let value = (ended.code == Some(0)).then(|| ended.value())?;
        let summary = value["summary"].as_str().unwrap_or_default();
        summary
            .contains("ContainerStatus for default/db")
            .then_some(value)
    });
    let episodes = value["episodes"].as_array().unwrap();
    let goes_on =
        |episode: &&Value| episode["call"] == "ContainerStatus" && episode["to"].is_null();
    assert!(
        episodes.iter().any(|episode| goes_on(&episode)),
        "{value:#}"
    );
    let by_path = timeline(&["--from", &history]);
    assert!(by_path.assert_code(0).out.contains("(recording, "));

    // An agent on a quiet node records a status per minute; an open episode lasts until now.
    std::thread::sleep(Duration::from_secs(4));
    let now = WallTime::now();
    let value = timeline(&[]).assert_code(0).value();
    assert!(to(&value) >= now, "{value:#} at {now}");
    let is_open =
        |episode: &&Value| episode["call"] == "ContainerStatus" && episode["to"].is_null();
    let episodes = value["episodes"].as_array().unwrap();
    let open = episodes.iter().find(is_open).unwrap();
    assert_eq!(open["seenUntil"], value["to"], "{value:#}");

    let snapshot = folder.path().join("node.gz");
    let file = snapshot.to_str().unwrap();
    let args = ["snapshot", file, "--agent", &agent.socket];
    Pleg::new(&args)
        .env("PLEG_STATE_DIR", state)
        .run()
        .assert_code(0);
    let value = timeline(&["--from", file]).assert_code(0).value();
    assert!(
        value["sources"].to_string().contains("(snapshot, "),
        "{value:#}"
    );
    assert!(titles(&value).contains(&"hungCall"), "{value:#}");

    let stopped = WallTime::now();
    agent.terminate();
    agent.end().assert_code(0);
    let ended = WallTime::now();
    std::thread::sleep(Duration::from_secs(2));
    let value = timeline(&[]).assert_code(0).value();
    assert!(
        (stopped..=ended).contains(&to(&value)),
        "{value:#}: {stopped} to {ended}"
    );
}

fn to(value: &Value) -> WallTime {
    serde_json::from_value(value["to"].clone()).unwrap()
}

#[test]
fn a_history_without_permission_is_not_reported_as_absent() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    fs::create_dir(folder.path().join("history")).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let history = folder.path().join("history").display().to_string();
    for args in [
        &["timeline"][..],
        &["timeline", "--from", &history],
        &[
            "snapshot",
            "--agent",
            "off",
            "-r",
            "/nowhere.sock",
            "--history",
            &history,
            "/tmp/x.gz",
        ],
    ] {
        let Some(pleg) = Pleg::new(args)
            .env("PLEG_STATE_DIR", state)
            .with_other_user()
        else {
            return;
        };
        let sentence = pleg.run().assert_code(2).sentence();
        let said = format!("{history}: permission denied: only the user of the agent may read it");
        assert!(sentence.contains(&said), "{sentence}");
        assert!(sentence.contains("run this command as root"), "{sentence}");
        assert!(!sentence.contains("no recording"), "{sentence}");
    }
}
