//! Static pods on real containerd: kept through crashes, kills and the status lock.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::run_node::{Node, assert_nothing_twice, is, until};
use e2e::{Running, VERSIONS, newest};
use serde_json::Value;
use testbed_driver::{Pod, Testbed};

/// The limit until a killed container runs again: some seconds, and the rest for a busy machine.
const DOWN: Duration = Duration::from_secs(15);

/// The number of times that a run is killed.
const KILLS: u64 = 20;

async fn keep_others_running_under_the_status_lock(version: &str, testbed: Testbed) {
    let node = Node::on(testbed);
    for name in ["stuck", "one", "two"] {
        node.forever(name);
    }
    let run = node.run();
    for name in ["stuck", "one", "two"] {
        run.ever(name, |line| is(line, "Ready", name));
    }
    let pods = node.pods().await;
    let pods: BTreeMap<&str, &Pod> = pods.iter().map(|pod| (&*pod.name, pod)).collect();
    let stuck = pods["stuck"];
    let mut victims = Vec::new();
    for name in ["one", "two"] {
        let id = pods[name].id("app").unwrap();
        victims.push((name, id, node.driver.pid(id).await.unwrap()));
    }
    let stop = ["shim-stop", &stuck.sandbox_id];
    node.testbed.verb(&stop).await.unwrap();
    let update = node.driver.hold_update(stuck.id("app").unwrap()).await;
    assert!(update.is_held());

    for (name, id, pid) in victims {
        let killed = Instant::now();
        node.driver.kill(id, pid).unwrap();
        let mut lines = until(&run, "NotReady", name);
        lines.extend(until(&run, "Ready", name));
        let down = killed.elapsed();
        println!("containerd {version}: {name} ran again {down:?} after its death");
        assert!(down < DOWN, "{down:?}");
        let touched = |line: &&Value| line["kind"] == "step" && line["pod"]["name"] == "stuck";
        assert_eq!(lines.iter().find(touched), None, "it was not touched");
    }
    let added = Instant::now();
    node.forever("new");
    until(&run, "Ready", "new");
    println!(
        "containerd {version}: a new pod ran {:?} after its manifest was written",
        added.elapsed()
    );

    drop(update);
    node.testbed
        .verb(&["shim-cont", &stuck.sandbox_id])
        .await
        .unwrap();
    fs::remove_file(node.manifest("one")).unwrap();
    until(&run, "Gone", "one");
    drop(run);
    let pods = node.pods().await;
    let names: Vec<_> = pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["new", "stuck", "two"]);
    node.down().await;
}

#[tokio::test]
async fn under_the_status_lock_of_one_pod_the_others_run_again_and_a_new_one_starts() {
    for version in VERSIONS {
        let name = format!("e2e-run-{version}");
        let testbed = Testbed::up(version, &name).await.unwrap();
        keep_others_running_under_the_status_lock(version, testbed).await;
    }
}

#[tokio::test]
async fn a_run_that_is_killed_at_any_moment_leaves_nothing_twice_and_nothing_is_lost() {
    // containerd 2.1.9 more often keeps a process that it was creating when its caller was killed, and
    // does not remove it before a restart.
    let node = Node::on(Testbed::up("1.7", "e2e-run-kill").await.unwrap());
    node.forever("calm");
    // The time after which a run is killed: from its first call to long after it.
    let moments = (0..KILLS).map(|number| Duration::from_millis(50 + number * number * 5));
    for (number, moment) in moments.enumerate() {
        // Pods that are added, changed and removed meanwhile.
        node.want(
            "changing",
            "Always",
            &format!("exec sleep {}", 1000 + number),
        );
        node.want("dies", "Always", "sleep 0.2; exit 1");
        match number % 2 {
            0 => node.forever("sometimes"),
            _ => fs::remove_file(node.manifest("sometimes")).unwrap(),
        }
        let run = node.run();
        tokio::time::sleep(moment).await;
        drop(run);
        assert_nothing_twice(&node.pods().await);
    }
    fs::remove_file(node.manifest("dies")).unwrap();
    // A process of the pod that containerd has kept is noticed only when the pod is wanted again.
    node.forever("sometimes");
    let run = node.run();
    let ends = [
        ("Gone", "dies"),
        ("Ready", "calm"),
        ("Ready", "changing"),
        ("Ready", "sometimes"),
    ];
    for (action, name) in ends {
        until_action(&node, &run, action, name).await;
    }
    // A stopped sandbox is kept as long as it contains the newest dead container of a name. Any other
    // stopped sandbox is removed soon.
    let is_left = |pod: &&Pod| !pod.ready && pod.containers.is_empty();
    let begun = Instant::now();
    let mut pods = node.pods().await;
    while pods.iter().any(|pod| is_left(&pod)) && begun.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        pods = node.pods().await;
    }
    assert_nothing_twice(&pods);
    let names = |pods: &[&Pod]| -> Vec<_> { pods.iter().map(|pod| pod.name.clone()).collect() };
    let (ready, stopped): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.ready);
    assert_eq!(
        names(&ready),
        ["calm", "changing", "sometimes"],
        "{pods:#?}"
    );
    let is_kept = |pod: &&Pod| names(&ready).contains(&pod.name) && !is_left(pod);
    assert!(stopped.iter().all(is_kept), "{pods:#?}");
    drop(run);
    // All containers run, so any that is still being created is one that containerd has kept.
    let runc = format!("{}.*runc init", node.testbed.name());
    Command::new("pkill")
        .args(["-9", "-f", &runc])
        .status()
        .unwrap();
    node.down().await;
}

