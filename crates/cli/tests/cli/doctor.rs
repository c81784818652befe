//! `pleg doctor` on a simulated node: what it says of one that is well and of one that is
//! not, in which words, with which exit code, and in which time.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use cri::ApiVersion;
use pleg::runtime::{CALLS, CallError, Rpc};
use serde_json::Value;
use sim::Fault;
use sim::grpc::serve_as;
use times::GoDuration;
use tokio::io::AsyncReadExt;

use crate::support::{Agent, Ended, FakeRuntime, Pleg, assert_keys, serve_on};

/// Without an agent, and without a kubelet of this machine's.
const ALONE: [&str; 4] = ["--agent", "off", "--kubelet-healthz", "127.0.0.1:1"];

/// Whatever hangs.
const IN_TIME: Duration = Duration::from_secs(15);

fn doctor(runtime: &FakeRuntime, more: &[&str]) -> Ended {
    let path = runtime.path();
    let begun = Instant::now();
    let ended = Pleg::new(&[&["doctor", "-r", &path], &ALONE[..], more].concat()).run();
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    ended
}

fn three_pods() -> FakeRuntime {
    FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x", "y"]), ("c", &["x"])])
}

fn causes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|found| found["cause"].as_str().unwrap())
        .collect()
}

#[track_caller]
fn assert_narrow(page: &str) {
    for line in page.lines() {
        assert!(line.chars().count() <= 80, "{line:?} in {page}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn a_healthy_node_gets_one_calm_line_and_exit_code_0() {
    let runtime = three_pods();
    let ended = doctor(&runtime, &[]).assert_code(0);
    let first = ended.out.lines().next().unwrap();
    assert!(first.starts_with("Healthy: pleg-sim "), "{first}");
    assert_narrow(&ended.out);
    let expected = if rustix::process::geteuid().is_root() {
        1
    } else {
        4
    };
    assert_eq!(ended.out.lines().count(), expected, "{}", ended.out);
    // Each id was asked for once: four containers, three sandboxes.
    assert_eq!(runtime.sim.calls_made(Rpc::ContainerStatus), 4);
    assert_eq!(runtime.sim.calls_made(Rpc::PodSandboxStatus), 3);
    for list in [Rpc::Version, Rpc::ListContainers, Rpc::ListPodSandbox] {
        assert_eq!(runtime.sim.calls_made(list), 1, "{list}");
    }
}

#[test]
fn the_json_is_as_promised() {
    let runtime = three_pods();
    let hung = Some("b/x.0");
    runtime.sim.fault(Rpc::ContainerStatus, hung, Fault::Hang);
    let mut report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    // It is there or not, by the systemd of this machine.
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
    assert!(hung[0]["seconds"].as_f64().unwrap() >= 1.9);
    assert!(hung[0]["message"].is_null());
    let not_checked = report["notChecked"].as_array().unwrap();
    assert!(
        not_checked
            .iter()
            .all(|not| not["why"].is_string() && not["cause"].is_string())
    );
}

#[test]
fn under_the_status_lock_the_culprit_is_named_by_what_an_agent_knows() {
    let runtime = three_pods();
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    runtime.sim.status_lock("b", "y");
    agent.wait("/v1/status", |answer| {
        answer.json()["stuck"].as_array().unwrap().len() >= 2
    });
    let lists = runtime.sim.calls_made(Rpc::ListContainers);
    let statuses = runtime.sim.most_outstanding();
    let args = [
        "doctor",
        "-r",
        &runtime.path(),
        "--agent",
        &agent.socket,
        "-o",
        "json",
    ];
    let report = Pleg::new(&args).run().assert_code(1).value();
    assert_eq!(causes(&report), ["container-status-lock"]);
    let summary = report["summary"].as_str().unwrap();
    assert!(
        summary.contains("container y of pod default/b"),
        "{summary}"
    );
    // Nobody was asked twice for what the agent waits for.
    assert_eq!(runtime.sim.calls_made(Rpc::ListContainers), lists);
    assert!(runtime.sim.most_outstanding() <= statuses + 8);
}

fn by_nobody(runtime: &FakeRuntime, agent: &str, more: &[&str]) -> Option<Ended> {
    let path = runtime.path();
    let args = ["doctor", "-r", &path, "--agent", agent];
    let args = [&args[..], &ALONE[2..], more].concat();
    Some(Pleg::new(&args).by_nobody()?.run())
}

#[test]
fn where_only_root_may_ask_the_agents_word_stands_for_the_runtimes() {
    let runtime = three_pods().for_root_alone();
    let Some(alone) = by_nobody(&runtime, "off", &[]) else {
        return;
    };
    let alone = alone.assert_code(2);
    let first = alone.out.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(first.contains("only root can open"), "{first}");

    // Only root and the group that is wanted get an answer.
    let closed = Agent::watching(&runtime.endpoint());
    let refused = by_nobody(&runtime, &closed.socket, &[]).unwrap();
    let said = refused.sentence();
    assert!(said.ends_with("permission denied"), "{said}");
    let agent = Agent::configured(&runtime.endpoint(), "socketGroup: 65534\n");
    agent.wait_healthy();
    let well = by_nobody(&runtime, &agent.socket, &[]).unwrap();
    let page = well.assert_code(0).out;
    let first = page.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(first.starts_with("Healthy: pleg-sim "), "{page}");
    assert!(
        first.ends_with("answers the agent on this node: all pods are up to date"),
        "{page}"
    );
    assert!(page.contains("Not checked"), "{page}");
    assert!(page.contains("is reported by the agent"), "{page}");
    assert_narrow(&page);

    runtime.sim.status_lock("b", "y");
    agent.wait("/v1/status", |answer| {
        answer.json()["stuck"].as_array().unwrap().len() >= 2
    });
    let bundle = tempfile::Builder::new().prefix("bundle").tempdir().unwrap();
    std::fs::set_permissions(bundle.path(), Permissions::from_mode(0o777)).unwrap();
    let path = bundle.path().join("node.json.gz");
    let bundle = ["-o", "json", "--bundle", path.to_str().unwrap()];
    let report = by_nobody(&runtime, &agent.socket, &bundle).unwrap();
    let report = report.assert_code(1).value();
    assert_eq!(causes(&report), ["container-status-lock"]);
    let finding = &report["findings"][0];
    assert_eq!(finding["culprit"]["pod"]["name"], "b");
    assert_eq!(finding["culprit"]["container"], "y");
    let evidence = finding["evidence"].to_string();
    for said in [
        "ListContainers has not answered for",
        "ListPodSandbox is answered (reported by the agent",
    ] {
        assert!(evidence.contains(said), "{evidence}");
    }
    let there = Pleg::new(&["doctor", "-o", "json", "--from", bundle[3]]).run();
    assert_eq!(there.assert_code(1).value(), report);
}

#[test]
fn under_the_status_lock_the_ids_that_were_saved_lead_to_the_culprit() {
    let runtime = three_pods();
    let folder = tempfile::tempdir().unwrap();
    let name = runtime.path().trim_start_matches('/').replace('/', "-");
    let ids = ["a", "b", "c", "a/x.0", "b/x.0", "b/y.0", "c/x.0", "gone"];
    let saved = serde_json::json!({"endpoint": runtime.endpoint(), "ids": ids});
    std::fs::write(
        folder.path().join(format!("{name}.json")),
        saved.to_string(),
    )
    .unwrap();
    runtime.sim.status_lock("b", "y");
    let path = runtime.path();
    let args = [&["doctor", "-r", &path, "-o", "json"], &ALONE[..]].concat();
    let state = folder.path().to_str().unwrap();
    let ended = Pleg::new(&args).env("PLEG_STATE_DIR", state).run();
    let report = ended.assert_code(1).value();
    assert_eq!(causes(&report), ["container-status-lock"], "{report:#}");
    assert_eq!(report["findings"][0]["culprit"]["id"], "b/y.0");
    assert_eq!(runtime.sim.calls_made(Rpc::ListContainers), 1);
    let probes = report["probes"].as_array().unwrap();
    assert!(
        probes.iter().all(|probe| probe["id"] != "gone"),
        "{probes:#?}"
    );
}

#[test]
fn it_ends_in_time_when_everything_hangs_and_leaves_no_pile_of_calls() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    for pod in 0..40 {
        runtime.sim.run(&format!("pod-{pod}"), &["x", "y"]);
    }
    for call in CALLS {
        runtime.sim.fault(call, None, Fault::Hang);
    }
    runtime.sim.fault(sim::Rpc::Status, None, Fault::Hang);
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report)[0], "runtime-unresponsive");
    for call in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        runtime.sim.lift(call, None);
    }
    // Both lists answer, and each id hangs: eight are asked, and no more.
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report)[0], "runtime-unresponsive");
    assert!(
        runtime.sim.most_outstanding() <= 8,
        "{}",
        runtime.sim.most_outstanding()
    );
}

