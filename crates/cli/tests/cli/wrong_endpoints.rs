//! Endpoints without a CRI runtime: one sentence with the cause, and exit code 2. `pleg status` has
//! exit code 1 if the runtime is unreachable.

use std::os::unix::net::UnixListener;

use crate::support::{Agent, Ended, FakeRuntime, Pleg, RawServer, every_nonsense};

/// Checks the error of each command that calls the runtime.
#[track_caller]
fn each_command_says(path: &str, is_unreachable: bool, sentence: &str) {
    for command in ["watch", "pods", "status"] {
        let said = said_by(command, path, is_unreachable);
        let sentence = sentence.replace("PATH", path);
        assert_eq!(said, sentence, "by {command}");
    }
}

#[track_caller]
fn said_by(command: &str, path: &str, is_unreachable: bool) -> String {
    let agent: &[&str] = match command {
        "pods" => &[],
        _ => &["--agent", "off"],
    };
    let args = [&[command, "-r", path], agent].concat();
    let ended = Pleg::new(&args).run();
    let ended = match command == "status" && is_unreachable {
        true => Ended {
            code: Some(2),
            ..ended.assert_code(1)
        },
        false => ended,
    };
    ended.sentence()
}

#[test]
fn a_missing_socket_is_reported_as_no_runtime() {
    let place = tempfile::tempdir().unwrap();
    each_command_says(
        place.path().join("none.sock").to_str().unwrap(),
        true,
        "no container runtime at unix://PATH: the runtime cannot be reached: no such file or directory",
    );
}

#[test]
fn a_socket_without_a_server_refuses_connections() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("left.sock");
    drop(UnixListener::bind(&path).unwrap());
    each_command_says(
        path.to_str().unwrap(),
        true,
        "cannot connect to unix://PATH: the runtime cannot be reached: connection refused",
    );
}

#[test]
fn a_file_is_reported_as_not_a_socket() {
    let file = tempfile::NamedTempFile::new().unwrap();
    each_command_says(
        file.path().to_str().unwrap(),
        false,
        "cannot connect to unix://PATH: the runtime cannot be reached: it is a regular file, not a socket",
    );
}

#[test]
fn a_server_without_cri_is_an_error_that_ends_with_the_cause() {
    for nonsense in every_nonsense() {
        let runtime = FakeRuntime::nowhere();
        let _server = nonsense.serve(&runtime.socket());
        let begin = "cannot connect to ";
        let (begin, cause) = match nonsense {
            RawServer::GarbageLists => ("cannot list the pods at ", "the response is malformed: "),
            RawServer::NoSuchMethod => (
                "no CRI runtime responds at ",
                "not implemented by the runtime: unknown service",
            ),
            RawServer::PlainHttp => (begin, "frame with invalid size"),
            RawServer::ClosesAtOnce => (begin, "the runtime cannot be reached: "),
        };
        for command in ["pods", "status"] {
            let is_unreachable = matches!(nonsense, RawServer::ClosesAtOnce | RawServer::PlainHttp);
            let said = said_by(command, &runtime.path(), is_unreachable);
            assert!(
                said.contains(begin) && said.contains(cause),
                "{command} of {nonsense:?}: {said}"
            );
        }
    }
}

#[test]
fn a_runtime_that_accepts_calls_and_never_answers_is_exit_code_1() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("deaf.sock");
    let _deaf = UnixListener::bind(&path).unwrap();
    let path = path.to_str().unwrap();

    let looked = Pleg::new(&["status", "-r", path, "--agent", "off", "-o", "json"]).run();
    let status = looked.assert_code(1).value();
    assert_eq!(status["stuck"][0]["call"], "Version");
    assert!(status["stuck"][0]["id"].is_null());
    assert_eq!(status["inFlight"][0]["call"], "Version");
    assert_eq!(status["runtime"]["name"], serde_json::Value::Null);
    assert_eq!(status["relist"]["count"], 0);

    let said = Pleg::new(&["pods", "-r", path]).run().sentence();
    assert!(said.contains("Version has not answered for "), "{said}");

    let args = ["watch", "-r", path, "--agent", "off", "-o", "json"];
    let mut watch = Pleg::new(&args).start();
    let health = watch.record("it says what hangs", |record| record["kind"] == "health");
    assert_eq!(health["stuck"][0]["call"], "Version");
}

#[test]
fn a_watch_continues_when_only_the_lists_are_malformed() {
    let runtime = FakeRuntime::nowhere();
    let _server = RawServer::GarbageLists.serve(&runtime.socket());
    let args = ["watch", "-r", &runtime.path(), "--agent", "off"];
    let args = [&args[..], &["-o", "json", "--for", "1s"]].concat();
    let ended = Pleg::new(&args).run().assert_code(0);
    let message = "\"message\":\"PLEG is not healthy: pleg has yet to be successful: ";
    let cause = " unavailable: the response is malformed: ";
    for part in ["\"state\":\"Starting\"", message, cause] {
        assert!(ended.out.contains(part), "{}", ended.out);
    }
}

#[test]
fn without_an_endpoint_the_usual_sockets_are_tried_and_listed() {
    // On a machine with a runtime, this test shows nothing.
    let ended = Pleg::new(&["pods", "-r", ""]).run();
    if ended.code == Some(2) {
        for what in [
            "no container runtime found",
            "`pleg demo`",
            "/run/k0s/containerd.sock: ",
        ] {
            assert!(ended.err.contains(what), "{}", ended.err);
        }
    }
}

#[test]
fn an_endpoint_that_is_no_unix_socket_is_refused() {
    let said = Pleg::new(&["pods", "-r", "tcp://1.2.3.4:5"])
        .run()
        .sentence();
    assert_eq!(
        said,
        "endpoint \"tcp://1.2.3.4:5\" is not a unix socket: write unix:///path/to.sock or an absolute path"
    );
}

#[test]
fn an_agent_waits_for_a_runtime_that_has_not_started() {
    let mut runtime = FakeRuntime::nowhere();
    let agent = Agent::watching(&runtime.endpoint());
    let health = agent.wait("/healthz", |answer| answer.body.contains("no such file"));
    assert_eq!(health.code, 503);
    assert!(
        health
            .body
            .starts_with("PLEG is not healthy: pleg has yet to be successful: "),
        "{health:?}"
    );
    assert_eq!(agent.get("/livez").code, 200);
    runtime.sim.run("web-0", &["app"]);
    runtime.come_back();
    agent.wait_healthy();
    assert_eq!(agent.pods(), ["web-0"]);
}

#[test]
fn an_agent_without_a_sweep_is_unhealthy_after_the_threshold() {
    let runtime = FakeRuntime::nowhere();
    let agent = Agent::configured(&runtime.endpoint(), "relistThreshold: 300ms\n");
    let status = agent.wait("/v1/status", |answer| {
        answer.json()["health"]["state"] == "Unhealthy"
    });
    assert_eq!(status.json()["relist"]["count"], 0);
    assert_eq!(agent.get("/healthz").code, 503);
    assert_eq!(agent.get("/readyz").code, 503);
    let looked = Pleg::new(&["status", "--agent", &agent.socket]).run();
    looked.assert_code(1);
}
