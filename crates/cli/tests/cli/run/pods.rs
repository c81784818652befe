//! The pods of a run, and the decisions that are printed.

use std::fs;
use std::time::Duration;

use pleg::model::listed::ContainerState;
use serde_json::Value;

use super::node::{Node, Run, names, pod, why};
use crate::support::{Pleg, assert_keys, eventually, get};

#[test]
fn a_pod_starts_and_each_decision_is_an_object_with_six_keys() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let mut lines = Vec::new();
    let mut next = |run: &mut Run| {
        let line = run.line("any line", |_| true);
        let kind = line["kind"].as_str().unwrap().to_owned();
        lines.push((kind, line["action"].as_str().unwrap().to_owned()));
        line
    };
    let added = next(&mut run);
    assert_eq!(added["pod"]["namespace"], "default");
    assert_eq!(added["pod"]["name"], "web");
    assert_eq!(added["container"], Value::Null);
    assert_eq!(added["why"], "web.yaml");
    while next(&mut run)["action"] != "Ready" {}
    let lines: Vec<_> = lines.iter().map(|(kind, it)| (&**kind, &**it)).collect();
    assert_eq!(
        lines,
        [
            ("manifest", "Add"),
            ("step", "CreateSandbox"),
            ("pod", "Pending"),
            ("step", "EnsureImage"),
            ("step", "CreateContainer"),
            ("step", "StartContainer"),
            ("pod", "Running"),
            ("pod", "Ready"),
        ]
    );
    assert_eq!(node.state("web"), Some(ContainerState::Running));
}

#[test]
fn the_text_is_a_table_of_the_same_decisions() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.command(&[]).start();
    let header = run.line("the columns", |_| true);
    let columns: Vec<_> = header.split_whitespace().collect();
    assert_eq!(
        columns,
        ["TIME", "(UTC)", "ACTION", "POD", "CONTAINER", "WHY"]
    );
    let started = run.line("a start", |line| line.contains("StartContainer"));
    let (_, said) = started.split_once("StartContainer").unwrap();
    let said: Vec<_> = said.split_whitespace().collect();
    assert_eq!(
        said.join(" "),
        "default/web app the container was created",
        "{started}"
    );
}

#[test]
fn a_container_that_exits_is_started_again_and_the_second_time_after_a_back_off() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    run.pod("Ready");
    node.exit("web", 3);
    let again = run.action("CreateContainer");
    assert_eq!(again["why"], "the container exited with code 3");
    run.pod("Ready");
    node.exit("web", 137);
    let waits = run.action("CrashLoopBackOff");
    assert_eq!(waits["kind"], "wait");
    assert_eq!(waits["container"], "app");
    assert_eq!(waits["why"], "back-off 10 s restarting the container");

    let socket = node.socket("test");
    let pods = |format: &str| {
        let args = ["pods", "--agent", &socket, "-o", format];
        Pleg::new(&args).run().assert_code(0)
    };
    let shown = pods("json").value();
    let its = &shown[0]["staticPod"];
    assert_keys(its, &["phase", "ready", "containers"]);
    assert_eq!(its["phase"], "Running");
    assert_eq!(its["ready"], false);
    let container = &its["containers"][0];
    assert_keys(container, &["name", "ready", "restarts", "waiting"]);
    assert_eq!(container["restarts"], 1);
    let waiting = &container["waiting"];
    assert_eq!(waiting["reason"], "CrashLoopBackOff");
    assert_eq!(waiting["message"], waits["why"]);
    let seconds = waiting["seconds"].as_f64().unwrap();
    assert!((0.0..=10.0).contains(&seconds), "{seconds}");

    let table = pods("text").out;
    let mut lines = table.lines();
    let header = lines.next().unwrap();
    assert!(header.trim_end().ends_with("READY  WAITING"), "{table}");
    let row = lines.find(|line| line.contains("exited (137)")).unwrap();
    assert!(row.contains("  no     CrashLoopBackOff ("), "{table}");
    run.pod("Ready");
}

