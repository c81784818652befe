//! Runs `pleg doctor` on the runtime of a test, and checks its findings.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use testbed_driver::{Driver, Pod, PodSpec, Testbed};

use crate::ticks::Ticks;
use crate::{command, json};

/// How long a run of the doctor may take, even if calls are stuck.
const MAX_DURATION: Duration = Duration::from_secs(20);

/// An address at which no kubelet listens.
const NO_KUBELET: [&str; 2] = ["--kubelet-healthz", "127.0.0.1:1"];

/// The doctor's report on a testbed.
pub fn doctor(testbed: &Testbed) -> Value {
    doctor_at(&testbed.endpoint())
}

/// The doctor's report on the runtime at this endpoint. Panics if the doctor takes longer than the limit.
#[track_caller]
pub fn doctor_at(endpoint: &cri::Endpoint) -> Value {
    report(endpoint, &[])
}

/// The doctor's report on one cause. Causes that depend on the load of the machine are not checked.
#[track_caller]
pub fn doctor_about(testbed: &Testbed, cause: &str) -> Value {
    report(&testbed.endpoint(), &["--check", cause])
}

/// The doctor's report on one cause. The doctor reads this folder as `/var/log`.
#[track_caller]
pub fn doctor_with_logs(testbed: &Testbed, folder: &Path, cause: &str) -> Value {
    let folder = folder.to_str().expect("the path is text");
    let mounts = [(folder, "/var/log")];
    let options = ["--check", cause, "-o", "json"];
    json(&output(&testbed.endpoint(), &mounts, &options))
}

/// The doctor's report, with these additional options.
#[track_caller]
pub fn report(endpoint: &cri::Endpoint, options: &[&str]) -> Value {
    let began = Ticks::now();
    let report = json(&output(endpoint, &[], &[options, &["-o", "json"]].concat()));
    let duration = began.elapsed();
    assert!(duration < MAX_DURATION, "{duration:?}");
    report
}

/// The output in text form for a node without findings, which is one line.
#[track_caller]
pub fn healthy_line(testbed: &Testbed) -> String {
    let output = output(&testbed.endpoint(), &[], &[]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert_eq!(page.lines().count(), 1, "{page}");
    page
}

/// Runs the doctor in a mount namespace with these mounts, each a source and a target. The log of the
/// kernel is empty there, because earlier messages of this machine do not concern the test.
fn output(endpoint: &cri::Endpoint, mounts: &[(&str, &str)], options: &[&str]) -> Output {
    let mounts = [mounts, &[("/dev/null", "/dev/kmsg")]].concat();
    let mounts = mounts
        .iter()
        .map(|(source, target)| format!("mount --bind '{source}' '{target}' && "));
    Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg(mounts.collect::<String>() + "exec \"$0\" \"$@\"")
        .arg(command().get_program())
        .args(["doctor", "--agent", "off", "-r", &endpoint.to_string()])
        .args(NO_KUBELET)
        .args(options)
        .output()
        .expect("unshare is installed")
}

/// Asserts that there is one finding, and that it is of this cause. Returns it.
#[track_caller]
pub fn only(report: &Value, cause: &str) -> Value {
    let found = report["findings"]
        .as_array()
        .expect("the findings are a list");
    let causes: Vec<_> = found.iter().map(|found| &found["cause"]).collect();
    assert_eq!(causes, [cause], "{report:#}");
    found[0].clone()
}

/// Asserts that nothing was found.
#[track_caller]
pub fn assert_healthy(report: &Value) {
    assert_eq!(report["verdict"], "ok", "{report:#}");
}

/// Asserts that the doctor distinguishes a stopped runtime from a crashed one, and that it finds
/// nothing once the runtime runs again.
pub async fn assert_stop_and_crash_are_distinguished(testbed: &Testbed) {
    let pid = testbed.verb(&["pid"]).await.expect("the verb succeeds");
    testbed.verb(&["stop"]).await.expect("the verb succeeds");
    let finding = only(&doctor(testbed), "runtime-unresponsive");
    assert_eq!(finding["confidence"], "certain", "{finding:#}");
    assert_eq!(finding["culprit"]["process"], "containerd");
    assert_eq!(finding["culprit"]["pid"].to_string(), pid);
    testbed.verb(&["cont"]).await.expect("the verb succeeds");
    assert_healthy(&doctor(testbed));

    testbed.verb(&["crash"]).await.expect("the verb succeeds");
    let finding = only(&doctor(testbed), "runtime-unresponsive");
    let sentence = finding["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("is gone"), "{sentence}");
    testbed.verb(&["start"]).await.expect("the verb succeeds");
    assert_healthy(&doctor(testbed));
}

/// Runs the pods `pod-0`, `pod-1`, …, each with a container `app`.
pub async fn run_pods(driver: &Driver, count: usize) -> Vec<Pod> {
    let specs: Vec<_> = (0..count)
        .map(|number| PodSpec::new(format!("pod-{number}")).container("app"))
        .collect();
    let pods = driver.run_pods(&specs, |_| {}).await;
    pods.expect("the runtime starts pods")
}