/// The remaining process of the pod, if the pod waits because of it.
fn still_runs<'a>(line: &'a Value, name: &str) -> Option<&'a str> {
    let why = line["why"].as_str()?;
    let (process, _) = why.split_once(" of the pod still runs, in the control group")?;
    let waits = is(line, "CreateContainerError", name) || is(line, "StopError", name);
    process.rsplit(' ').next().filter(|_| waits)
}

/// Waits for this action on a pod. If containerd loses its caller while it creates a process, it may keep
/// the process, report the container as exited, and refuse to remove it until containerd is restarted.
/// After that it may have forgotten the process.
async fn until_action(node: &Node, run: &Running, action: &str, name: &str) {
    // containerd may have been restarted for another pod meanwhile.
    if run.has_read(|line| is(line, action, name)) {
        return;
    }
    let attempts = Cell::new(0);
    let is_kept = |line: &Value| {
        let why = line["why"].as_str();
        is(line, "StopError", name) && why.is_some_and(|why| why.contains("cannot delete running"))
    };
    let wanted = |line: &Value| {
        // A process that is ending has ended at the next attempt.
        attempts.set(attempts.get() + u32::from(still_runs(line, name).is_some()));
        is(line, action, name) || is_kept(line) || attempts.get() == 3
    };
    let mut line = run.ever(name, wanted);
    let mut restarted = false;
    while !is(&line, action, name) {
        match still_runs(&line, name).filter(|_| restarted) {
            Some(process) => {
                println!("it has forgotten process {process} of {name}: it is killed");
                let killed = Command::new("kill").args(["-9", process]).status();
                assert!(killed.unwrap().success());
            }
            None => {
                println!("containerd keeps a process of {name}: it is restarted");
                node.testbed.verb(&["restart"]).await.unwrap();
                restarted = true;
            }
        }
        attempts.set(0);
        let lines = run.until(name, wanted);
        line = lines.into_iter().next_back().expect("until gives one").1;
    }
}

#[tokio::test]
async fn one_run_for_ci_ends_as_its_pods_do() {
    let node = Node::on(newest("e2e-run-once").await);
    let folder = node.place.path().join("manifests").display().to_string();
    let once = || {
        let mut command = node.command(&["--once", "--manifests", &folder]);
        command.output().unwrap().status.code()
    };
    node.forever("service");
    node.want("job", "Never", "echo done");
    assert_eq!(once(), Some(0));
    let log = find_log(&node);
    assert!(log.ends_with(" stdout F done\n"), "{log}");
    node.want("job", "OnFailure", "exit 0");
    node.want("other", "Never", "exit 3");
    assert_eq!(once(), Some(1));
    node.down().await;
}

fn find_log(node: &Node) -> String {
    let pods = fs::read_dir(node.place.path().join("logs")).unwrap();
    let mut pods = pods.map(|pod| pod.unwrap().path());
    let job = pods.find(|pod| pod.to_string_lossy().contains("_job_"));
    fs::read_to_string(job.unwrap().join("app/0.log")).unwrap()
}
