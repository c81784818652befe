//! Errors at the start of an agent: one sentence, exit code 2.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::support::{Agent, FakeRuntime, Pleg, TEST_LIMIT, eventually};

fn start_with(config: &str) -> String {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(config.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let args = ["agent", "-r", "/nowhere/x.sock", "--config", path];
    let ended = Pleg::new(&args).run().assert_code(2);
    assert!(
        ended.err.starts_with("pleg: the configuration /"),
        "{}",
        ended.err
    );
    ended.err
}

#[test]
fn an_unknown_key_is_an_error_that_shows_the_line() {
    let said = start_with("relistPeriod: 1s\n\nrelistThreshhold: 3m\n");
    for part in ["line 3", "relistThreshhold: 3m", "relistThreshold"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
}

#[test]
fn a_wrong_type_is_an_error_that_shows_the_line() {
    for (config, line, shown) in [
        (
            "listen: 127.0.0.1:1\nmaxMessageSize: big\n",
            "line 2",
            "maxMessageSize: big",
        ),
        ("relistPeriod: [1s]\n", "line 1", "relistPeriod: [1s]"),
        ("relistPeriod: 5\n", "line 1", "relistPeriod: 5"),
        ("listen: everywhere\n", "line 1", "listen: everywhere"),
        ("- relistPeriod\n", "line 1", "- relistPeriod"),
        (
            "relistPeriod: 1s\nrelistPeriod: 2s\n",
            "line 2",
            "relistPeriod is given a second time",
        ),
        ("relistPeriod: null\n", "line 1", "there is no value"),
    ] {
        let said = start_with(config);
        assert!(
            said.contains(line) && said.contains(shown),
            "{config:?}: {said}"
        );
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    for (config, sentence) in [
        (
            "relistPeriod: 0s",
            "relistPeriod is 0s: it must be at least 10ms",
        ),
        (
            "maxMessageSize: 0",
            "maxMessageSize must be between 1 and 4294967295",
        ),
        (
            "maxConcurrentInspections: 0",
            "maxConcurrentInspections must be between 1 and 1000",
        ),
        (
            "containerRuntimeEndpoint: tcp://a:1",
            "endpoint \"tcp://a:1\" is not a unix socket",
        ),
    ] {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(config.as_bytes()).unwrap();
        let args = ["agent", "--config", file.path().to_str().unwrap()];
        let said = Pleg::new(&args).run().sentence();
        assert!(said.starts_with(sentence), "{config}: {said}");
    }
}

#[test]
fn a_missing_configuration_is_reported_with_its_path() {
    let said = Pleg::new(&["agent", "--config", "/nowhere/pleg.yaml"])
        .run()
        .sentence();
    assert_eq!(
        said,
        "cannot read the configuration /nowhere/pleg.yaml: no such file or directory"
    );
}

#[test]
fn a_port_in_use_is_reported_in_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("agent.sock");
    let args = [
        "agent",
        "-r",
        "/nowhere/x.sock",
        "--listen",
        socket.to_str().unwrap(),
    ];
    let in_use = format!("cannot listen on {address}: address already in use");
    let listen = ["--listen", &address];
    let said = Pleg::new(&[&args[..], &listen].concat()).run().sentence();
    assert_eq!(said, in_use);

    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "metricsListen: {address}\nlisten: 127.0.0.1:0").unwrap();
    let config = ["--config", file.path().to_str().unwrap()];
    let said = Pleg::new(&[&args[..], &config].concat()).run().sentence();
    assert_eq!(said, in_use);
}

#[test]
fn a_socket_in_use_is_reported_and_a_stale_one_replaced() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("agent.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let socket = socket.to_str().unwrap();
    let first = Agent::listening(socket, &runtime.endpoint(), "");
    first.wait_healthy();

    let second = |socket: &str| {
        let args = ["agent", "-r", "/nowhere/x.sock", "--listen", "127.0.0.1:0"];
        Pleg::new(&[&args[..], &["--listen", socket]].concat())
            .run()
            .sentence()
    };
    let advice = "or use --listen with another path";
    let in_use = format!("something already listens on {socket}: stop it, {advice}");
    assert_eq!(second(socket), in_use);
    assert_eq!(first.get("/livez").code, 200, "the first one goes on");

    let file = NamedTempFile::new().unwrap();
    let file = file.path().to_str().unwrap();
    let advice = "use --listen with another path";
    assert_eq!(
        second(file),
        format!("{file} exists and is not a socket; {advice}")
    );
    assert_eq!(
        second("/dev/null/agent.sock"),
        "cannot listen on /dev/null/agent.sock: not a directory"
    );
}

#[test]
fn a_group_that_does_not_exist_is_reported() {
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "socketGroup: no-such-group\nlisten: 127.0.0.1:0").unwrap();
    let config = file.path().to_str().unwrap();
    let args = ["agent", "-r", "/nowhere/x.sock", "--config", config];
    let said = Pleg::new(&args).run().sentence();
    assert_eq!(said, "socketGroup no-such-group: no such group");
}

