//! Whether a runtime is unresponsive, or only does not answer `Version`. If it is unresponsive, no
//! container is blamed.

use std::time::Duration;

use pleg::runtime::{CallError, Rpc};
use serde_json::Value;
use sim::Fault;

use super::{
    LISTS, MAX_OUTSTANDING, causes, doctor_within, make_lists_slow, once_made, three_pods,
};
use crate::support::FakeRuntime;

/// The time limit of a diagnosis in which each step may wait for a call that hangs.
const LIMIT: Duration = Duration::from_secs(29);

const NOT_VERSION: &str = "answers other calls, but not Version";

fn version_hangs(sim: &sim::Sim) {
    sim.fault(Rpc::Version, None, Fault::Hang);
}

/// The report of the doctor while this happens to the runtime.
fn report(runtime: &FakeRuntime, meanwhile: impl FnOnce(&sim::Sim) + Send + 'static) -> Value {
    let sim = runtime.sim.clone();
    let happens = std::thread::spawn(move || meanwhile(&sim));
    let report = doctor_within(LIMIT, runtime, &["-o", "json"]);
    happens.join().unwrap();
    let report = report.assert_code(1).value();
    assert!(
        runtime.sim.max_outstanding() <= MAX_OUTSTANDING,
        "{report:#}"
    );
    report
}

#[track_caller]
fn assert_says(report: &Value, words: &str) {
    let summary = report["summary"].as_str().unwrap();
    assert!(summary.contains(words), "{report:#}");
}

#[test]
fn a_runtime_that_answers_calls_after_a_hanging_version_is_not_unresponsive() {
    let runtime = three_pods();
    make_lists_slow(&runtime.sim);
    let report = report(&runtime, |sim| {
        once_made(sim, Rpc::ListContainers, 1, version_hangs);
    });
    assert_says(&report, NOT_VERSION);
}

#[test]
fn answers_from_before_a_stop_of_the_runtime_blame_no_container() {
    for is_version_answered_at_first in [true, false] {
        let runtime = three_pods();
        make_lists_slow(&runtime.sim);
        let slow = Fault::Slow(Duration::from_millis(300));
        runtime.sim.fault(Rpc::ContainerStatus, None, slow);
        if !is_version_answered_at_first {
            version_hangs(&runtime.sim);
        }
        let report = report(&runtime, |sim| {
            once_made(sim, Rpc::ListContainers, 1, version_hangs);
            once_made(sim, Rpc::ContainerStatus, 2, sim::Sim::stop);
        });
        assert_eq!(causes(&report), ["runtime-unresponsive"], "{report:#}");
        assert_says(&report, "not answer any call");
    }
}

#[test]
fn if_only_version_and_one_container_hang_the_container_is_reported() {
    let fails = CallError::Refused("Internal: no".into());
    for status in [
        None,
        Some(Fault::Fail(fails)),
        Some(Fault::Slow(Duration::from_secs(3))),
        Some(Fault::Hang),
    ] {
        let runtime = three_pods();
        let hang = Fault::Hang;
        runtime.sim.fault(Rpc::ContainerStatus, Some("b/x.0"), hang);
        let fault = status.clone();
        let report = report(&runtime, |sim| {
            once_made(sim, Rpc::ListContainers, 1, version_hangs);
            if let Some(status) = status {
                sim.fault(Rpc::Status, None, status);
            }
        });
        let found = causes(&report);
        assert!(found.contains(&"container-lock"), "{fault:?}: {report:#}");
    }
}

#[test]
fn lists_that_hang_on_a_second_request_do_not_make_a_runtime_unresponsive() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..110 {
        runtime.sim.run(&format!("pod-{pod}"), &["x"]);
    }
    make_lists_slow(&runtime.sim);
    for pod in 0..5 {
        let id = format!("pod-{pod}/x.0");
        let hang = Fault::Hang;
        runtime.sim.fault(Rpc::ContainerStatus, Some(&id), hang);
    }
    let report = report(&runtime, |sim| {
        for list in LISTS {
            once_made(sim, list, 1, |_| {});
        }
        // Calls that are already outstanding are not affected.
        version_hangs(sim);
        for list in LISTS {
            sim.fault(list, None, Fault::Hang);
        }
    });
    assert_says(&report, NOT_VERSION);
}

#[test]
fn a_pause_of_the_whole_runtime_blames_no_container() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..12 {
        runtime.sim.run(&format!("pod-{pod}"), &["x"]);
    }
    let sim = runtime.sim.clone();
    let pauses = std::thread::spawn(move || {
        once_made(&sim, Rpc::ContainerStatus, 4, sim::Sim::stop);
        std::thread::sleep(Duration::from_millis(6300));
        sim.resume();
    });
    let report = doctor_within(LIMIT, &runtime, &["-o", "json"]);
    pauses.join().unwrap();
    let report = report.value();
    assert_eq!(causes(&report), Vec::<&str>::new(), "{report:#}");
}

#[test]
fn witness_calls_do_not_use_the_slots_of_the_ids() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..40 {
        runtime.sim.run(&format!("pod-{pod:02}"), &["x"]);
    }
    let sim = &runtime.sim;
    let slow = |seconds| Fault::Slow(Duration::from_secs(seconds));
    sim.fault(Rpc::PodSandboxStatus, Some("pod-01.0"), slow(2));
    sim.fault(Rpc::PodSandboxStatus, Some("pod-02.0"), slow(3));
    sim.fault(Rpc::ContainerStatus, Some("pod-30/x.0"), Fault::Hang);
    let report = report(&runtime, |sim| {
        once_made(sim, Rpc::ListContainers, 1, |sim| {
            for call in [Rpc::Version, Rpc::Status] {
                sim.fault(call, None, Fault::Slow(Duration::from_secs(3)));
            }
        });
    });
    assert_eq!(report["unasked"], 0, "{report:#}");
    let culprit = &report["findings"][0]["culprit"];
    assert_eq!(culprit["id"], "pod-30/x.0", "{report:#}");
}
