//! `kubectl pleg` against a double of an API server.

use std::time::Instant;

use api_double::Wrong;
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{ApiServer, Pleg, TEST_LIMIT, eventually};

/// The time this many seconds ago, as Kubernetes writes times.
fn ago(seconds: i64) -> String {
    let then = Timestamp::now() - SignedDuration::from_secs(seconds);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A Node as a kubelet writes it.
fn node(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": "u", "resourceVersion": "8", "labels": {"pool": "web"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": {"cpu": "8"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": ready, "reason": "KubeletReady"},
            ],
            "images": [{"names": ["registry.example.com/app@sha256:0"], "sizeBytes": 5}],
        },
    })
}

/// Adds the condition that an agent writes.
fn with_condition(mut node: Value, status: &str, reason: &str, message: &str) -> Value {
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({
        "type": "PLEGUnhealthy", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": ago(20), "lastTransitionTime": ago(7200),
    }));
    node
}

fn well(name: &str) -> Value {
    with_condition(
        node(name, "True"),
        "False",
        "AllSeen",
        "all pods are up to date",
    )
}

fn stuck(name: &str) -> Value {
    let message = "container app of shop/web-1 is stuck (12s); all other pods are up to date";
    let mut node = with_condition(node(name, "True"), "False", "ContainerStuck", message);
    let summary = json!({
        "state": "Degraded", "reason": "ContainerStuck", "since": ago(95),
        "cause": "shim-unresponsive",
        "culprits": [
            {"call": "ContainerStatus", "namespace": "shop", "pod": "web-1", "container": "app",
             "id": "abcdef"},
            {"call": "PodSandboxStatus", "namespace": "shop", "pod": "web-2", "id": "0123"},
            {"call": "ListContainers"},
        ],
    });
    node["metadata"]["annotations"] = json!({"pleg.dev/status": summary.to_string()});
    node
}

/// Calls for the whole node are stuck, and no container is blamed.
fn only_lists_stuck(name: &str) -> Value {
    let mut node = with_condition(
        node(name, "True"),
        "False",
        "ListStuck",
        "ListContainers hangs",
    );
    let calls = [json!({"call": "ListContainers"})];
    let summary = json!({
        "state": "Degraded", "reason": "ListStuck", "since": ago(30), "culprits": calls,
    });
    node["metadata"]["annotations"] = json!({"pleg.dev/status": summary.to_string()});
    node
}

fn unhealthy(name: &str) -> Value {
    let message = "PLEG is not healthy: pleg was last seen active 3m53s ago; threshold is 3m0s";
    with_condition(node(name, "False"), "True", "RuntimeSilent", message)
}

#[test]
fn the_fleet_is_a_table_with_failing_nodes_first() {
    let mut stale = well("d-stale");
    stale["status"]["conditions"][2]["lastHeartbeatTime"] = ago(1000).into();
    let server = ApiServer::start(vec![
        well("a"),
        stuck("b"),
        node("c-no-agent", "True"),
        stale,
        unhealthy("e"),
        node("f-down", "Unknown"),
        only_lists_stuck("g"),
    ]);
    let ended = server.kubectl(&[]).run().assert_code(1);
    let table: Vec<Vec<&str>> = ended
        .out
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .collect()
        })
        .collect();
    let shown: Vec<&[&str]> = table.iter().map(|row| &row[..3]).collect();
    assert_eq!(
        shown,
        [
            ["NODE", "READY", "PLEG"],
            ["e", "False", "Unhealthy"],
            ["f-down", "Unknown", "NotReported"],
            ["b", "True", "Degraded"],
            ["g", "True", "Degraded"],
            ["d-stale", "True", "Stale"],
            ["c-no-agent", "True", "NotReported"],
            ["a", "True", "Healthy"],
        ]
    );
    assert_eq!(table[1][3..5], ["120m", "RuntimeSilent"]);
    assert!(
        table[1][5].starts_with("PLEG is not healthy"),
        "{:?}",
        table[1]
    );
    assert_eq!(
        table[3][4..],
        ["shim-unresponsive", "shop/web-1/app (+1)", "no"]
    );
    assert_eq!(table[4][4..], ["ListStuck", "-", "no"], "no culprit");
    assert!(
        ["95s", "96s", "97s"].contains(&table[3][3]),
        "{:?}",
        table[3]
    );
    let wide = server.kubectl(&["-o", "wide", "--no-headers"]).run();
    assert!(wide.out.starts_with("e "), "{}", wide.out);
    assert!(wide.out.contains("is stuck (12s)"), "{}", wide.out);
}

