//! Which culprit is reported when calls hang.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pleg::runtime::{CALLS, Rpc};
use serde_json::Value;
use sim::Fault;

use super::{ALONE, MAX_OUTSTANDING, assert_narrow, causes, doctor, doctor_within, three_pods};
use crate::support::{Agent, Ended, FakeRuntime, Pleg};

/// Waits until two of the agent's calls have lasted for 3.5 s. Until then they may only be slow.
fn wait_until_two_hang(agent: &Agent) {
    agent.wait("/v1/status", |answer| {
        let status = answer.json();
        let calls = status["inFlight"].as_array().unwrap().iter();
        let ages = calls.filter_map(|call| call["ageSeconds"].as_f64());
        ages.filter(|age| *age >= 3.5).count() >= 2
    });
}

/// A runtime on which container y of pod b holds its status lock, and an agent that has reported it.
fn under_the_status_lock() -> (FakeRuntime, Agent) {
    let runtime = three_pods();
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    runtime.sim.status_lock("b", "y");
    wait_until_two_hang(&agent);
    (runtime, agent)
}

#[test]
fn under_the_status_lock_the_agents_reports_show_the_culprit() {
    let (runtime, agent) = under_the_status_lock();
    let lists = runtime.sim.calls_made(Rpc::ListContainers);
    let statuses = runtime.sim.max_outstanding_per_id();
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
    // No call was sent for which the agent was already waiting.
    assert_eq!(runtime.sim.calls_made(Rpc::ListContainers), lists);
    assert!(runtime.sim.max_outstanding_per_id() <= statuses + 8);
}

/// While all changes are announced, the lists of the agent are far apart.
#[test]
fn a_lock_that_the_agent_has_not_noticed_yet_is_reported() {
    let runtime = three_pods();
    let agent = Agent::configured(&runtime.endpoint(), "relistPeriod: 2m\n");
    agent.wait_healthy();
    runtime.sim.status_lock("b", "y");
    let path = runtime.path();
    let args = ["doctor", "-r", &path, "--agent", &agent.socket];
    let args = [&args[..], &["-o", "json"]].concat();
    let report = Pleg::new(&args).run().assert_code(1).value();
    assert_eq!(causes(&report), ["container-status-lock"], "{report:#}");
}

#[test]
fn a_fault_that_ends_during_the_diagnosis_leads_to_no_advice_to_kill() {
    let (runtime, agent) = under_the_status_lock();
    let path = runtime.path();
    let args = ["doctor", "-r", &path, "--agent", &agent.socket];
    let args = [&args[..], &ALONE[2..], &["-o", "json"]].concat();
    let looking = Pleg::new(&args).start();
    std::thread::sleep(Duration::from_millis(400));
    runtime.sim.status_unlock("b", "y");
    let ended = looking.end(Duration::from_secs(40));
    assert_eq!(
        causes(&ended.value()),
        Vec::<String>::new(),
        "{}",
        ended.out
    );
}

/// Both faults end while the machine is read, which takes a second, one after the other.
#[test]
fn two_faults_that_end_during_the_diagnosis_lead_to_no_advice_to_kill() {
    let runtime = three_pods();
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let call = Rpc::ContainerStatus;
    // Both containers have changed, so the agent requests their status and waits.
    for (pod, id) in [("a", "a/x.0"), ("c", "c/x.0")] {
        runtime.sim.fault(call, Some(id), Fault::Hang);
        runtime.sim.exit(pod, "x", 1);
    }
    wait_until_two_hang(&agent);
    let path = runtime.path();
    let args = ["doctor", "-v", "-r", &path, "--agent", &agent.socket];
    let args = [&args[..], &ALONE[2..], &["-o", "json"]].concat();
    let looking = Pleg::new(&args).start();
    for id in ["a/x.0", "c/x.0"] {
        std::thread::sleep(Duration::from_millis(300));
        runtime.sim.lift(call, Some(id));
    }
    let ended = looking.end(Duration::from_secs(40));
    assert_eq!(
        causes(&ended.value()),
        Vec::<String>::new(),
        "{}",
        ended.out
    );
}