/// All calls hang from now on.
fn hang_all(runtime: &sim::Sim) {
    for call in pleg::runtime::CALLS {
        runtime.fault(call, None, Fault::Hang);
    }
    runtime.fault(sim::Rpc::Status, None, Fault::Hang);
}

/// The runtime is what does not answer, and nothing in it is blamed.
#[track_caller]
fn assert_only_the_runtime_is_named(report: &Value) {
    assert_eq!(causes(report), ["runtime-unresponsive"], "{report:#}");
    let said = report["findings"].to_string() + &report["summary"].to_string();
    assert!(!said.contains("pod-"), "{report:#}");
}

#[test]
fn where_a_runtime_stops_in_the_middle_no_container_is_named_for_it() {
    // After so many calls of that kind.
    for (call, count) in [
        (Rpc::Version, 1),
        (Rpc::PodSandboxStatus, 5),
        (Rpc::ContainerStatus, 2),
        (Rpc::ContainerStatus, 40),
    ] {
        let runtime = FakeRuntime::with_pods(&[]);
        for pod in 0..60 {
            runtime.sim.run(&format!("pod-{pod}"), &["x"]);
        }
        for slow in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
            let slowly = Fault::Slow(Duration::from_millis(20));
            runtime.sim.fault(slow, None, slowly);
        }
        let sim = runtime.sim.clone();
        let stops = std::thread::spawn(move || {
            while sim.calls_made(call) < count {
                std::thread::sleep(Duration::from_millis(1));
            }
            hang_all(&sim);
        });
        let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
        stops.join().unwrap();
        assert_only_the_runtime_is_named(&report);
    }
}