#[test]
fn in_json_each_node_has_its_culprits_and_times() {
    let server = ApiServer::start(vec![well("a"), stuck("b")]);
    let nodes = server.kubectl(&["-o", "json"]).run().assert_code(1).value();
    let stuck = &nodes[0];
    assert_eq!(stuck["node"], "b");
    assert_eq!(stuck["ready"], "True");
    assert_eq!(stuck["state"], "Degraded");
    assert_eq!(stuck["reason"], "ContainerStuck");
    assert_eq!(stuck["cause"], "shim-unresponsive");
    assert_eq!(stuck["guarded"], false);
    assert_eq!(stuck["culprits"][0]["pod"], "web-1");
    assert_eq!(stuck["culprits"][1].get("container"), None);
    assert_eq!(nodes[1]["state"], "Healthy");
    assert_eq!(nodes[1]["culprits"], json!([]));
    let server = ApiServer::start(vec![well("a")]);
    server.kubectl(&["-o", "json"]).run().assert_code(0);
    let none = ApiServer::start(Vec::new());
    assert_eq!(
        none.kubectl(&["-o", "json"]).run().assert_code(0).out,
        "[]\n"
    );
    assert_eq!(
        none.kubectl(&[]).run().assert_code(0).out,
        "No nodes found.\n"
    );
}

#[test]
fn a_condition_may_have_a_domain_and_a_contradicting_annotation_is_ignored() {
    let mut of_a_domain = unhealthy("a");
    of_a_domain["status"]["conditions"][2]["type"] = "example.com/PLEGUnhealthy".into();
    let mut disagrees = stuck("b");
    disagrees["status"]["conditions"][2]["reason"] = "ListStuck".into();
    let mut nonsense = stuck("c");
    nonsense["metadata"]["annotations"]["pleg.dev/status"] = "{\"state\":5".into();
    let server = ApiServer::start(vec![of_a_domain, disagrees, nonsense]);
    let nodes = server.kubectl(&["-o", "json"]).run().value();
    assert_eq!(nodes[0]["state"], "Unhealthy");
    for node in [&nodes[1], &nodes[2]] {
        assert_eq!(node["state"], "Degraded");
        assert_eq!(node["culprits"], json!([]));
    }
}

#[test]
fn nodes_are_read_in_pages_and_again_if_the_token_expires() {
    let nodes = (0..95)
        .map(|index| well(&format!("node-{index}")))
        .collect();
    let server = ApiServer::start(nodes);
    server.fail_next("continue=40", Wrong::Status(410));
    let args = ["-o", "json", "--chunk-size", "20", "-l", "pool in (web,b)"];
    let shown = server.kubectl(&args).run().assert_code(0).value();
    assert_eq!(shown.as_array().unwrap().len(), 95);
    let requests = server.requests();
    assert_eq!(requests.len(), 3 + 5);
    let first = "/api/v1/nodes?limit=20&labelSelector=pool+in+%28web%2Cb%29";
    assert_eq!(requests[0].path, first);
}

#[test]
fn five_thousand_nodes_are_shown_within_fifty_megabytes() {
    // The size of real Nodes: a kubelet reports fifty images with two names each.
    let names = json!([
        "registry.example.com/team/app@sha256:0123456789abcdef0123456789abcdef",
        "registry.example.com/team/app:v1.2.3"
    ]);
    let image = json!({"names": names, "sizeBytes": 123_456_789});
    let nodes = (0..5000).map(|index| {
        let mut node = well(&format!("node-{index}"));
        node["status"]["images"] = vec![image.clone(); 50].into();
        node
    });
    let server = ApiServer::start(nodes.collect());
    let begun = Instant::now();
    let mut watch = server.kubectl(&["--watch"]).start();
    watch.line("the last of them", |line| line.starts_with("node-999 "));
    let (took, memory) = (begun.elapsed(), watch.peak_memory());
    assert!(memory < 50 << 20, "{memory} bytes");
    // The limit of two seconds applies to a release build.
    assert!(took < TEST_LIMIT, "{took:?}");
}