#[test]
fn a_changed_manifest_replaces_its_pod_and_a_removed_one_ends_it() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let first = run.pod("Ready");
    node.write("web.yaml", &pod("web", "  hostNetwork: true\n"));
    let killed = run.action("KillContainer");
    assert_eq!(killed["pod"], first["pod"]);
    assert_eq!(killed["why"], "the manifest was changed");
    let second = run.pod("Ready");
    assert_ne!(second["pod"]["uid"], first["pod"]["uid"]);
    assert_eq!(node.pods(), ["web"]);

    node.remove("web.yaml");
    let removed = run.action("Remove");
    assert_eq!(removed["kind"], "manifest");
    assert_eq!(removed["pod"], second["pod"]);
    let killed = run.action("KillContainer");
    assert_eq!(killed["why"], "the manifest was removed");
    run.pod("Gone");
    assert_eq!(node.pods(), Vec::<String>::new());
    // The pod's files on the host are also removed.
    for folder in ["root/pods", "logs/pods"] {
        assert_eq!(names(&node.path(folder)), Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn the_ready_condition_of_the_node_is_served_over_tcp_and_on_the_socket() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let address = run.address();
    run.pod("Ready");
    for place in [address.as_str(), &node.socket("test")] {
        let answer = get(place, "/v1/node");
        assert_eq!(answer.code, 200, "{answer:?}");
        let condition = answer.json();
        assert_keys(
            &condition,
            &[
                "type",
                "status",
                "reason",
                "message",
                "lastHeartbeatTime",
                "lastTransitionTime",
            ],
        );
        assert_eq!(condition["type"], "Ready");
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["reason"], "KubeletReady");
    }
    // Nothing else of the API is served over TCP.
    assert_eq!(get(&address, "/v1/pods").code, 404);
}

#[test]
fn a_pod_that_waits_for_the_network_is_reported_and_shown() {
    let node = Node::with("web.yaml", &pod("web", ""));
    node.write("host.yaml", &pod("host", "  hostNetwork: true\n"));
    node.runtime.sim.world().network_error = Some("no plugin".to_owned());
    let mut run = node.run();
    let waits = run.action("NetworkNotReady");
    assert_eq!(waits["kind"], "wait");
    assert_eq!(waits["pod"]["name"], "web");
    assert_eq!(run.pod("Ready")["pod"]["name"], "host");
    let socket = node.socket("test");
    let condition = get(&socket, "/v1/node").json();
    assert_eq!(condition["status"], "False");
    let message = condition["message"].as_str().unwrap();
    assert!(message.ends_with("message:no plugin"), "{message}");
    let pods = Pleg::new(&["pods", "--agent", &socket]).run();
    let table = pods.assert_code(0).out;
    let row = table.lines().find(|line| line.contains(" web ")).unwrap();
    assert!(row.trim_end().ends_with("NetworkNotReady"), "{table}");

    node.runtime.sim.world().network_error = None;
    assert_eq!(run.pod("Ready")["pod"]["name"], "web");
}

#[test]
fn init_containers_that_have_succeeded_are_ready_and_do_not_make_the_pod_unready() {
    let init = "  initContainers: [{name: first, image: example.test/app:1}]\n";
    let node = Node::with("web.yaml", &pod("web", init));
    let mut run = node.run();
    eventually("the init container runs", || {
        let mut world = node.runtime.sim.world();
        let first = world.pods.get_mut("web")?.container("first")?;
        (first.state == ContainerState::Running).then_some(())
    });
    node.runtime.sim.exit("web", "first", 0);
    run.pod("Ready");
    node.exit("web", 1);
    let not_ready = run.pod("NotReady");
    assert_eq!(why(&not_ready), "container app is not ready");
    run.pod("Ready");
    let socket = node.socket("test");
    let pods = Pleg::new(&["pods", "--agent", &socket, "-o", "json"]).run();
    let containers = &pods.assert_code(0).value()[0]["staticPod"]["containers"];
    assert_eq!(containers[0]["name"], "first");
    assert_eq!(containers[0]["ready"], true);
}

#[test]
fn beside_a_stuck_pod_work_on_others_continues_and_the_node_stays_ready() {
    let node = Node::with("other.yaml", &pod("other", ""));
    node.runtime.sim.run("stuck", &["app"]);
    let config = "relistPeriod: 100ms\nrelistThreshold: 2s\n";
    fs::write(node.path("agent.yaml"), config).unwrap();
    let mut run = node.run();
    run.pod("Ready");
    node.runtime.sim.status_lock("stuck", "app");
    let socket = node.socket("test");
    eventually("the lists hang", || {
        let status = get(&socket, "/v1/status").json();
        (status["health"]["state"] == "Degraded").then_some(())
    });
    // Twice the threshold.
    std::thread::sleep(Duration::from_secs(4));
    let condition = get(&socket, "/v1/node").json();
    assert_eq!(condition["status"], "True", "{condition}");
    node.runtime.sim.exit("other", "app", 1);
    // The simulated runtime creates nothing while the lock is held.
    run.action("CreateContainer");
    node.runtime.sim.status_unlock("stuck", "app");
    run.pod("Ready");
}
