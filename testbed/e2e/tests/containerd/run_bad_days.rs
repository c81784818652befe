//! Static pods on real containerd under faults: a missing image, a full disk, and a runtime that restarts
//! in the middle of a creation.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::newest;
use e2e::run_node::{Node, assert_nothing_twice, is, until};
use serde_json::Value;

fn why(line: &Value) -> &str {
    line["why"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_pod_whose_image_is_missing_reports_it_and_delays_no_other() {
    let node = Node::on(newest("e2e-run-image").await);
    node.forever("wrong");
    let text = fs::read_to_string(node.manifest("wrong")).unwrap();
    let text = text.replace("busybox:latest", "busybox:never-made");
    fs::write(node.manifest("wrong"), text).unwrap();
    node.forever("right");
    let run = node.run();
    let wait = run.ever("what is wrong", |line| {
        line["kind"] == "wait" && line["pod"]["name"] == "wrong" && line["container"] == "app"
    });
    assert!(why(&wait).contains("busybox:never-made"), "{wait}");
    run.ever("the other one", |line| is(line, "Ready", "right"));
    // Once its manifest is corrected, the pod runs; nothing has to be restarted.
    node.forever("wrong");
    run.ever("the corrected one", |line| is(line, "Ready", "wrong"));
    drop(run);
    node.down().await;
}

/// A small file system, unmounted when the value is dropped.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn at(path: &'a Path) -> Self {
        fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]);
        assert!(mount.arg(path).status().unwrap().success());
        Self(path)
    }

    /// Writes until nothing more can be written.
    fn fill(&self) {
        let full = fs::write(self.0.join("filler"), vec![0; 2 << 20]);
        assert!(full.is_err());
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        // It may still contain files.
        let _ = Command::new("umount").args(["-l"]).arg(self.0).status();
    }
}

#[tokio::test]
async fn on_a_full_disk_a_pod_waits_and_says_why_and_it_starts_once_there_is_room() {
    let node = Node::on(newest("e2e-run-disk").await);
    let root = node.place.path().join("root");
    let disk = Disk::at(&root);
    node.forever("before");
    let run = node.run();
    run.ever("a pod", |line| is(line, "Ready", "before"));
    disk.fill();
    node.forever("late");
    let wait = run.ever("what is wrong", |line| {
        line["kind"] == "wait" && line["pod"]["name"] == "late"
    });
    assert!(why(&wait).contains("No space left on device"), "{wait}");
    let pods = node.pods().await;
    assert_eq!(pods.len(), 1, "nothing is made half: {pods:#?}");
    disk.free();
    run.ever("the pod", |line| is(line, "Ready", "late"));
    drop(run);
    node.down().await;
}

#[tokio::test]
async fn a_runtime_that_restarts_in_the_middle_of_a_creation_ends_with_each_pod_once() {
    let node = Node::on(newest("e2e-run-restart").await);
    node.forever("calm");
    let run = node.run();
    run.ever("a pod", |line| is(line, "Ready", "calm"));
    // The runtime restarts during the creation of a sandbox, which runc creates like a container.
    node.testbed.verb(&["runc-stuck", "create"]).await.unwrap();
    node.forever("new");
    until(&run, "CreateSandbox", "new");
    node.testbed.verb(&["restart"]).await.unwrap();
    node.testbed.verb(&["runc-free"]).await.unwrap();
    run.ever("the new pod", |line| is(line, "Ready", "new"));
    // It also restarts during the creation of a container.
    node.testbed.verb(&["runc-stuck", "start"]).await.unwrap();
    let pods = node.pods().await;
    let calm = pods.iter().find(|pod| pod.name == "calm").unwrap();
    let id = calm.id("app").unwrap();
    let pid = node.driver.pid(id).await.unwrap();
    node.driver.kill(id, pid).unwrap();
    until(&run, "StartContainer", "calm");
    node.testbed.verb(&["restart"]).await.unwrap();
    node.testbed.verb(&["runc-free"]).await.unwrap();
    until(&run, "Ready", "calm");
    let pods = node.pods().await;
    assert_nothing_twice(&pods);
    let names: Vec<_> = pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["calm", "new"], "{pods:#?}");
    drop(run);
    node.down().await;
}

/// The shim of a pod dies, and `runc delete` takes too long: containerd reports the container as exited,
/// although its process still runs.
#[tokio::test]
async fn a_container_that_the_runtime_has_lost_is_not_started_a_second_time_while_it_lives() {
    let node = Node::on(newest("e2e-run-lost").await);
    node.forever("lost");
    let run = node.run();
    run.ever("a pod", |line| is(line, "Ready", "lost"));
    let pods = node.pods().await;
    let process = node.driver.pid(pods[0].id("app").unwrap()).await.unwrap();
    let lives = || Path::new(&format!("/proc/{process}")).exists();

    node.testbed.verb(&["runc-stuck", "delete"]).await.unwrap();
    assert!(kill(&shim_of(&pods[0].sandbox_id)));
    let wait = run.ever("why it is not started", |line| {
        line["kind"] == "wait" && why(line).contains("still runs")
    });
    assert!(lives(), "{wait}");
    assert!(
        why(&wait).contains(&format!("process {process} ")),
        "{wait}"
    );
    assert_nothing_twice(&node.pods().await);

    // Once the process has ended, another container is created.
    assert!(kill(&process.to_string()));
    node.testbed.verb(&["runc-free"]).await.unwrap();
    run.ever("the next one", |line| is(line, "StartContainer", "lost"));
    drop(run);
    // The process of the first sandbox remains, and belongs to no pod any more.
    for pid in processes_of(&pods[0].uid) {
        // The process may have ended together with another.
        kill(&pid);
    }
    node.down().await;
}

/// The processes in the control groups of a pod.
fn processes_of(uid: &str) -> Vec<String> {
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-path", &format!("*/pod{uid}/*")])
        .args(["-name", "cgroup.procs", "-exec", "cat", "{}", "+"])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let mut pids: Vec<String> = found.lines().map(str::to_owned).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The process id of the shim that has this sandbox.
fn shim_of(sandbox: &str) -> String {
    let found = Command::new("pgrep")
        .args(["-f", &format!("containerd-shim.* -id {sandbox}")])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    found.lines().next().expect("it has a shim").to_owned()
}

/// Kills a process. Returns whether it existed.
fn kill(pid: &str) -> bool {
    let killed = Command::new("kill").args(["-9", pid]).status();
    killed.unwrap().success()
}