#[test]
fn a_watch_shows_each_change_until_it_is_interrupted() {
    let mut beat = well("a");
    let server = ApiServer::start(vec![beat.clone(), well("b")]);
    let mut watch = server.kubectl(&["--watch", "-o", "json"]).start();
    watch.record("the first", |record| record["node"] == "a");
    watch.record("the second", |record| record["node"] == "b");
    eventually("it watches", || (server.watches() > 0).then_some(()));
    // A heartbeat alone is no change.
    beat["status"]["conditions"][2]["lastHeartbeatTime"] = ago(0).into();
    server.set_node(beat);
    server.set_node(stuck("b"));
    let next = watch.record("a change", |_| true);
    assert_eq!(
        (&next["node"], &next["state"]),
        (&"b".into(), &"Degraded".into())
    );
    server.set_node(unhealthy("c"));
    assert_eq!(watch.record("a new one", |_| true)["node"], "c");
    server.remove_node("a");
    let gone = watch.record("one that goes", |_| true);
    assert_eq!(gone, json!({"node": "a", "gone": true}));
    watch.signal(Signal::INT);
    watch.end(TEST_LIMIT).assert_code(0);
}

#[test]
fn one_node_is_shown_with_its_events_and_advice() {
    let server = ApiServer::start(vec![well("a"), stuck("b")]);
    let event = |kind: &str, name: &str, note: &str, seconds| {
        json!({"regarding": {"kind": kind, "name": name}, "type": "Warning",
            "reason": "ContainerStuck", "note": note, "eventTime": ago(seconds),
            "reportingController": "pleg.dev/agent"})
    };
    server.set_events(vec![
        event("Node", "b", "the older one", 90),
        event("Pod", "web-1", "a newer one", 60),
        event("Node", "a", "of another node", 30),
    ]);
    let page = server.kubectl(&["b"]).run().assert_code(1).out;
    for part in [
        "Degraded (ContainerStuck), for 9",
        "ContainerStatus of shop/web-1/app (abcdef)",
        "PodSandboxStatus of shop/web-2 (0123)",
        "pleg explain shim-unresponsive",
        "pod/shop/web-1",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (newer, older) = (page.find("a newer one"), page.find("the older one"));
    assert!(newer.unwrap() < older.unwrap(), "{page}");
    assert!(!page.contains("of another node"), "{page}");
    let value = server.kubectl(&["b", "-o", "json"]).run().value();
    assert_eq!(value["node"], "b");
    assert_eq!(value["events"][0]["regarding"], "pod/shop/web-1");
    server.kubectl(&["a"]).run().assert_code(0);
    // Without permission to read events, everything else is shown.
    server.refuse("/events", 403);
    let ended = server.kubectl(&["b"]).run().assert_code(1);
    assert!(ended.err.contains("list events.k8s.io"), "{}", ended.err);
    assert!(ended.out.contains("Degraded"), "{}", ended.out);
}

#[test]
fn an_error_is_one_sentence_without_credentials() {
    let server = ApiServer::start(vec![well("a")]);
    let sentence = |args: &[&str]| {
        let said = server.kubectl(args).run().sentence();
        assert!(!said.contains("secret"), "{said}");
        said
    };
    assert!(sentence(&["b"]).contains("node \"b\" not found"));
    assert!(sentence(&["../../../x"]).contains("not found"));
    assert!(sentence(&["--context", "nowhere"]).contains("cannot be reached"));
    assert!(sentence(&["--context", "missing"]).contains("missing"));
    assert!(sentence(&["--kubeconfig", "/nowhere"]).contains("/nowhere"));
    assert!(sentence(&["-s", "nonsense"]).contains("nonsense"));
    server.fail_next("/api/v1/nodes", Wrong::Status(403));
    assert!(sentence(&[]).contains("list nodes"));
    server.fail_next("/api/v1/nodes", Wrong::Status(401));
    assert!(sentence(&[]).contains("401"));
    server.fail_next("/api/v1/nodes", Wrong::Status(503));
    assert!(sentence(&[]).contains("503"));
}

#[test]
fn the_help_names_kubectl_and_text_of_a_node_is_escaped() {
    let help = Pleg::as_plugin(&["--help"]).run().assert_code(0).out;
    for taught in [
        "Usage: kubectl pleg",
        "--kubeconfig",
        "--context",
        "-l, --selector",
        "NODE",
    ] {
        assert!(help.contains(taught), "{taught}: {help}");
    }
    Pleg::as_plugin(&["-o", "xml"]).run().assert_code(2);
    let message = "evil \u{1b}[2J\u{202e}\nnode-2  True  Healthy";
    let evil = with_condition(node("a", "True"), "False", "Con\u{1b}c", message);
    let server = ApiServer::start(vec![evil]);
    for args in [&["-o", "wide"][..], &["a"], &["-o", "json"]] {
        let out = server.kubectl(args).run().assert_code(1).out;
        let is_raw = |it: char| it != '\n' && (it.is_control() || it == '\u{202e}');
        assert!(!out.contains(is_raw), "{out:?}");
        assert!(!out.contains("\nnode-2"), "{out:?}");
    }
}

#[test]
fn kubectl_completes_nodes_options_and_their_values() {
    let server = ApiServer::start(vec![well("node-1"), stuck("node-2"), well("other")]);
    let nodes = "node-1\tHealthy\nnode-2\tDegraded\n";
    let output = "wide\tA table with more columns\n";
    let context = "--context\tThe context in the kubeconfig\n";
    for (words, expected) in [
        (&["no"][..], format!("{nodes}:4\n")),
        (&["-o", "wide", "no"], format!("{nodes}:4\n")),
        (&["--", "no"], format!("{nodes}:4\n")),
        // A value that looks like an option, and a node after it.
        (&["-l", "-o", "no"], format!("{nodes}:4\n")),
        (&["-o", "w"], format!("{output}:4\n")),
        (&["--watch", "--output", "w"], format!("{output}:4\n")),
        // The shell keeps the text before the value.
        (&["--output=w"], format!("{output}:4\n")),
        (&["--con"], format!("{context}:4\n")),
        (&["node-1", "--con"], format!("{context}:4\n")),
        // The shell offers files.
        (&["--kubeconfig", ""], ":0\n".to_owned()),
        (&["--kubeconfig=/e"], ":0\n".to_owned()),
        // There are no candidates.
        (&["node-1", "no"], ":4\n".to_owned()),
        (&["--", "node-1", "no"], ":4\n".to_owned()),
        (&["--", "-o"], ":4\n".to_owned()),
        (&["--token", ""], ":4\n".to_owned()),
        (&["--watch=x"], ":4\n".to_owned()),
        (&["--nonsense=x"], ":4\n".to_owned()),
    ] {
        assert_eq!(server.complete(words), expected, "{words:?}");
    }
    let all = server.complete(&["-"]);
    for part in ["-o\tOutput format", "--output\tOutput format", "--help\t"] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

#[test]
fn a_completion_without_a_server_has_no_candidates_and_prints_no_error() {
    let server = ApiServer::start(vec![well("a"), well("b\tc\nd")]);
    assert_eq!(server.complete(&[""]), "a\tHealthy\n:4\n");
    // The completion uses the server that the earlier words select.
    assert_eq!(server.complete(&["--context", "nowhere", ""]), ":4\n");
    assert_eq!(server.complete(&["--kubeconfig", "/nowhere", ""]), ":4\n");
    assert_eq!(server.complete(&[]), "a\tHealthy\n:4\n");
    server.fail_next("/api/v1/nodes", Wrong::Status(403));
    assert_eq!(server.complete(&[""]), ":4\n");
}
