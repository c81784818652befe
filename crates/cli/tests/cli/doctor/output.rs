//! The output of a diagnosis: text, JSON, the line for node-problem-detector, a bundle.

use pleg::runtime::Rpc;
use serde_json::Value;
use sim::Fault;

use super::{assert_narrow, causes, doctor, three_pods};
use crate::support::{Ended, FakeRuntime, Pleg, assert_keys};

#[test]
fn a_healthy_node_is_one_line_and_exit_code_0() {
    let runtime = three_pods();
    let ended = doctor(&runtime, &[]).assert_code(0);
    let first = ended.out.lines().next().unwrap();
    assert!(
        first.starts_with("Healthy: no kubelet on this machine; pleg-sim "),
        "{first}"
    );
    assert_narrow(&ended.out);
    let expected = if rustix::process::geteuid().is_root() {
        1
    } else {
        4
    };
    assert_eq!(ended.out.lines().count(), expected, "{}", ended.out);
    // One status call for each id: four containers, three sandboxes.
    assert_eq!(runtime.sim.calls_made(Rpc::ContainerStatus), 4);
    assert_eq!(runtime.sim.calls_made(Rpc::PodSandboxStatus), 3);
    // Each list once a second, as by a kubelet, until the machine has been read.
    for list in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert!((2..=6).contains(&runtime.sim.calls_made(list)), "{list}");
    }
    assert_eq!(runtime.sim.calls_made(Rpc::Version), 1);
}

#[test]
fn the_json_is_as_promised() {
    let runtime = three_pods();
    let hung = Some("b/x.0");
    runtime.sim.fault(Rpc::ContainerStatus, hung, Fault::Hang);
    let mut report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    // Whether this key exists depends on the systemd of this machine.
    report
        .as_object_mut()
        .unwrap()
        .remove("systemdCookieLeftSeconds");
    assert_keys(
        &report,
        &[
            "verdict",
            "summary",
            "findings",
            "probes",
            "notChecked",
            "notPermitted",
            "unasked",
            "undecided",
            "isInterrupted",
        ],
    );
    assert_eq!(report["verdict"], "problem");
    assert_eq!(causes(&report), ["container-lock"]);
    let finding = &report["findings"][0];
    for key in [
        "title",
        "confidence",
        "evidence",
        "advice",
        "fixedIn",
        "references",
    ] {
        assert!(!finding[key].is_null(), "{key} in {finding}");
    }
    let culprit = &finding["culprit"];
    assert_eq!(culprit["pod"]["name"], "b");
    assert_eq!(culprit["pod"]["namespace"], "default");
    assert_eq!(culprit["container"], "x");
    assert_eq!(culprit["id"], "b/x.0");
    let probes = report["probes"].as_array().unwrap();
    let hung: Vec<_> = probes
        .iter()
        .filter(|probe| probe["outcome"] == "hung")
        .collect();
    assert_eq!(hung.len(), 1, "{probes:#?}");
    assert_eq!(hung[0]["call"], "ContainerStatus");
    assert_eq!(hung[0]["id"], "b/x.0");
    assert!(hung[0]["seconds"].as_f64().unwrap() >= 3.5);
    assert!(hung[0]["message"].is_null());
    assert_eq!(
        (&report["unasked"], &report["undecided"]),
        (&Value::from(0), &Value::from(0))
    );
    assert_eq!(report["isInterrupted"], false);
    let not_checked = report["notChecked"].as_array().unwrap();
    assert!(
        not_checked
            .iter()
            .all(|not| not["why"].is_string() && not["cause"].is_string())
    );
}

#[test]
fn a_bundle_gives_the_same_findings_on_another_machine() {
    let runtime = three_pods();
    let hung = Some("b/x.0");
    runtime.sim.fault(Rpc::ContainerStatus, hung, Fault::Hang);
    let folder = tempfile::tempdir().unwrap();
    for name in ["node.json", "node.json.gz"] {
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        let here = doctor(&runtime, &["-o", "json", "--bundle", path]);
        let there = Pleg::new(&["doctor", "-o", "json", "--from", path]).run();
        assert_eq!(there.assert_code(1).value(), here.assert_code(1).value());
    }
}

