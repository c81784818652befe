//! The options, and errors at the start.

use std::io::Write;
use std::net::TcpListener;

use super::node::{CHANGES, Node, Run, names, pod};
use crate::support::Pleg;

#[test]
fn files_on_the_host_are_in_the_directories_of_the_options() {
    let node = Node::with("web.yaml", &pod("web", "  volumes: [{name: data}]\n"));
    let mut run = node.run();
    let uid = run.pod("Ready")["pod"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    assert!(
        node.path("root/pods")
            .join(uid)
            .join("volumes/data")
            .is_dir()
    );
    let logs = format!("default_web_{uid}");
    assert_eq!(names(&node.path("logs/pods")), [logs]);
}

#[test]
fn the_runtime_gets_absolute_paths() {
    let node = Node::with("web.yaml", &pod("web", "  volumes: [{name: data}]\n"));
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = |name: &str| {
        let path = node.path(name).display().to_string();
        format!("{up}{}", path.trim_start_matches('/'))
    };
    let manifests = node.path("manifests").display().to_string();
    let args = [
        &["run", "--manifests", &manifests, "--beside-kubelet"][..],
        &["-r", &node.runtime.endpoint(), "-o", "json"],
        &["--root-dir", &relative("root")],
        &["--pod-logs-dir", &relative("logs/pods")],
        &["--listen", &node.socket("test"), "--listen", "127.0.0.1:0"],
    ];
    let state = node.path("state").display().to_string();
    let pleg = Pleg::new(&args.concat()).env("PLEG_STATE_DIR", &state);
    let mut run = Run(pleg.start());
    run.pod("Ready");
    let given = {
        let mut world = node.runtime.sim.world();
        let sandbox = world.pod("web").sandbox().unwrap();
        sandbox.given.clone().unwrap()
    };
    let logs = &given.sandbox_config.as_ref().unwrap().log_directory;
    assert!(logs.starts_with('/'), "{logs}");
    assert!(!names(&node.path("root/pods")).is_empty());
    assert_eq!(names(&node.path("logs/pods")).len(), 1);
}

#[test]
fn beside_a_kubelet_a_run_starts_only_with_the_option() {
    let kubelet = match TcpListener::bind("127.0.0.1:10248") {
        Ok(kubelet) => kubelet,
        Err(error) => {
            let why = format!("SKIPPED: no kubelet can be played on port 10248: {error}");
            // Written to the process's standard error, because the harness captures output of passing tests.
            let _ = writeln!(std::io::stderr(), "{why}");
            return;
        }
    };
    let node = Node::with("web.yaml", &pod("web", ""));
    let manifests = node.path("manifests").display().to_string();
    let alone = node.command_of("test", &["--manifests", &manifests]).run();
    assert_eq!(
        alone.sentence(),
        "a kubelet runs on this node (it answers on 127.0.0.1:10248); \
         --beside-kubelet starts anyway"
    );
    assert_eq!(node.changes(), [0; CHANGES.len()]);
    node.run().pod("Ready");
    drop(kubelet);
}

#[test]
fn an_error_at_the_start_is_one_sentence() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let run = |manifests: &str, endpoint: &str| {
        let args = ["--manifests", manifests, "--beside-kubelet", "-r", endpoint];
        let text = |name: &str| node.path(name).display().to_string();
        let (root, socket) = (text("root"), node.socket("test"));
        let places = [
            "--root-dir",
            &root,
            "--listen",
            &socket,
            "--listen",
            "127.0.0.1:0",
        ];
        let pleg = Pleg::new(&[&["run"], &args[..], &places].concat());
        pleg.env("PLEG_STATE_DIR", &text("state")).run().sentence()
    };
    let here = node.path("manifests").display().to_string();
    let endpoint = node.runtime.endpoint();
    let nowhere = node.path("nowhere").display().to_string();
    assert_eq!(
        run(&nowhere, &endpoint),
        format!("cannot read the manifests in {nowhere}: no such file or directory")
    );
    let file = node.manifest("web.yaml").display().to_string();
    assert_eq!(
        run(&file, &endpoint),
        format!("cannot read the manifests in {file}: not a directory")
    );
    let said = run(&here, &format!("unix://{nowhere}"));
    let expected = format!("no container runtime at unix://{nowhere}: ");
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.ends_with("no such file or directory"), "{said}");
    let said = run(&here, "tcp://runtime:1");
    assert!(said.contains("is not a unix socket"), "{said}");
}

#[test]
fn only_one_run_of_an_owner_is_allowed() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    run.pod("Ready");
    let second = node.command(&[]).run().assert_code(2);
    let said = "something already listens on";
    assert!(second.err.contains(said), "{}", second.err);
    let before = node.changes();
    node.look_again();
    assert_eq!(node.changes(), before);
}

#[test]
fn an_owner_is_a_name_and_options_that_contradict_each_other_are_refused() {
    let node = Node::new();
    let manifests = node.path("manifests").display().to_string();
    for args in [
        &["run"][..],
        &["run", "--down", "--manifests", &manifests],
        &["run", "--down", "--once"],
        &["run", "--manifests", &manifests, "--owner", "a/b"],
        &["run", "--manifests", &manifests, "--owner", ""],
        &["run", "--manifests", &manifests, "--owner", "cri"],
        &["run", "--manifests", &manifests, "--owner", "agent"],
        &["run", "--manifests", &manifests, "--policy", "all"],
    ] {
        let ended = Pleg::new(args).run().assert_code(2);
        assert_eq!(ended.out, "", "{args:?}");
    }
}
