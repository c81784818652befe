//! A runtime that fails, is unreachable, or accepts no connection.

use std::thread::{sleep, spawn};
use std::time::Duration;

use cri::ApiVersion;
use pleg::runtime::{CallError, Rpc};
use serde_json::Value;
use sim::Fault;
use sim::grpc::serve_as;
use tokio::io::AsyncReadExt;

use super::{ALONE, assert_narrow, causes, doctor, three_pods};
use crate::support::{FakeRuntime, Pleg, serve_on};

#[test]
fn a_runtime_that_fails_every_status_is_not_healthy() {
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
fn a_stopped_runtime_is_distinguished_from_one_that_never_ran() {
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

/// Returns once a client has sent something, which ends the server: a process that ends during a call,
/// as in a restart.
async fn break_the_first_call(listener: &tokio::net::UnixListener) {
    // A client that only connects, to read the peer's credentials, sends nothing.
    while listener.accept().await.unwrap().0.read_u8().await.is_err() {}
}

#[test]
fn a_runtime_that_ends_during_the_first_call_is_unreachable() {
    let runtime = FakeRuntime::nowhere();
    let _server = serve_on(&runtime.socket(), async |listener| {
        break_the_first_call(&listener).await;
    });
    let ended = doctor(&runtime, &[]).assert_code(1);
    assert!(ended.out.contains("is gone"), "{}", ended.out);
}

#[test]
fn a_runtime_that_restarts_while_its_lists_are_late_is_observed_again() {
    for hangs in [false, true] {
        let runtime = three_pods();
        for list in [Rpc::ListContainers, Rpc::ListPodSandbox] {
            let slow = Fault::Slow(Duration::from_secs(4));
            runtime.sim.fault(list, None, slow);
        }
        if hangs {
            let hang = Fault::Hang;
            runtime.sim.fault(Rpc::ContainerStatus, Some("b/x.0"), hang);
        }
        let sim = runtime.sim.clone();
        let restarts = spawn(move || {
            sleep(Duration::from_millis(2500));
            sim.restart(Duration::from_millis(200));
        });
        let code = if hangs { 1 } else { 0 };
        let report = doctor(&runtime, &["-o", "json"]).assert_code(code).value();
        restarts.join().unwrap();
        assert_eq!(report["unasked"], 0, "{report:#}");
        assert!(runtime.sim.calls_made(Rpc::ContainerStatus) >= 4);
    }
}

/// Waits until a call is made that the doctor sends after its lists.
fn after_the_lists(sim: &sim::Sim) {
    while sim.calls_made(Rpc::PodSandboxStatus) + sim.calls_made(Rpc::ContainerStatus) < 2 {
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_runtime_that_restarts_during_inspections_is_observed_again() {
    for (down, hangs) in [(300, false), (1500, false), (1500, true)] {
        let runtime = three_pods();
        let slow = Fault::Slow(Duration::from_millis(200));
        runtime.sim.fault(Rpc::ContainerStatus, None, slow.clone());
        runtime.sim.fault(Rpc::PodSandboxStatus, None, slow);
        if hangs {
            let hang = Fault::Hang;
            runtime.sim.fault(Rpc::ContainerStatus, Some("c/x.0"), hang);
        }
        let sim = runtime.sim.clone();
        let restarts = spawn(move || {
            after_the_lists(&sim);
            sim.restart(Duration::from_millis(down));
        });
        let code = if hangs { 1 } else { 0 };
        let ended = doctor(&runtime, &["-o", "json"]).assert_code(code);
        restarts.join().unwrap();
        let report = ended.value();
        let probes = report["probes"].as_array().unwrap().iter();
        let refused = probes.filter(|probe| probe["outcome"] == "refused");
        assert_eq!(refused.count(), 0, "{report:#}");
    }
}

#[test]
fn the_call_during_which_the_runtime_stopped_is_reported() {
    let runtime = three_pods();
    let call = Rpc::ContainerStatus;
    let crash = Fault::Crash(Duration::from_millis(300));
    runtime.sim.fault(call, Some("b/x.0"), crash);
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report), ["runtime-unresponsive"]);
    let finding = &report["findings"][0];
    assert_eq!(finding["verdict"], "suspect");
    assert_eq!(finding["culprit"]["id"], "b/x.0");
    let said = "the connection to pleg-sim is lost each time ContainerStatus is called for container x \
                of pod default/b";
    assert_eq!(finding["sentence"], said);
    let probes = report["probes"].as_array().unwrap().iter();
    let failed: Vec<&Value> = probes.filter(|probe| probe["outcome"] != "ok").collect();
    assert_eq!(failed.len(), 1, "{report:#}");
    let evidence = finding["evidence"].to_string();
    assert!(!evidence.contains("  "), "{evidence}");
    // With --check for another cause, the result is not `ok`.
    let other = doctor(&runtime, &["--check", "container-lock"]).assert_code(2);
    assert!(other.out.contains("is lost each time"), "{}", other.out);
}

/// The runtime is stopped for longer, like containerd, which systemd restarts after five seconds.
#[test]
fn the_call_during_which_the_runtime_stopped_for_longer_is_reported() {
    let runtime = three_pods();
    let crash = Fault::Crash(Duration::from_secs(60));
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("b/x.0"), crash);
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    let finding = &report["findings"][0];
    assert!(finding["culprit"]["id"].is_null(), "{finding:#}");
    let evidence = finding["evidence"].to_string();
    let said = "went away while ContainerStatus of container x of pod default/b was outstanding";
    assert!(evidence.contains(said), "{evidence}");
}

#[test]
fn a_runtime_that_ends_during_inspections_is_unreachable() {
    let runtime = three_pods();
    let slow = Fault::Slow(Duration::from_millis(200));
    runtime.sim.fault(Rpc::ContainerStatus, None, slow.clone());
    runtime.sim.fault(Rpc::PodSandboxStatus, None, slow);
    let sim = runtime.sim.clone();
    let ends = spawn(move || {
        after_the_lists(&sim);
        sim.restart(Duration::from_secs(60));
    });
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    ends.join().unwrap();
    let summary = report["summary"].as_str().unwrap();
    assert!(!summary.contains("responds"), "{summary}");
    assert_eq!(causes(&report), ["runtime-unresponsive"]);
}

/// A runtime that fails every call about a container, with more containers than failures are kept.
fn fails_each(pods: usize) -> FakeRuntime {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..pods {
        runtime.sim.run(&format!("pod-{pod}"), &["x"]);
    }
    let fails = Fault::Fail(CallError::Refused("Unknown: no".into()));
    for call in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
        runtime.sim.fault(call, None, fails.clone());
    }
    runtime
}