#[test]
fn few_calls_are_outstanding_whatever_hangs() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..12 {
        runtime.sim.run(&format!("pod-{pod:02}"), &["x"]);
    }
    let call = Rpc::ContainerStatus;
    for pod in 1..12 {
        let id = format!("pod-{pod:02}/x.0");
        runtime.sim.fault(call, Some(&id), Fault::Hang);
    }
    let path = runtime.path();
    let args = [&["doctor", "-r", &path], &ALONE[..], &["-o", "json"]].concat();
    Pleg::new(&args).run().assert_code(1);
    let most = runtime.sim.max_outstanding();
    assert!(most <= MAX_OUTSTANDING, "{most}");
}

#[test]
fn a_hanging_list_is_reported_within_six_seconds_without_known_ids() {
    let runtime = three_pods();
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let report = doctor_within(Duration::from_secs(6), &runtime, &["-o", "json"]);
    let report = report.assert_code(1).value();
    assert_eq!(causes(&report), ["container-status-lock"], "{report:#}");
}

fn with_other_user(runtime: &FakeRuntime, agent: &str, more: &[&str]) -> Option<Ended> {
    let path = runtime.path();
    let args = ["doctor", "-r", &path, "--agent", agent];
    let args = [&args[..], &ALONE[2..], more].concat();
    Some(Pleg::new(&args).with_other_user()?.run())
}

#[test]
fn without_root_the_agents_reports_replace_calls() {
    let runtime = three_pods().for_root_alone();
    let Some(alone) = with_other_user(&runtime, "off", &[]) else {
        return;
    };
    let alone = alone.assert_code(2);
    let first = alone.out.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(first.contains("only root can open"), "{first}");

    // Only root and the configured group get an answer.
    let closed = Agent::watching(&runtime.endpoint());
    let refused = with_other_user(&runtime, &closed.socket, &[]).unwrap();
    let said = refused.sentence();
    assert!(said.ends_with("permission denied"), "{said}");
    let agent = Agent::configured(&runtime.endpoint(), "socketGroup: 65534\n");
    agent.wait_healthy();
    let well = with_other_user(&runtime, &agent.socket, &[]).unwrap();
    let page = well.assert_code(0).out;
    let first = page.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(
        first.starts_with("Healthy: no kubelet on this machine; pleg-sim "),
        "{page}"
    );
    assert!(
        first.contains("answers the agent on this node: all pods are up to date"),
        "{page}"
    );
    let unchecked = "whether the pod network is ready was not checked";
    assert!(first.ends_with(unchecked), "{page}");
    assert!(page.contains("Not checked"), "{page}");
    assert!(page.contains("is reported by the agent"), "{page}");
    assert_narrow(&page);

    runtime.sim.status_lock("b", "y");
    wait_until_two_hang(&agent);
    let bundle = tempfile::Builder::new().prefix("bundle").tempdir().unwrap();
    std::fs::set_permissions(bundle.path(), Permissions::from_mode(0o777)).unwrap();
    let path = bundle.path().join("node.json.gz");
    let bundle = ["-o", "json", "--bundle", path.to_str().unwrap()];
    let report = with_other_user(&runtime, &agent.socket, &bundle).unwrap();
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

    runtime.sim.status_unlock("b", "y");
    runtime.sim.stop();
    for seconds in [6.0, 9.0] {
        agent.wait("/v1/status", |answer| {
            let status = answer.json();
            let mut calls = status["inFlight"].as_array().unwrap().iter();
            let is_old = |call: &Value| call["ageSeconds"].as_f64().unwrap() >= seconds;
            status["health"]["reason"] == "RuntimeSilent"
                && calls.any(|call| call["call"] == "ListContainers" && is_old(call))
        });
        let unresponsive = with_other_user(&runtime, &agent.socket, &["-o", "json"]).unwrap();
        let summary = unresponsive.assert_code(1).value()["summary"].to_string();
        assert!(summary.contains("does not answer any call"), "{summary}");
    }
}

