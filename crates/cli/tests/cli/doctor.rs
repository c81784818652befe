//! `pleg doctor` on a simulated node: the report on a healthy and on a failing node, exit codes, and
//! time limits.

mod gone;
mod output;
mod schema;
mod slow;
mod stuck;
mod unresponsive;

use std::time::{Duration, Instant};

use pleg::runtime::Rpc;
use serde_json::Value;
use sim::Fault;

use crate::support::{Ended, FakeRuntime, Pleg};

/// Arguments for a diagnosis without an agent and without the kubelet of this machine.
const ALONE: [&str; 4] = ["--agent", "off", "--kubelet-healthz", "127.0.0.1:1"];

/// The maximum number of outstanding calls, apart from stuck ones while others are answered: the
/// window of the engine, and `Status`.
const MAX_OUTSTANDING: usize = 12 + 1;

/// The time limit of a diagnosis.
const IN_TIME: Duration = Duration::from_secs(15);

fn doctor(runtime: &FakeRuntime, more: &[&str]) -> Ended {
    doctor_within(IN_TIME, runtime, more)
}

fn doctor_within(limit: Duration, runtime: &FakeRuntime, more: &[&str]) -> Ended {
    let path = runtime.path();
    let begun = Instant::now();
    let ended = Pleg::new(&[&["doctor", "-r", &path], &ALONE[..], more].concat()).run();
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
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

const LISTS: [Rpc; 2] = [Rpc::ListContainers, Rpc::ListPodSandbox];

fn make_lists_slow(sim: &sim::Sim) {
    for list in LISTS {
        sim.fault(list, None, Fault::Slow(Duration::from_secs(3)));
    }
}

/// Waits until this call has been made this many times, then runs the closure.
fn once_made(sim: &sim::Sim, call: Rpc, times: usize, then: impl FnOnce(&sim::Sim)) {
    while sim.calls_made(call) < times {
        std::thread::sleep(Duration::from_millis(10));
    }
    then(sim);
}

/// Asserts that no line is wider than 80 columns, except for a single word or
/// command, which is never broken.
#[track_caller]
fn assert_narrow(page: &str) {
    for line in page.lines() {
        let indent = |char: char| char.is_ascii_digit() || " -.".contains(char);
        let words: String = line
            .trim_start_matches(indent)
            .split('`')
            .step_by(2)
            .collect();
        let is_whole = !words.contains(' ');
        assert!(line.chars().count() <= 80 || is_whole, "{line:?} in {page}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}
