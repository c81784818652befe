//! Output to a pipe: no escapes, and no error when the reader has gone.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pleg::runtime::Rpc;
use serde_json::{Value, json};

use crate::support::{FakeRuntime, Pleg, assert_keys, assert_time, eventually};

#[test]
fn a_pipe_and_no_color_get_no_escapes() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    let path = runtime.path();
    for args in [
        &["pods", "-r", &path][..],
        &["status", "-r", &path, "--agent", "off"],
        &[
            "watch", "-v", "-r", &path, "--agent", "off", "--for", "500ms",
        ],
    ] {
        for no_color in [false, true] {
            let pleg = Pleg::new(args);
            let pleg = if no_color {
                pleg.env("NO_COLOR", "1")
            } else {
                pleg
            };
            let ended = pleg.run().assert_code(0);
            assert!(!ended.out.contains('\u{1b}'), "{args:?}: {}", ended.out);
            assert!(!ended.err.contains('\u{1b}'), "{args:?}: {}", ended.err);
            assert!(!ended.out.is_empty(), "{args:?}");
        }
    }
}

#[test]
fn a_watch_whose_reader_has_gone_ends_without_an_error() {
    // Even on a quiet node, before the next event.
    for pods in [&[("a", &["x"] as &[&str]), ("b", &["x"])][..], &[]] {
        let runtime = FakeRuntime::with_pods(pods);
        for format in ["text", "json"] {
            let mut watch = Command::new(env!("CARGO_BIN_EXE_pleg"))
                .args([
                    "watch",
                    "-r",
                    &runtime.path(),
                    "--agent",
                    "off",
                    "-o",
                    format,
                ])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = BufReader::new(watch.stdout.take().unwrap());
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            assert!(!line.is_empty());
            // After this record, the watch writes nothing.
            eventually("it has relisted again", || {
                (runtime.sim.calls_made(Rpc::ListContainers) > 1).then_some(())
            });
            drop(out);
            eventually("the watch ends", || watch.try_wait().unwrap());
            let ended = watch.wait_with_output().unwrap();
            assert_eq!(ended.status.code(), Some(0), "{ended:?}");
            assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
        }
    }
}

#[test]
fn a_slow_reader_gets_a_gap_and_the_current_state() {
    let runtime = FakeRuntime::with_pods(&[]);
    for number in 0..1500 {
        runtime.sim.run(&format!("web-{number}"), &["app"]);
    }
    let mut watch = Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["watch", "-r", &runtime.path(), "--agent", "off"])
        .args(["-o", "json", "--relist-period", "100ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The output is not read, and every pod is inspected, twice if a container died.
    eventually("every pod was inspected", || {
        (runtime.sim.calls_made(Rpc::ContainerStatus) >= 1500).then_some(())
    });
    runtime.sim.exit("web-7", "app", 7);
    eventually("the death was seen", || {
        (runtime.sim.calls_made(Rpc::ContainerStatus) > 1500).then_some(())
    });

    let out = BufReader::new(watch.stdout.take().unwrap());
    let (mut reported, mut gaps, mut synced) = (BTreeMap::new(), 0, 0);
    for line in out.lines().map(Result::unwrap) {
        let record: Value = serde_json::from_str(&line).unwrap();
        match record["kind"].as_str().unwrap() {
            "gap" => {
                // A gap of more than 256 pods does not list them: all pods are to be read again.
                assert_keys(&record, &["kind", "time", "conflated", "pods", "all"]);
                assert_time(&record["time"]);
                assert_eq!(
                    (&record["all"], &record["pods"]),
                    (&json!(true), &json!([]))
                );
                assert!(record["conflated"].as_u64().unwrap() > 0);
                gaps += 1;
            }
            "synced" => synced += 1,
            "event" if record["subject"] == "container" => {
                reported.insert(record["pod"]["uid"].to_string(), record["type"].clone());
            }
            _ => {}
        }
        let web_7 = reported.get("\"uid-web-7\"");
        if reported.len() == 1500 && web_7.is_some_and(|end| end == "ContainerDied") && synced > 0 {
            break;
        }
    }
    assert!(gaps > 0 && synced == 1, "{gaps} gaps, {synced} synced");
    eventually("the watch ends", || watch.try_wait().unwrap());
}

#[test]
fn the_table_of_pods_is_aligned() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"]), ("a-much-longer-name", &[])]);
    let table = Pleg::new(&["pods", "-r", &runtime.path()]).run().out;
    snapbox::assert_data_eq!(
        table,
        snapbox::str![[r#"
NAMESPACE  POD                 IP        CONTAINER  STATE    ATTEMPT  ID
default    a-much-longer-name  10.0.0.2
default    web-0               10.0.0.1  app        running  0        web-0/app.0

"#]]
    );
}
