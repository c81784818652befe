//! `pleg snapshot`, and the commands that read a snapshot.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::read::GzDecoder;
use pleg::model::wall_time::WallTime;
use pleg::runtime::Rpc;
use sim::Fault;

use crate::support::{Agent, Ended, FakeRuntime, Pleg, eventually};

fn lines(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// Waits until all pods are recorded.
fn recorded(agent: &Agent) {
    eventually("all pods are recorded", || {
        let metrics = agent.get("/metrics").body;
        let written = crate::support::value(&metrics, "pleg_history_written_total");
        (written? >= 3.0).then_some(())
    });
}

/// A runtime with these pods, and an agent that has recorded them.
fn recorded_node(pods: &[(&str, &[&str])]) -> (FakeRuntime, Agent) {
    let runtime = FakeRuntime::with_pods(pods);
    let agent = Agent::watching(&runtime.path());
    agent.wait_healthy();
    recorded(&agent);
    (runtime, agent)
}

/// Takes a snapshot of this agent and this history, with these further arguments.
fn take(agent: &Agent, history: &Path, file: &Path, more: &[&str]) -> Ended {
    let args = ["snapshot", "-o", "json", "--agent", &agent.socket];
    let history = ["--history", history.to_str().unwrap()];
    let file = file.to_str().unwrap();
    Pleg::new(&[&args[..], &history, more, &[file]].concat()).run()
}

#[test]
fn a_snapshot_has_history_status_pods_and_a_bundle_that_other_commands_read() {
    let (_runtime, agent) = recorded_node(&[("a", &["x"]), ("b", &["y"])]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz");
    let path = file.to_str().unwrap();
    let report = take(&agent, agent.history.path(), &file, &[]);
    let report = report.assert_code(0).value();
    assert_eq!(report["file"], path);
    assert_eq!(report["missing"], serde_json::json!([]));
    assert!(report["entries"].as_u64().unwrap() >= 3, "{report}");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let text = lines(&file);
    let kinds: Vec<_> = text
        .lines()
        .map(|line| line.split('"').nth(1).unwrap())
        .collect();
    assert_eq!(kinds[..4], ["kind", "status", "pods", "entry"]);
    assert_eq!(kinds[kinds.len() - 3..], ["entry", "bundle", "end"]);
    // Parts of the command line and the environment of the agent, which is a process of the node.
    for secret in ["--config", "PLEG_STATE_DIR", "CARGO"] {
        assert!(!text.contains(secret), "{secret}");
    }

    let diagnosed = Pleg::new(&["doctor", "-o", "json", "--from", path]).run();
    let diagnosed = diagnosed.value();
    let analyzed = Pleg::new(&["analyze", "-o", "json", path]).run().value();
    assert_eq!(analyzed["findings"], diagnosed["findings"]);
    assert_eq!(analyzed["summary"], diagnosed["summary"]);
    assert_eq!(analyzed["inputs"][0]["kind"], "snapshot");
    assert_eq!(analyzed["inputs"][0]["lines"], report["entries"]);
}

#[test]
fn without_agent_and_runtime_a_snapshot_has_only_the_history() {
    let (_runtime, agent) = recorded_node(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz");
    let path = file.to_str().unwrap();
    let nowhere = place.path().join("none.sock");
    let nowhere = nowhere.to_str().unwrap();
    let snapshot = |history: &Path| {
        let history = history.to_str().unwrap();
        let args = [
            "snapshot",
            "--agent",
            "off",
            "-r",
            nowhere,
            "--history",
            history,
            path,
        ];
        Pleg::new(&args).run()
    };
    let written = snapshot(agent.history.path()).assert_code(0);
    assert!(
        written.out.starts_with(&format!("Wrote {path}: ")),
        "{}",
        written.out
    );
    assert!(
        written
            .out
            .contains("Missing: agent: none responds on this node\n")
    );
    assert!(written.out.contains("Missing: status and pods: "));
    assert!(lines(&file).contains("{\"entry\":"));

    std::fs::remove_file(&file).unwrap();
    let said = snapshot(place.path()).assert_code(2).sentence();
    assert!(said.contains("there is nothing to write"), "{said}");
    assert!(
        said.contains("has no entries of the last 24h0m0s"),
        "{said}"
    );
    assert!(!file.exists());
    let directory = ["snapshot", "--agent", "off", "-r", nowhere, "/"];
    let said = Pleg::new(&directory).run().assert_code(2).sentence();
    assert!(said.contains("cannot write the snapshot /"), "{said}");
    assert!(!said.contains("bundle"), "{said}");
    let said = snapshot(&place.path().join("none")).assert_code(2);
    let said = said.sentence();
    assert!(said.contains("none: no such file or directory"), "{said}");
    assert!(!said.contains("os error"), "{said}");
}

#[test]
fn while_the_agent_is_stopped_status_and_bundle_come_from_the_runtime() {
    let (runtime, agent) = recorded_node(&[("a", &["x"])]);
    agent.stop();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz");
    let history = agent.history.path();
    let report = take(&agent, history, &file, &["-r", &runtime.path()]);
    let report = report.assert_code(0).value();
    let missing = report["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 1, "{report}");
    assert!(
        missing[0].as_str().unwrap().starts_with("agent: "),
        "{report}"
    );
    assert!(lines(&file).contains("{\"bundle\":"));
}

#[test]
fn a_truncated_bundle_leaves_the_history_readable() {
    let (_runtime, agent) = recorded_node(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz");
    let path = file.to_str().unwrap();
    let report = take(&agent, agent.history.path(), &file, &[]);
    let report = report.assert_code(0).value();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 200]).unwrap();

    let analyzed = Pleg::new(&["analyze", "-o", "json", path]).run().value();
    assert_eq!(analyzed["inputs"][0]["lines"], report["entries"]);
    assert_eq!(analyzed["inputs"][0]["error"], "its end is missing");
    let said = Pleg::new(&["doctor", "--from", path]).run().assert_code(2);
    let said = said.sentence();
    assert!(said.contains("the snapshot has no bundle"), "{said}");
}

#[test]
fn the_history_of_another_runtime_is_not_part_of_a_snapshot() {
    let [ours, theirs] = ["a", "b"].map(|pod| FakeRuntime::with_pods(&[(pod, &["x"])]));
    let agents = [&ours, &theirs].map(|runtime| Agent::watching(&runtime.path()));
    agents.iter().for_each(Agent::wait_healthy);
    agents.iter().for_each(recorded);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz");
    let report = take(&agents[0], agents[1].history.path(), &file, &[]);
    let report = report.assert_code(0).value();
    let missing = report["missing"].to_string();
    assert!(missing.contains("is that of another runtime"), "{missing}");
    assert_eq!(report["entries"], 0, "{report}");
}

#[test]
fn a_timeline_of_a_snapshot_ends_when_it_was_taken() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.path());
    agent.wait_healthy();
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz");
    let path = file.to_str().unwrap();
    let take = || take(&agent, agent.history.path(), &file, &[]).assert_code(0);
    // Nothing is recorded between the start of the fault and the snapshot.
    let seconds = eventually("the list hangs for some time", || {
        take();
        let drawn = Pleg::new(&["timeline", "-o", "json", path]).run();
        let drawn = drawn.assert_code(0).value();
        let mut episodes = drawn["episodes"].as_array().unwrap().iter();
        let hung = episodes.find(|it| it["call"] == "ListContainers")?;
        let time = |name: &str| serde_json::from_value::<WallTime>(hung[name].clone()).ok();
        let lasted = time("seenUntil")?.since(time("from")?);
        (lasted.as_secs() >= 5).then_some(lasted.as_secs())
    });
    assert!(seconds >= 5);
    // The node is healthy afterwards; the history shows the fault.
    runtime.sim.lift_all();
    agent.wait_healthy();
    take();
    let analyzed = Pleg::new(&["analyze", path]).run().assert_code(1).out;
    assert!(
        analyzed.contains("its history shows: ListContainers did not return for"),
        "{analyzed}"
    );
}

#[test]
fn a_snapshot_can_be_piped() {
    let (_runtime, agent) = recorded_node(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.gz");
    let piped = std::process::Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["snapshot", "-", "--agent", &agent.socket, "--history"])
        .arg(agent.history.path())
        .stdout(std::fs::File::create(&file).unwrap())
        .status();
    assert!(piped.unwrap().success());
    let text = lines(&file);
    assert!(
        text.ends_with("}}\n") && text.contains("{\"end\":"),
        "{text}"
    );
    let refused = take(&agent, agent.history.path(), Path::new("-"), &[]).assert_code(2);
    let refused = refused.sentence();
    assert!(refused.contains("-o json describes the file"), "{refused}");
}
