//! SIGTERM ends each command within a second with exit code 0, even while calls hang.

use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pleg::runtime::Rpc;
use rustix::process::{Pid, Signal, kill_process};
use sim::Fault;

use crate::support::{Agent, FakeRuntime, Pleg, TEST_LIMIT, eventually, lines};

/// One second is promised; the rest allows for a busy machine.
const SOON: Duration = Duration::from_secs(3);

#[test]
fn a_watch_stops_on_a_signal() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    for signal in [Signal::TERM, Signal::INT] {
        let args = [
            "watch",
            "-r",
            &runtime.path(),
            "--agent",
            "off",
            "-o",
            "json",
        ];
        let mut watch = Pleg::new(&args).start();
        watch.record("synced", |record| record["kind"] == "synced");
        watch.signal(signal);
        let ended = watch.end(SOON).assert_code(0);
        assert_eq!(ended.err, "");
    }
}

#[test]
fn a_watch_stops_before_the_runtime_answers_version() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("deaf.sock");
    let deaf = UnixListener::bind(&path).unwrap();
    let args = ["watch", "-r", path.to_str().unwrap(), "--agent", "off"];
    let watch = Pleg::new(&args).start();
    let _came = deaf.accept().unwrap();
    watch.signal(Signal::TERM);
    watch.end(SOON).assert_code(0);
}

#[test]
fn a_watch_stops_although_its_output_is_not_read() {
    let runtime = FakeRuntime::with_pods(&[]);
    for number in 0..500 {
        runtime.sim.run(&format!("web-{number}"), &["app"]);
    }
    let mut watch = Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["watch", "-r", &runtime.path(), "--agent", "off"])
        .args(["-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe buffers.
    eventually("every pod was inspected", || {
        (runtime.sim.calls_made(Rpc::ContainerStatus) >= 500).then_some(())
    });
    let begun = Instant::now();
    kill_process(Pid::from_child(&watch), Signal::TERM).unwrap();
    let status = eventually("it ends", || watch.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn an_agent_stops_with_event_streams_open_and_calls_hung() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let mut events = lines(&agent.socket, "/v1/events");
    events.next().unwrap();

    let begun = Instant::now();
    agent.terminate();
    let ended = agent.end().assert_code(0);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(ended.err.contains("stopping on SIGTERM"), "{}", ended.err);
    // The stream ends with the agent.
    assert!(events.count() < 10);
}

#[test]
fn an_agent_ignores_sighup() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    agent.hang_up();
    runtime.sim.run("b", &["x"]);
    eventually("it sees another pod", || {
        (agent.pods() == ["a", "b"]).then_some(())
    });
    agent.terminate();
    agent.end().assert_code(0);
}

#[test]
fn a_watch_with_a_duration_stops_by_itself() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let begun = Instant::now();
    let args = [
        "watch",
        "-r",
        &runtime.path(),
        "--agent",
        "off",
        "--for",
        "1s",
    ];
    Pleg::new(&args).run().assert_code(0);
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(1) && took < TEST_LIMIT / 2,
        "{took:?}"
    );
}

#[test]
fn an_agent_whose_log_cannot_be_written_continues_and_stops_with_exit_code_0() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let nowhere = Stdio::from(full.unwrap());
    let place = tempfile::tempdir().unwrap();
    for (what, stderr) in [("a full disk", nowhere), ("a full pipe", Stdio::piped())] {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_pleg"))
            .args(["agent", "-r", &runtime.path(), "--listen", "127.0.0.1:0"])
            .env("PLEG_STATE_DIR", place.path())
            // Far more than a pipe buffers.
            .env("RUST_LOG", "trace")
            .stderr(stderr)
            .spawn()
            .unwrap();
        let lists = || runtime.sim.calls_made(Rpc::ListContainers);
        let before = lists();
        eventually("relisting goes on", || (lists() > before + 3).then_some(()));
        assert!(agent.try_wait().unwrap().is_none(), "{what}");
        let pid = Pid::from_child(&agent);
        kill_process(pid, Signal::TERM).unwrap();
        let deadline = Instant::now() + SOON;
        while agent.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{what} keeps it from stopping");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(agent.wait().unwrap().code(), Some(0), "{what}");
    }
}