#[test]
fn where_everything_hangs_no_container_is_named_whose_id_was_saved() {
    let runtime = FakeRuntime::with_pods(&[("pod-a", &["x"]), ("pod-b", &["x"])]);
    let folder = tempfile::tempdir().unwrap();
    let name = runtime.path().trim_start_matches('/').replace('/', "-");
    let ids = ["pod-a", "pod-b", "pod-a/x.0", "pod-b/x.0"];
    let saved = serde_json::json!({"endpoint": runtime.endpoint(), "ids": ids});
    let file = folder.path().join(format!("{name}.json"));
    std::fs::write(file, saved.to_string()).unwrap();
    hang_all(&runtime.sim);
    let path = runtime.path();
    let args = [&["doctor", "-r", &path, "-o", "json"], &ALONE[..]].concat();
    let state = folder.path().to_str().unwrap();
    let ended = Pleg::new(&args).env("PLEG_STATE_DIR", state).run();
    assert_only_the_runtime_is_named(&ended.assert_code(1).value());
}

#[test]
fn a_runtime_that_fails_every_status_is_not_called_healthy() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..60 {
        runtime.sim.run(&format!("pod-{pod}"), &["x"]);
    }
    for why in [
        CallError::Refused("Unknown: no".into()),
        CallError::connection_refused(),
    ] {
        let fails = Fault::Fail(why);
        runtime.sim.fault(Rpc::ContainerStatus, None, fails);
        let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
        assert_eq!(causes(&report), ["runtime-unresponsive"]);
        let finding = &report["findings"][0];
        assert_eq!(finding["verdict"], "suspect");
        let evidence = finding["evidence"].to_string();
        let said = "60 of 60 ContainerStatus calls failed: the runtime ";
        assert!(evidence.contains(said), "{evidence}");
        let line = doctor(&runtime, &["--npd"]).assert_code(1).out;
        assert!(line.starts_with("runtime-unresponsive: "), "{line}");
    }
}

