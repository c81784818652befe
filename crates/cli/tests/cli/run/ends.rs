//! How a run ends, and what the next run adopts.

use std::process::{Command, Stdio};
use std::time::Instant;

use pleg::model::listed::ContainerState;
use pleg::runtime::Rpc;
use rustix::process::{Pid, Signal, kill_process};

use super::node::{CHANGES, Node, Run, assert_line, pod};
use crate::support::{TEST_LIMIT, eventually};

/// Ends a run by a signal, and checks that the next run adopts its pod unchanged.
fn check_adoption(signal: Signal, code: Option<i32>) {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let first = run.pod("Ready");
    assert_eq!(run.end(signal).code, code);
    assert_eq!(node.state("web"), Some(ContainerState::Running));
    let before = node.changes();

    let mut run = node.run();
    assert_eq!(run.pod("Ready")["pod"], first["pod"]);
    node.look_again();
    assert_eq!(node.changes(), before, "{CHANGES:?}");
    // The adopted pod is kept running.
    node.exit("web", 1);
    let again = run.action("CreateContainer");
    assert_eq!(again["why"], "the container exited with code 1");
    run.pod("Ready");
    assert_eq!(node.runtime.sim.calls_made(Rpc::RunPodSandbox), 1);
}

#[test]
fn sigterm_leaves_the_pods_running_and_the_next_run_adopts_them() {
    check_adoption(Signal::TERM, Some(0));
}

#[test]
fn ctrl_c_leaves_the_pods_running_and_the_next_run_adopts_them() {
    check_adoption(Signal::INT, Some(0));
}

#[test]
fn after_kill_9_the_next_run_adopts_the_pods() {
    check_adoption(Signal::KILL, None);
}

#[test]
fn a_run_stops_although_its_output_is_not_read() {
    let node = Node::new();
    // More than a pipe buffers.
    let wrong = "x: 0\n".repeat(20);
    for number in 0..200 {
        node.write(&format!("{number}.yaml"), &pod("web", &wrong));
    }
    node.write("ok.yaml", &pod("ok", ""));
    let text = |name: &str| node.path(name).display().to_string();
    let mut run = Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["run", "--beside-kubelet", "-r", &node.runtime.endpoint()])
        .args([
            "--manifests",
            &text("manifests"),
            "--root-dir",
            &text("root"),
        ])
        .args(["--pod-logs-dir", &text("logs/pods")])
        .args(["--listen", &node.socket("test"), "--listen", "127.0.0.1:0"])
        .env("PLEG_STATE_DIR", text("state"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    node.wait_running("ok");
    let begun = Instant::now();
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    let status = eventually("it ends", || run.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() < TEST_LIMIT / 3, "{:?}", begun.elapsed());
}

#[test]
fn the_next_run_applies_changes_of_manifests() {
    let node = Node::with("a.yaml", &pod("kept", ""));
    node.write("b.yaml", &pod("changed", ""));
    node.write("c.yaml", &pod("removed", ""));
    let mut run = node.run();
    for _ in 0..3 {
        run.pod("Ready");
    }
    run.end(Signal::KILL);
    node.write("b.yaml", &pod("changed", "  hostNetwork: true\n"));
    node.remove("c.yaml");

    let run = node.run();
    eventually("the removed one is gone", || {
        (node.pods() == ["changed", "kept"]).then_some(())
    });
    eventually("the changed one was replaced", || {
        (node.runtime.sim.calls_made(Rpc::RunPodSandbox) == 4).then_some(())
    });
    node.wait_running("changed");
    node.look_again();
    assert_eq!(node.runtime.sim.calls_made(Rpc::RunPodSandbox), 4);
    drop(run);
}

#[test]
fn down_ends_all_pods_of_the_owner_and_touches_no_other() {
    let node = Node::with("web.yaml", &pod("web", ""));
    // This pod has no owner.
    node.runtime.sim.run("stranger", &["app"]);
    let mut run = node.run();
    run.pod("Ready");
    run.end(Signal::TERM);
    node.remove("web.yaml");
    node.write("theirs.yaml", &pod("theirs", ""));
    let manifests = node.path("manifests").display().to_string();
    let other = ["--manifests", &manifests, "--beside-kubelet", "-o", "json"];
    let mut other = Run(node.command_of("other", &other).start());
    other.pod("Ready");

    let lines = node.down().assert_code(0).records();
    lines.iter().for_each(assert_line);
    let killed = lines.iter().find(|line| line["action"] == "KillContainer");
    assert_eq!(killed.unwrap()["why"], "all pods are being ended");
    assert_eq!(lines.last().unwrap()["action"], "Gone");
    assert!(lines.iter().all(|line| line["pod"]["name"] == "web"));
    assert_eq!(node.pods(), ["stranger", "theirs"]);
    for pod in node.pods() {
        assert_eq!(node.state(&pod), Some(ContainerState::Running), "{pod}");
    }
    assert_eq!(node.runtime.sim.calls_made(Rpc::StopContainer), 1);
    assert_eq!(node.down().assert_code(0).out, "");
}