#[test]
fn a_runtime_that_fails_each_call_and_ends_is_unreachable() {
    let runtime = fails_each(1500);
    let sim = runtime.sim.clone();
    let ends = spawn(move || {
        while sim.calls_made(Rpc::ContainerStatus) + sim.calls_made(Rpc::PodSandboxStatus) < 300 {
            sleep(Duration::from_millis(1));
        }
        sim.restart(Duration::from_secs(60));
    });
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    ends.join().unwrap();
    let summary = report["summary"].as_str().unwrap();
    let is_gone = summary.contains("no container runtime listens") || summary.contains("is gone");
    assert!(is_gone, "{summary}");
}

/// Calls that failed before the restart are also repeated.
#[test]
fn a_runtime_that_restarts_during_the_second_list_is_observed_completely() {
    let runtime = three_pods();
    let call = Rpc::ContainerStatus;
    let fails = Fault::Fail(CallError::Refused("Unknown: no".into()));
    runtime.sim.fault(call, Some("c/x.0"), fails);
    runtime.sim.fault(call, Some("b/x.0"), not_found());
    let sim = runtime.sim.clone();
    let restarts = spawn(move || {
        while sim.calls_made(Rpc::ListContainers) < 2 {
            sleep(Duration::from_millis(1));
        }
        sim.restart(Duration::from_millis(400));
        sim.lift(call, Some("b/x.0"));
    });
    // The lists are late, so that the second ones are outstanding at the restart.
    let slow = Fault::Slow(Duration::from_millis(700));
    runtime.sim.fault(Rpc::ListContainers, None, slow);
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    restarts.join().unwrap();
    let evidence = report["findings"][0]["evidence"].to_string();
    assert!(evidence.contains("x of pod default/c"), "{report:#}");
    assert!(!evidence.contains("default/b"), "{report:#}");
}

/// Asserts that the running container `b/x.0` is reported as failing: it is listed, while its status
/// call returns NotFound.
fn is_reported_as_failing(runtime: &FakeRuntime) {
    let report = doctor(runtime, &["-o", "json"]).assert_code(1).value();
    let mut probes = report["probes"].as_array().unwrap().iter();
    let failed = probes.find(|probe| probe["id"] == "b/x.0");
    let failed = failed.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(failed["outcome"], "error", "{report:#}");
    assert_eq!(causes(&report), ["runtime-unresponsive"]);
}

fn not_found() -> Fault {
    Fault::Fail(CallError::NotFound("no such container".into()))
}

#[test]
fn a_listed_container_that_is_not_found_for_seconds_is_reported() {
    let runtime = three_pods();
    let call = Rpc::ContainerStatus;
    runtime.sim.fault(call, Some("b/x.0"), Fault::Hang);
    let sim = runtime.sim.clone();
    let fails = spawn(move || {
        after_the_lists(&sim);
        sleep(Duration::from_secs(3));
        sim.fault(call, Some("b/x.0"), not_found());
    });
    is_reported_as_failing(&runtime);
    fails.join().unwrap();
}

/// Three pods. One of their containers is listed and not found; after the first lists, the `late` ones
/// take this long.
fn not_found_before_lists_of(took: Duration, late: &'static [Rpc]) -> FakeRuntime {
    let runtime = three_pods();
    let call = Rpc::ContainerStatus;
    let slow = Fault::Slow(Duration::from_millis(200));
    runtime.sim.fault(Rpc::PodSandboxStatus, None, slow);
    runtime.sim.fault(call, Some("b/x.0"), not_found());
    let sim = runtime.sim.clone();
    spawn(move || {
        after_the_lists(&sim);
        for list in late {
            sim.fault(*list, None, Fault::Slow(took));
        }
    });
    runtime
}

const LATE_LISTS: [&[Rpc]; 2] = [
    &[Rpc::ListContainers],
    &[Rpc::ListContainers, Rpc::ListPodSandbox],
];

#[test]
fn a_listed_container_that_is_not_found_is_reported_if_the_next_lists_are_slow() {
    for late in LATE_LISTS {
        is_reported_as_failing(&not_found_before_lists_of(Duration::from_millis(700), late));
    }
}

/// Only a list that is requested seconds later shows whether the container was removed.
#[test]
fn a_listed_container_that_is_not_found_is_never_healthy_if_the_next_lists_are_late() {
    for late in LATE_LISTS {
        let runtime = not_found_before_lists_of(Duration::from_secs(3), late);
        let report = doctor(&runtime, &["-o", "json"]).value();
        assert_ne!(report["verdict"], "healthy", "{report:#}");
    }
}

#[test]
fn a_runtime_that_restarts_during_the_first_call_is_healthy() {
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
fn a_runtime_that_accepts_no_connection_is_recognised_by_its_full_queue() {
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