#[test]
fn a_runtime_that_has_gone_is_told_from_one_that_never_was() {
    let mut runtime = three_pods();
    runtime.go_away();
    let ended = doctor(&runtime, &[]).assert_code(1);
    assert!(ended.out.contains("is gone"), "{}", ended.out);
    std::fs::remove_file(runtime.socket()).unwrap();
    let ended = doctor(&runtime, &[]).assert_code(1);
    assert!(
        ended.out.contains("no container runtime listens"),
        "{}",
        ended.out
    );
    assert_narrow(&ended.out);
}

/// A process that ends with a call unanswered, which is also what a restart looks like.
async fn break_the_first_call(listener: &tokio::net::UnixListener) {
    // Who only connects, to learn who listens, sends nothing.
    while listener.accept().await.unwrap().0.read_u8().await.is_err() {}
}

#[test]
fn a_runtime_that_ends_during_the_first_call_is_gone() {
    let runtime = FakeRuntime::nowhere();
    let _server = serve_on(&runtime.socket(), async |listener| {
        break_the_first_call(&listener).await;
    });
    let ended = doctor(&runtime, &[]).assert_code(1);
    assert!(ended.out.contains("is gone"), "{}", ended.out);
}

#[test]
fn a_runtime_that_restarts_during_the_first_call_is_well() {
    let runtime = FakeRuntime::nowhere();
    let sim = runtime.sim.clone();
    sim.run("a", &["x"]);
    let _server = serve_on(&runtime.socket(), async move |listener| {
        break_the_first_call(&listener).await;
        serve_as(sim, listener, ApiVersion::V1).await.unwrap();
    });
    let ended = doctor(&runtime, &[]).assert_code(0);
    assert!(ended.out.starts_with("Healthy: "), "{}", ended.out);
}

#[test]
fn a_runtime_that_accepts_nobody_is_told_by_its_full_queue() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.sock");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let _waits_to_be_accepted = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let path = path.to_str().unwrap();
    let args = [&["doctor", "-r", path, "-o", "json"], &ALONE[..]].concat();
    let report = Pleg::new(&args).run().assert_code(1).value();
    assert_eq!(causes(&report), ["runtime-unresponsive"]);
    let summary = report["summary"].as_str().unwrap();
    assert!(summary.contains("accept queue is full"), "{summary}");
}

#[test]
fn a_kubelet_whose_loop_stands_beside_a_quick_runtime_is_at_fault_itself() {
    let runtime = three_pods();
    let kubelet = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = kubelet.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in kubelet.incoming() {
            let answer = "HTTP/1.0 500 Internal Server Error\r\n\r\n[+]ping ok\n\
                          [-]syncloop failed: reason withheld\nhealthz check failed\n";
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let path = runtime.path();
    let args = [
        "doctor",
        "-r",
        &path,
        "--agent",
        "off",
        "--kubelet-healthz",
        &address,
    ];
    let report = Pleg::new(&[&args[..], &["-o", "json"]].concat()).run();
    let report = report.assert_code(1).value();
    assert_eq!(causes(&report), ["kubelet-internal"]);
}

#[test]
fn a_node_with_more_than_a_kubelet_can_inspect_is_told_what_it_carries() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..250 {
        runtime.sim.run(&format!("pod-{pod}"), &["x", "y"]);
    }
    let slow = Fault::Slow(Duration::from_millis(300));
    for call in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
        runtime.sim.fault(call, None, slow.clone());
    }
    // Three calls of 0.3 s for each of 250 pods: 225 s.
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report), ["too-many-containers"]);
    let summary = report["summary"].as_str().unwrap();
    assert!(summary.contains("all 250 pods"), "{summary}");
    let evidence = report["findings"][0]["evidence"].to_string();
    assert!(evidence.contains("p90 3"), "{evidence}");
}

