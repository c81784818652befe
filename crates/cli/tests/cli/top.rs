//! `pleg top` in a real terminal, which it restores.

use std::io::Write;

use rustix::process::Signal;
use tempfile::NamedTempFile;

use crate::support::{Agent, FakeRuntime, Pleg, Running, Tmux};

/// A simulated runtime with this scenario, on its own socket.
fn simulated(scenario: &str) -> (Running, tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sim.sock").display().to_string();
    let mut file = NamedTempFile::new_in(&folder).unwrap();
    file.write_all(scenario.as_bytes()).unwrap();
    let (_, path) = file.keep().unwrap();
    let args = [
        "sim",
        "--listen",
        &socket,
        "--scenario",
        path.to_str().unwrap(),
    ];
    let mut sim = Pleg::new(&args).start();
    sim.line("it listens", |line| line.starts_with("Listening"));
    (sim, folder, socket)
}

#[test]
fn a_stuck_status_call_is_on_the_screen_with_its_pod_first() {
    let scenario = "0s run web nginx\n0s run db postgres\n3s hang ContainerStatus of db/postgres\n\
                    3s status-lock db/postgres\n4s exit web/nginx 137\n";
    let (_sim, _folder, socket) = simulated(scenario);
    let Some(screen) = Tmux::start(&["top", "--agent", "off", "-r", &socket]) else {
        return;
    };
    screen.wait_for("Running");
    let text = screen.wait("the culprit, the event and the bar are shown", |text| {
        [
            "Stuck",
            "ContainerStatus ",
            "Exited (137)",
            "ContainerDied",
            "│█",
        ]
        .iter()
        .all(|part| text.contains(part))
    });
    let pods: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("default/"))
        .collect();
    assert!(pods[0].starts_with("default/db "), "{text}");
    assert!(text.contains("Degraded: container "), "{text}");
    assert!(text.contains("NotReady in "), "{text}");

    screen.press(&["Enter"]);
    screen.wait_for("Calls that are not answered");
    screen.press(&["Escape"]);
    screen.wait_for("─ Pods 2");
    screen.press(&["/", "w", "e", "b", "Enter"]);
    screen.wait_for("─ Pods 1 of 2");
    screen.press(&["Escape"]);
    screen.wait_for("─ Pods 2");
    screen.press(&["d"]);
    screen.wait_for("Doctor: examining the node");
    screen.wait_for("status lock");
    screen.resize("120", "40");
    screen.wait_for("RUNNING");
    screen.resize("30", "10");
    screen.wait_for("too small");
    screen.resize("80", "24");
    screen.wait_for("─ Pods 2");
    screen.press(&["q"]);
    screen.wait_restored();
}

#[test]
fn a_signal_ends_the_screen_and_the_terminal_is_restored() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let args = ["top", "--agent", "off", "-r", &runtime.path()];
        let Some(screen) = Tmux::start(&args) else {
            return;
        };
        screen.wait_for("Running");
        screen.signal(signal);
        screen.wait_restored();
    }
}

#[test]
fn a_stopped_screen_restores_the_terminal_and_continues_afterwards() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    let args = ["top", "--agent", "off", "-r", &runtime.path()];
    let Some(screen) = Tmux::start(&args) else {
        return;
    };
    screen.wait_for("Running");
    for _ in 0..2 {
        screen.signal(Signal::TSTP);
        screen.wait("the screen is left", |text| !text.contains("web-0"));
        assert_eq!(screen.modes(), "0 1", "no alternate screen, and a cursor");
        screen.signal(Signal::CONT);
        screen.wait_for("web-0");
        assert_eq!(screen.modes(), "1 0", "an alternate screen, and no cursor");
    }
    screen.press(&["q"]);
    screen.wait_restored();
}

#[test]
fn the_screen_shows_that_the_agent_is_away_and_continues_when_it_is_back() {
    let runtime = FakeRuntime::with_pods(&[("web-0", &["app"])]);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock").display().to_string();
    let agent = Agent::listening(&socket, &runtime.path(), "");
    agent.wait_healthy();
    let args = ["top", "--agent", &socket, "-r", &runtime.path()];
    let Some(screen) = Tmux::start(&args) else {
        return;
    };
    screen.wait_for("agent at ");
    screen.wait_for("Running");
    agent.terminate();
    agent.end();
    let text = screen.wait_for("NOT CURRENT since ");
    assert!(text.contains("default/web-0"), "{text}");
    let agent = Agent::listening(&socket, &runtime.path(), "");
    agent.wait_healthy();
    screen.wait("it is current", |text| !text.contains("NOT CURRENT"));
    runtime.sim.exit("web-0", "app", 9);
    screen.wait_for("Exited (9)");
    screen.press(&["q"]);
    screen.wait_restored();
}

#[test]
fn without_a_terminal_the_error_names_the_commands_for_scripts() {
    let runtime = FakeRuntime::with_pods(&[]);
    let ended = Pleg::new(&["top", "-r", &runtime.path()])
        .run()
        .assert_code(2);
    for command in ["needs a terminal", "`pleg status`", "`pleg watch`"] {
        assert!(ended.err.contains(command), "{ended:?}");
    }
    let ended = Pleg::new(&["top", "-o", "json"]).run().assert_code(2);
    assert!(ended.err.contains("`pleg status -o json`"), "{ended:?}");
}

#[test]
fn the_help_lists_the_keys() {
    let help = Pleg::new(&["top", "--help"]).run().assert_code(0).out;
    for part in [
        "ctrl-z",
        "pleg doctor",
        "--agent",
        "--relist-period",
        "--namespace",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