#[test]
fn a_bundle_that_cannot_be_written_is_an_error_before_any_call() {
    let runtime = three_pods();
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/stdout", &link).unwrap();
    let said = |path: &str| {
        let said = doctor(&runtime, &["--bundle", path]).sentence();
        assert!(said.contains("cannot write the bundle "), "{said}");
        said
    };
    assert!(said(folder.path().to_str().unwrap()).contains("it is a directory"));
    assert!(said(link.to_str().unwrap()).contains("it is a symbolic link"));
    assert!(said("/dev/null").contains("it is a device or a socket"));
    assert!(said("-").contains("it is not a file name"));
    assert_eq!(runtime.sim.calls_made(Rpc::Version), 0);
}

#[test]
fn a_full_disk_for_the_bundle_does_not_prevent_the_diagnosis() {
    let runtime = three_pods();
    let ended = doctor(&runtime, &["--bundle", "/proc/1/x"]).assert_code(2);
    assert_eq!(runtime.sim.calls_made(Rpc::Version), 1);
    assert!(ended.out.starts_with("Healthy: "), "{}", ended.out);
    assert!(
        ended
            .err
            .contains("cannot write the bundle /proc/1/x: no file can be created there"),
        "{}",
        ended.err
    );
}

#[test]
fn a_file_that_is_no_bundle_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let from = |path: &str| Pleg::new(&["doctor", "--from", path]).run().sentence();
    let said = from(path.to_str().unwrap());
    assert!(said.ends_with("no such file or directory"), "{said}");
    std::fs::write(
        &path,
        "{\"kind\":\"pleg-bundle\",\"version\":1,\"facts\":{}}",
    )
    .unwrap();
    let said = from(path.to_str().unwrap());
    assert!(said.contains("it is damaged"), "{said}");
    std::fs::write(&path, "hello").unwrap();
    let said = from(path.to_str().unwrap());
    assert!(
        said.ends_with("it is not a bundle of `pleg doctor`"),
        "{said}"
    );
}

#[test]
fn node_problem_detector_gets_one_short_line_and_its_exit_codes() {
    let runtime = three_pods();
    let line = |ended: &Ended| {
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
        assert!(ended.out.trim_end().len() < 80, "{}", ended.out);
        ended.out.clone()
    };
    let well = doctor(&runtime, &["--npd"]).assert_code(0);
    assert!(line(&well).starts_with("ok: "));
    let hung = Some("b/x.0");
    runtime.sim.fault(Rpc::ContainerStatus, hung, Fault::Hang);
    let bad = doctor(&runtime, &["--npd"]).assert_code(1);
    assert_eq!(line(&bad), "container-lock: default/b x\n");
    let other = doctor(&runtime, &["--npd", "--check", "list-exceeds-grpc-limit"]);
    assert!(line(&other.assert_code(0)).starts_with("ok: "));
    let unknown = doctor(&runtime, &["--npd", "--check", "kubelet-internal"]);
    assert!(line(&unknown.assert_code(2)).starts_with("unknown: "));
}

#[test]
fn names_of_a_hostile_runtime_cannot_disturb_the_report() {
    let evil = format!("evil\u{1b}[2J\r\n{}", "n".repeat(100_000));
    let runtime = FakeRuntime::with_pods(&[(&evil, &["\u{202e}x\u{7}"]), ("calm", &["app"])]);
    let hung = format!("{evil}/\u{202e}x\u{7}.0");
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some(&hung), Fault::Hang);
    let ended = doctor(&runtime, &[]).assert_code(1);
    assert_narrow(&ended.out);
    assert!(ended.out.contains("evil\\u{1b}[2J\\r\\n"), "{}", ended.out);
    assert!(ended.out.len() < 10_000, "{}", ended.out.len());
    let line = doctor(&runtime, &["--npd"]).assert_code(1).out;
    assert!(
        line.trim_end().len() < 80 && !line.contains('\u{1b}'),
        "{line}"
    );
}

#[test]
fn a_cause_is_explained_and_a_similar_id_is_suggested() {
    let page = Pleg::new(&["explain", "container-status-lock"])
        .run()
        .assert_code(0)
        .out;
    assert!(page.starts_with("# container-status-lock\n"), "{page}");
    let list = Pleg::new(&["explain"]).run().assert_code(0).out;
    for id in ["disk-full", "systemd-cookie-overflow", "repair-loop"] {
        assert!(list.contains(id), "{list}");
    }
    for area in ["\nruntime\n  ", "\nstorage\n  ", "\nnode\n  "] {
        assert!(list.contains(area), "{list}");
    }
    assert_narrow(&list);
    let slip = Pleg::new(&["explain", "container-lok"])
        .run()
        .assert_code(2);
    assert!(
        slip.err
            .contains("a similar value exists: 'container-lock'"),
        "{}",
        slip.err
    );
}