#[test]
fn what_is_slow_now_and_then_counts_as_a_kubelet_would_feel_it() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..700 {
        let name = format!("pod-{pod:03}");
        runtime.sim.run(&name, &["x"]);
        if pod % 3 == 0 {
            let slow = Fault::Slow(Duration::from_millis(400));
            let id = format!("{name}/x.0");
            runtime.sim.fault(Rpc::ContainerStatus, Some(&id), slow);
        }
    }
    // On average 0.13 s for each of 700 containers: 93 s. Most of the calls take no time.
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report), ["too-many-containers"]);
    let evidence = report["findings"][0]["evidence"].to_string();
    let (_, each) = evidence.split_once("ContainerStatus ").unwrap();
    let each: GoDuration = each.split(' ').next().unwrap().parse().unwrap();
    assert!(each.0 > Duration::from_millis(50), "{evidence}");
}

#[test]
fn where_every_call_is_slow_one_that_is_slower_does_not_hang() {
    let runtime = three_pods();
    let slow = |seconds| Fault::Slow(Duration::from_secs(seconds));
    runtime.sim.fault(Rpc::PodSandboxStatus, None, slow(1));
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("b/x.0"), slow(3));
    let report = doctor(&runtime, &["-o", "json"]).value();
    let probes = report["probes"].as_array().unwrap().iter();
    let hung = probes.filter(|probe| probe["outcome"] == "hung");
    assert_eq!(hung.count(), 0, "{report:#}");
    assert_eq!(causes(&report), Vec::<&str>::new(), "{report:#}");
}

#[test]
fn one_that_is_only_slow_does_not_hang_and_nobody_is_accused() {
    for (call, id) in [
        (Rpc::ContainerStatus, Some("b/x.0")),
        (Rpc::PodSandboxStatus, Some("b.0")),
        (Rpc::ListContainers, None),
    ] {
        let runtime = three_pods();
        let slow = Fault::Slow(Duration::from_secs(3));
        runtime.sim.fault(call, id, slow);
        let report = doctor(&runtime, &["-o", "json"]).value();
        let probes = report["probes"].as_array().unwrap().iter();
        let hung = probes.filter(|probe| probe["outcome"] == "hung");
        assert_eq!(hung.count(), 0, "{report:#}");
        assert_eq!(causes(&report), Vec::<&str>::new(), "{report:#}");
        let summary = report["summary"].as_str().unwrap();
        assert!(!summary.contains("responds normally"), "{summary}");
    }
}

#[test]
fn where_even_the_first_call_is_slow_a_list_gets_its_time() {
    let runtime = three_pods();
    let slow = |seconds| Fault::Slow(Duration::from_secs(seconds));
    runtime.sim.fault(Rpc::Version, None, slow(1));
    runtime.sim.fault(Rpc::ListContainers, None, slow(3));
    let report = doctor(&runtime, &["-o", "json"]).value();
    let mut probes = report["probes"].as_array().unwrap().iter();
    let list = probes.find(|probe| probe["call"] == "ListContainers");
    assert_eq!(list.unwrap()["outcome"], "ok", "{report:#}");
}

#[test]
fn a_list_that_is_refused_for_its_size_is_that_cause() {
    let runtime = three_pods();
    let refused = CallError::TooLarge("received 17302190 vs. 16777216".into());
    let fault = Fault::Fail(refused);
    runtime.sim.fault(Rpc::ListContainers, None, fault);
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report), ["list-exceeds-grpc-limit"]);
}

#[test]
fn a_bundle_gives_the_same_findings_elsewhere() {
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
fn where_no_bundle_can_be_written_is_said_before_anybody_is_asked() {
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
fn a_disk_that_takes_no_bundle_does_not_keep_the_diagnosis_back() {
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
fn what_is_no_bundle_is_said_in_one_sentence() {
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
fn a_cause_is_explained_and_a_slip_of_the_pen_corrected() {
    let page = Pleg::new(&["explain", "container-status-lock"])
        .run()
        .assert_code(0)
        .out;
    assert!(page.starts_with("# container-status-lock\n"), "{page}");
    let list = Pleg::new(&["explain"]).run().assert_code(0).out;
    for id in ["disk-full", "systemd-cookie-overflow", "repair-loop"] {
        assert!(list.contains(id), "{list}");
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
