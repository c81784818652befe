//! Malformed rows of lists do not affect other rows.

use std::collections::HashMap;

use cri::v1;
use serde_json::{Value, json};

use crate::support::{Pleg, RawAnswer, RawRuntime, container, rows_of, sandbox, without_colours};

fn pods(runtime: &RawRuntime) -> Value {
    let ended = Pleg::new(&["pods", "-r", &runtime.path(), "-o", "json"]).run();
    ended.assert_code(0).value()
}

#[test]
fn a_sandbox_without_metadata_is_skipped() {
    let nameless = v1::PodSandbox {
        id: "s1".to_owned(),
        ..Default::default()
    };
    let runtime = rows_of(
        vec![nameless, sandbox("s2", "web-0")],
        vec![container("c1", "s1", "lost"), container("c2", "s2", "app")],
    );
    let pods = pods(&runtime);
    assert_eq!(pods.as_array().unwrap().len(), 1, "{pods}");
    assert_eq!(pods[0]["containers"][0]["name"], "app");

    let ended = Pleg::new(&["pods", "-r", &runtime.path()]).run();
    assert!(
        ended
            .err
            .contains("2 listed sandboxes or containers belong to no pod")
    );
}

#[test]
fn a_container_without_its_sandbox_makes_the_pod_that_its_labels_name() {
    let mut orphan = container("c1", "gone", "app");
    orphan.labels = HashMap::from(
        [
            ("io.kubernetes.pod.uid", "u1"),
            ("io.kubernetes.pod.name", "web-0"),
            ("io.kubernetes.pod.namespace", "shop"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let pods = pods(&rows_of(vec![], vec![orphan]));
    assert_eq!(
        (&pods[0]["uid"], &pods[0]["namespace"], &pods[0]["name"]),
        (&json!("u1"), &json!("shop"), &json!("web-0"))
    );
    assert_eq!(pods[0]["sandboxes"], json!([]));
    assert_eq!(pods[0]["containers"][0]["id"], "c1");
}

#[test]
fn a_state_that_cri_does_not_define_is_unknown() {
    let mut odd_sandbox = sandbox("s1", "web-0");
    odd_sandbox.state = 77;
    let mut odd_container = container("c1", "s1", "app");
    odd_container.state = -3;
    let runtime = rows_of(vec![odd_sandbox], vec![odd_container]);
    let pods = pods(&runtime);
    assert_eq!(pods[0]["sandboxes"][0]["state"], "unknown");
    assert_eq!(pods[0]["containers"][0]["state"], "unknown");

    let args = [
        "status",
        "-r",
        &runtime.path(),
        "--agent",
        "off",
        "-o",
        "json",
    ];
    let status = Pleg::new(&args).run().assert_code(0).value();
    assert_eq!(status["containers"]["unknown"], 1);
}

#[test]
fn an_empty_id_is_skipped_and_a_long_one_is_complete() {
    let long = "x".repeat(10_000);
    let runtime = rows_of(
        vec![sandbox("", "web-0"), sandbox("s1", "web-1")],
        vec![container("", "s1", "app"), container(&long, "s1", "long")],
    );
    let found = pods(&runtime);
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found[0]["name"], "web-1");
    assert_eq!(found[0]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(found[0]["containers"][0]["id"], long.as_str());

    let text = Pleg::new(&["pods", "-r", &runtime.path()]).run().out;
    assert!(text.contains("xxxxxxxxxxxxx\n"), "{text}");
    assert!(!text.contains("xxxxxxxxxxxxxx"), "{text}");
}

#[test]
fn names_cannot_write_on_the_terminal_and_are_exact_in_json() {
    let evil = "a\u{1b}[2J\u{7}\r\n\u{202e}b\u{9b}31m";
    let long = "n".repeat(10_000);
    let runtime = rows_of(
        vec![sandbox("s\u{1b}[1m", evil), sandbox("s2", &long)],
        vec![container("c\u{1b}]0;x\u{7}", "s\u{1b}[1m", evil)],
    );
    let found = pods(&runtime);
    assert_eq!(found[0]["name"], evil);
    assert_eq!(found[0]["sandboxes"][0]["id"], "s\u{1b}[1m");
    assert_eq!(found[0]["containers"][0]["id"], "c\u{1b}]0;x\u{7}");
    assert_eq!(found[1]["name"], long.as_str());

    let path = runtime.path();
    for args in [
        &["pods", "-r", &path][..],
        &["status", "-r", &path, "--agent", "off"],
        &["watch", "-r", &path, "--agent", "off", "--for", "700ms"],
    ] {
        // With colours, so that only the escaping under test removes other escape sequences.
        let ended = Pleg::new(args).env("CLICOLOR_FORCE", "1").run();
        let ended = ended.assert_code(0);
        for text in [&ended.out, &ended.err] {
            let rest = without_colours(text);
            let odd = rest.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(odd, None, "{args:?}: {rest:?}");
            assert!(!rest.contains('\u{202e}'), "{args:?}: {rest:?}");
            assert!(rest.lines().all(|line| line.len() < 1500), "{args:?}");
        }
    }
}

#[test]
fn errors_of_a_runtime_cannot_write_on_the_terminal() {
    let runtime = RawRuntime::new(|method, _| match method {
        "Version" => v1::VersionResponse::default().into(),
        // As gRPC encodes "\x1b[2Jno\r\nlists\x07".
        _ => RawAnswer::Refusal(13, "%1B[2Jno%0D%0Alists%07"),
    });
    let args = ["status", "-r", &runtime.path(), "--agent", "off"];
    let ended = Pleg::new(&args).env("CLICOLOR_FORCE", "1").run();
    let said = ended.sentence();
    assert!(said.contains("\\u{1b}[2Jno\\r\\nlists\\u{7}"), "{said:?}");
}