#[test]
fn a_flag_takes_precedence_over_the_endpoint_in_the_configuration() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let other = FakeRuntime::with_pods(&[("b", &["x"])]);
    let line = format!("containerRuntimeEndpoint: {}\n", runtime.endpoint());
    let by_file = Agent::configured("", &line);
    by_file.wait_healthy();
    assert_eq!(by_file.pods(), ["a"]);
    let by_flag = Agent::configured(&other.path(), &line);
    by_flag.wait_healthy();
    assert_eq!(by_flag.pods(), ["b"]);
}

#[test]
fn the_log_of_an_agent_is_json_to_its_last_line_if_requested() {
    let runtime = FakeRuntime::with_pods(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let place = tempfile::tempdir().unwrap();
    let messages = |listen: &str| -> Vec<String> {
        let args = ["agent", "-r", &runtime.path(), "-o", "json"];
        let agent = Pleg::new(&[&args[..], &["--listen", listen]].concat());
        let mut agent = agent
            .env("PLEG_STATE_DIR", place.path().to_str().unwrap())
            .start();
        // Once the first relist is complete, the agent logs nothing about it after the signal.
        eventually("it is healthy or has ended", || {
            let is_healthy = agent.log().contains("Healthy");
            (is_healthy || agent.has_ended()).then_some(())
        });
        if !agent.has_ended() {
            agent.signal(Signal::TERM);
        }
        let log = agent.end(TEST_LIMIT).err;
        let lines = log.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect(line);
            assert!(line["timestamp"].is_string() && line["level"].is_string());
            line["message"].as_str().unwrap().to_owned()
        });
        lines.collect()
    };
    let well = messages("127.0.0.1:0");
    assert!(well[0].starts_with("watching unix://"), "{well:?}");
    assert_eq!(well.last().unwrap(), "stopping on SIGTERM");
    let refused = messages(&taken);
    assert_eq!(
        refused,
        [format!("cannot listen on {taken}: address already in use")]
    );
}

#[test]
fn an_agent_logs_once_that_it_waits_for_its_runtime() {
    let (ours, journal) = std::os::unix::net::UnixStream::pair().unwrap();
    let place = tempfile::tempdir().unwrap();
    let about = rustix::fs::fstat(&journal).unwrap();
    let mut agent = std::process::Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["agent", "-r", "", "--listen", "127.0.0.1:0", "--listen"])
        .arg(place.path().join("agent.sock"))
        .env(
            "JOURNAL_STREAM",
            format!("{}:{}", about.st_dev, about.st_ino),
        )
        .env("PLEG_STATE_DIR", place.path())
        .stderr(std::os::fd::OwnedFd::from(journal))
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(ours);
    let mut first = String::new();
    std::io::BufRead::read_line(&mut lines, &mut first).unwrap();
    // Longer than one attempt to find a runtime.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(agent.try_wait().unwrap().is_none(), "{first}");
    let pid = rustix::process::Pid::from_child(&agent);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    let said = "no container runtime found yet: waiting for one of /run/containerd/";
    // On a machine with a runtime, that runtime is observed at once.
    if !first.contains("watching unix://") {
        assert!(first.starts_with("<4>") && first.contains(said), "{first}");
        assert_eq!(rest.lines().count(), 1, "{rest}");
    }
    assert!(
        rest.contains("<6>") && rest.contains("stopping on"),
        "{rest}"
    );
}
