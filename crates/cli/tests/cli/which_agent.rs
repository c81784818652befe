//! Which agent a command uses and trusts.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use crate::support::{Agent, FakeRuntime, Pleg, eventually};

#[test]
fn an_agent_on_the_default_socket_is_used_if_it_watches_the_same_runtime() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let other = FakeRuntime::with_pods(&[("b", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    let socket = format!("{place}/agent.sock");
    let agent = Agent::listening(&socket, &runtime.endpoint(), "");
    agent.wait_healthy();
    let header = |path: &str| {
        let watch = Pleg::new(&["watch", "-r", path]).env("PLEG_STATE_DIR", place);
        watch.start().line("the header", |_| true)
    };
    assert!(header(&runtime.path()).ends_with("via the agent\n"));
    assert!(header(&other.path()).contains("relisting every 1s"));
    let status = |path: &str| {
        let args = ["status", "-r", path, "-o", "json"];
        let status = Pleg::new(&args).env("PLEG_STATE_DIR", place);
        status.run().assert_code(0).value()
    };
    assert_eq!(status(&runtime.path())["relist"]["periodSeconds"], 0.05);
    assert_eq!(status(&other.path())["relist"]["periodSeconds"], 1.0);
}

#[test]
fn the_default_socket_is_below_the_state_directory() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("pleg");
    let state = state.to_str().unwrap();
    let args = ["agent", "-r", &runtime.path(), "--listen", "127.0.0.1:0"];
    let mut agent = Pleg::new(&args).env("PLEG_STATE_DIR", state).start();
    eventually("it serves", || {
        let where_it_serves = format!("serving on unix://{state}/agent.sock");
        agent.log().contains(&where_it_serves).then_some(())
    });
    let args = ["status", "-o", "json"];
    let status = || Pleg::new(&args).env("PLEG_STATE_DIR", state).run();
    eventually("it has seen the pods", || {
        (status().value()["pods"] == 1).then_some(())
    });
}

#[test]
fn a_doctor_with_an_agents_endpoint_does_not_warn_of_a_missing_runtime() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    let agent = Agent::listening(&format!("{place}/agent.sock"), &runtime.endpoint(), "");
    agent.wait_healthy();
    let doctor = Pleg::new(&["doctor", "-r", "", "-o", "json"]).env("PLEG_STATE_DIR", place);
    let ended = doctor.run();
    assert!(
        !ended.err.contains("no container runtime found"),
        "{}",
        ended.err
    );
    let probed = ended.value();
    let probes = probed["probes"].as_array().expect("calls");
    assert!(!probes.is_empty(), "{probed}");
    // On a machine with a runtime, that runtime is found without an agent.
    let alone = Pleg::new(&["doctor", "-r", "", "--agent", "off"]).run();
    if let Some(warning) = alone
        .err
        .lines()
        .find(|line| line.contains("runtime found"))
    {
        assert!(
            warning.ends_with("microk8s/common/run/containerd.sock"),
            "{warning}"
        );
        assert!(!warning.contains("\\n"), "{warning}");
    }
}

#[test]
fn a_named_agent_that_does_not_answer_is_exit_code_2() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    for command in ["status", "watch", "pods", "doctor"] {
        let args = [command, "-r", &runtime.path(), "--agent", "/nowhere/a.sock"];
        let said = Pleg::new(&args).run().sentence();
        assert_eq!(
            said, "no agent on /nowhere/a.sock: no such file or directory",
            "{command}"
        );
    }
    for address in ["http://127.0.0.1:20258", "127.0.0.1:20258", "a.sock"] {
        let ended = Pleg::new(&["status", "--agent", address]).run();
        let said = ended.assert_code(2).err;
        assert!(said.contains("write unix:///path/to.sock"), "{said}");
    }
}

#[test]
fn a_server_that_is_no_agent_is_reported_as_such() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("a.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let socket = socket.to_str().unwrap();
    let said = Pleg::new(&["status", "--agent", socket]).run().sentence();
    assert_eq!(said, format!("the agent on {socket} answers 404 Not Found"));
}

#[test]
fn an_agent_of_another_user_is_not_trusted() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let socket = place.path().join("agent.sock");
    let open = Permissions::from_mode(0o777);
    std::fs::set_permissions(runtime.socket(), open.clone()).unwrap();
    std::fs::set_permissions(runtime.socket().parent().unwrap(), open).unwrap();
    let socket = socket.to_str().unwrap();
    let args = ["agent", "-r", &runtime.path(), "--listen", "127.0.0.1:0"];
    let args = [&args[..], &["--listen", socket]].concat();
    let Some(foreign) = Pleg::new(&args).with_other_user() else {
        return;
    };
    let mut foreign = foreign.env("PLEG_STATE_DIR", "/dev/null/nowhere").start();
    eventually("it serves", || {
        foreign.log().contains("serving on").then_some(())
    });

    let said = Pleg::new(&["status", "--agent", socket]).run().sentence();
    let why = "runs as user 65534, which is neither root nor this user";
    assert_eq!(said, format!("the agent on {socket} {why}"));
    for command in ["status", "pods"] {
        let looked = Pleg::new(&[command, "-r", &runtime.path()])
            .env("PLEG_STATE_DIR", place.path().to_str().unwrap())
            .run();
        let looked = looked.assert_code(0);
        let warning = format!("ignored: the agent on {socket} {why}");
        assert!(looked.err.contains(&warning), "{}", looked.err);
    }
    eventually("its own user believes it", || {
        let own = Pleg::new(&["status", "--agent", socket])
            .with_other_user()
            .unwrap();
        (own.run().code == Some(0)).then_some(())
    });
}

#[test]
fn a_socket_whose_mode_was_changed_still_admits_no_other_user() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let with_other_user = || Pleg::new(&["status", "--agent", &agent.socket]).with_other_user();
    let Some(closed) = with_other_user() else {
        return;
    };
    let said = closed.run().sentence();
    assert!(said.ends_with("permission denied"), "{said}");
    std::fs::set_permissions(&agent.socket, Permissions::from_mode(0o666)).unwrap();
    let said = with_other_user().unwrap().run().sentence();
    assert!(said.contains("does not answer: "), "{said}");
    assert_eq!(agent.get("/livez").code, 200);
}

#[test]
fn a_status_without_an_agent_warns_on_standard_error() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    let status = |agent: &[&str]| {
        let args = ["status", "-r", &runtime.path(), "-o", "json"];
        let status = Pleg::new(&[&args[..], agent].concat()).env("PLEG_STATE_DIR", place);
        status.run().assert_code(0)
    };
    let alone = status(&[]);
    assert_eq!(alone.value()["pods"], 1);
    let why = format!("no agent on {place}/agent.sock: no such file or directory");
    assert!(alone.err.contains(&why), "{}", alone.err);
    assert_eq!(status(&["--agent", "off"]).err, "");
    let agent = Agent::listening(&format!("{place}/agent.sock"), &runtime.endpoint(), "");
    agent.wait_healthy();
    assert_eq!(status(&[]).err, "");
}