#[test]
fn a_call_that_an_agent_withholds_is_reported_and_not_sent() {
    let runtime = three_pods();
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let call = Rpc::ContainerStatus;
    let crash = Fault::Crash(Duration::from_millis(300));
    runtime.sim.fault(call, Some("b/x.0"), crash);
    runtime.sim.exit("b", "x", 1);
    agent.wait("/v1/status", |answer| {
        let status = answer.json();
        let mut failing = status["failing"].as_array().unwrap().iter();
        // The third loss was five seconds after the first; the next attempt is after sixteen more.
        let is_long = |since: &Value| since.as_f64().unwrap() > 6.0;
        failing.any(|failing| failing["withheld"] == true && is_long(&failing["sinceSeconds"]))
    });
    // A call that is sent from now on does not lose the connection, but hangs.
    runtime.sim.fault(call, Some("b/x.0"), Fault::Hang);
    let path = runtime.path();
    let args = ["doctor", "-r", &path, "--agent", &agent.socket];
    let args = [&args[..], &ALONE[2..], &["-o", "json"]].concat();
    let report = Pleg::new(&args).run().assert_code(1).value();
    assert_eq!(causes(&report), ["runtime-unresponsive"]);
    let finding = &report["findings"][0];
    assert_eq!(finding["culprit"]["id"], "b/x.0");
    let evidence = finding["evidence"].to_string();
    assert!(
        evidence.contains("the agent on this node does not make"),
        "{evidence}"
    );
}

#[test]
fn reports_of_an_agent_that_ends_during_the_diagnosis_are_not_used() {
    let runtime = three_pods().for_root_alone();
    let agent = Agent::configured(&runtime.endpoint(), "socketGroup: 65534\n");
    agent.wait_healthy();
    // The kubelet's health endpoint is requested after the agent.
    let kubelet = TcpListener::bind("127.0.0.1:0").unwrap();
    let healthz = kubelet.local_addr().unwrap().to_string();
    let path = runtime.path();
    let socket = agent.socket.clone();
    let args = ["doctor", "-r", &path, "--agent", &socket];
    let args = [&args[..], &["--kubelet-healthz", &healthz]].concat();
    let Some(doctor) = Pleg::new(&args).with_other_user() else {
        return;
    };
    let looking = doctor.start();
    kubelet.accept().unwrap();
    drop(agent);
    let ended = looking.end(Duration::from_secs(40)).assert_code(2);
    assert!(!ended.out.contains("Healthy"), "{}", ended.out);
}

#[test]
fn under_the_status_lock_the_saved_ids_lead_to_the_culprit() {
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
fn it_ends_in_time_when_everything_hangs_with_few_outstanding_calls() {
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
    // Both lists are answered, and the status call of each id hangs.
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report)[0], "runtime-unresponsive");
    // Calls of both runs may be counted: those of the first run end only with its connection.
    let most = runtime.sim.max_outstanding();
    assert!(most <= 2 * MAX_OUTSTANDING, "{most}");
}

/// Makes all calls hang from now on.
fn hang_all(runtime: &sim::Sim) {
    for call in pleg::runtime::CALLS {
        runtime.fault(call, None, Fault::Hang);
    }
    runtime.fault(sim::Rpc::Status, None, Fault::Hang);
}

/// Asserts that the runtime is the culprit, and no container is.
#[track_caller]
fn assert_only_the_runtime_is_named(report: &Value) {
    assert_eq!(causes(report), ["runtime-unresponsive"], "{report:#}");
    let said = report["findings"].to_string() + &report["summary"].to_string();
    assert!(!said.contains("pod-"), "{report:#}");
}

#[test]
fn a_runtime_that_stops_during_the_diagnosis_blames_no_container() {
    // The runtime stops after this number of calls of this kind.
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
fn if_everything_hangs_no_container_of_the_saved_set_is_blamed() {
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
