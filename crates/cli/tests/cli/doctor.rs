//! `pleg doctor` on a simulated node: what it says of one that is well and of one that is
//! not, in which words, with which exit code, and in which time.

mod gone;
mod schema;
mod silent;
mod slow;
mod stuck;
mod told;

use std::time::{Duration, Instant};

use pleg::runtime::Rpc;
use serde_json::Value;
use sim::Fault;

use crate::support::{Ended, FakeRuntime, Pleg};

/// Without an agent, and without a kubelet of this machine's.
const ALONE: [&str; 4] = ["--agent", "off", "--kubelet-healthz", "127.0.0.1:1"];

/// How many calls may be outstanding, besides those that are stuck while others are answered: the
/// window of the engine, and `Status`.
const MAX_OUTSTANDING: usize = 12 + 1;

/// Whatever hangs.
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

/// Waits until this call has been made so often, and does that then.
fn once_made(sim: &sim::Sim, call: Rpc, times: usize, then: impl FnOnce(&sim::Sim)) {
    while sim.calls_made(call) < times {
        std::thread::sleep(Duration::from_millis(10));
    }
    then(sim);
}

#[track_caller]
fn assert_narrow(page: &str) {
    for line in page.lines() {
        assert!(line.chars().count() <= 80, "{line:?} in {page}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}
