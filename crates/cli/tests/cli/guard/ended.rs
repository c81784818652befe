//! A guard, its agent or the runtime behind it that hangs, ends or starts again.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Guard, PODS, end, start_agent, start_guard};
use crate::support::{FakeRuntime, Pleg, eventually, get, value};

/// Enforces G10.
#[test]
fn a_kubelet_does_not_notice_that_the_agent_is_killed_or_started_again() {
    let runtime = FakeRuntime::with_pods(PODS);
    let mut guard = Guard::start(&runtime);
    end(&mut guard.agent);
    assert_eq!(guard.listed()[0]["name"], "web");
    // The socket that the killed agent left is replaced.
    guard.agent = start_agent(guard.folder.path(), &runtime);
    guard.wait();
    assert_eq!(guard.listed()[0]["name"], "web");
    let log = fs::read_to_string(guard.path("log")).unwrap();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}

/// Enforces O6.
#[test]
fn while_the_guard_is_stopped_its_agent_observes_the_runtime_and_reports_it() {
    let runtime = FakeRuntime::with_pods(PODS);
    let mut guard = Guard::start(&runtime);
    end(&mut guard.process);
    let socket = guard.path("agent.sock");
    eventually("the agent misses the guard", || {
        (guard.status()["guard"]["unresponsive"] == true).then_some(())
    });
    let page = Pleg::new(&["status", "--agent", &socket]).run().out;
    assert!(page.contains("does not respond"), "{page}");
    let metrics = get(&socket, "/metrics").body;
    assert_eq!(value(&metrics, "pleg_guard_unresponsive"), Some(1.0));
    runtime.sim.run("new", &["app"]);
    eventually("the new pod is seen without the guard", || {
        let pods = get(&socket, "/v1/pods").json();
        (pods.as_array().unwrap().len() == 2).then_some(())
    });
    guard.process = start_guard(guard.folder.path(), &runtime, None);
    eventually("the guard is there again", || {
        (guard.status()["guard"]["unresponsive"] == false).then_some(())
    });
    assert_eq!(guard.status()["guard"]["mode"], "guard");
    runtime.sim.run("newer", &["app"]);
    eventually("the agent observes through it", || {
        let pods = get(&socket, "/v1/pods").json();
        (pods.as_array().unwrap().len() == 3).then_some(())
    });
}

/// Enforces O6.
#[test]
fn a_guard_that_hangs_delays_its_agent_for_two_seconds_at_most() {
    let runtime = FakeRuntime::with_pods(PODS);
    let guard = Guard::start(&runtime);
    let process = Pid::from_raw(guard.process.id().try_into().unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    eventually("the agent misses the guard", || {
        (guard.status()["guard"]["unresponsive"] == true).then_some(())
    });
    let asked = Instant::now();
    for _ in 0..20 {
        assert_eq!(guard.status()["guard"]["unresponsive"], true);
    }
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    runtime.sim.run("new", &["app"]);
    eventually("the agent observes the runtime itself", || {
        let pods = get(&guard.path("agent.sock"), "/v1/pods").json();
        (pods.as_array().unwrap().len() == 2).then_some(())
    });
    kill_process(process, Signal::CONT).unwrap();
    eventually("the guard is there again", || {
        (guard.status()["guard"]["unresponsive"] == false).then_some(())
    });
}

#[test]
fn behind_a_guard_an_agent_observes_a_restart_of_the_runtime_as_without_one() {
    let mut runtime = FakeRuntime::with_pods(PODS);
    let guard = Guard::start(&runtime);
    let until = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        eventually(what, || {
            let status = guard.status();
            wanted(&status["health"]).then_some(status)
        })
    };
    runtime.go_away();
    let status = until("it is gone", &|health| {
        health["reason"] == "RuntimeUnreachable"
    });
    let said = status["health"]["message"].as_str().unwrap();
    assert!(
        said.contains("no such file or directory") || said.contains("connection refused"),
        "{said}"
    );
    runtime.come_back();
    until("it is back", &|health| health["state"] == "Healthy");
}

/// Enforces G9.
#[test]
fn a_socket_that_a_supervisor_holds_outlives_the_guard() {
    let runtime = FakeRuntime::with_pods(PODS);
    let folder = tempfile::tempdir().unwrap();
    let held = UnixListener::bind(folder.path().join("cri.sock")).unwrap();
    let mut guard = Guard {
        process: start_guard(folder.path(), &runtime, Some(&held)),
        agent: start_agent(folder.path(), &runtime),
        folder,
    };
    guard.wait();
    assert_eq!(guard.listed()[0]["name"], "web");

    end(&mut guard.process);
    let next = std::thread::scope(|scope| {
        // No process accepts: the connection waits, and is not refused.
        let waiting = scope.spawn(|| guard.listed());
        std::thread::sleep(Duration::from_millis(200));
        let next = start_guard(guard.folder.path(), &runtime, Some(&held));
        assert_eq!(waiting.join().unwrap()[0]["name"], "web");
        next
    });
    guard.process = next;
}
