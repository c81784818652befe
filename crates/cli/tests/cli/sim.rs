//! `pleg sim` as the runtime of `pleg`.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ended, Pleg, Running, assert_keys, assert_time, eventually};

const SOON: Duration = Duration::from_secs(3);

/// A folder for a socket and a scenario.
struct Place {
    folder: TempDir,
    socket: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("sim.sock").display().to_string();
        Self { folder, socket }
    }

    fn scenario(&self, text: &str) -> PathBuf {
        let file = self.folder.path().join("a.scenario");
        fs::write(&file, text).unwrap();
        file
    }

    fn sim(&self, scenario: &str, more: &[&str]) -> Pleg {
        let file = self.scenario(scenario).display().to_string();
        let args = ["sim", "--listen", &self.socket, "--scenario", &file];
        Pleg::new(&[&args, more].concat())
    }

    /// Starts a simulated runtime, and waits until it listens.
    #[track_caller]
    fn serve(&self, scenario: &str, more: &[&str]) -> Running {
        let more = [&["-o", "json"], more].concat();
        let mut sim = self.sim(scenario, &more).start();
        sim.record("it listens", |record| record["kind"] == "listening");
        sim
    }

    /// Waits until the scenario has reached this line.
    #[track_caller]
    fn reached(sim: &mut Running, line: u64) -> Value {
        sim.record("a line of the scenario", |record| record["line"] == line)
    }

    fn look(&self, command: &str) -> Ended {
        let args = [command, "-r", &self.socket, "--agent", "off", "-o", "json"];
        Pleg::new(&args).run()
    }
}

#[test]
fn the_simulated_pods_are_observed() {
    let place = Place::new();
    let _sim = place.serve("", &["--pods", "3", "--containers", "2"]);
    let pods = place.look("pods").assert_code(0).value();
    let pods = pods.as_array().unwrap();
    assert_eq!(pods.len(), 3);
    assert_eq!(pods[2]["name"], "pod-2");
    assert_eq!(pods[2]["containers"].as_array().unwrap().len(), 2);
    assert_eq!(pods[2]["containers"][0]["state"], "running");
}

#[test]
fn a_container_that_hangs_in_the_scenario_is_reported() {
    let place = Place::new();
    let mut sim = place.serve(
        "0s run web nginx\n0s run db postgres\n0s status-lock db/postgres",
        &[],
    );
    Place::reached(&mut sim, 3);
    let watched = place.look("status").assert_code(1).value();
    let stuck = watched["stuck"].as_array().unwrap();
    assert!(
        stuck.iter().any(|stuck| stuck["call"] == "ListContainers"),
        "{watched}"
    );
}

#[test]
fn each_action_is_an_object_and_the_end_is_exit_code_0() {
    let place = Place::new();
    let scenario = "0s run web nginx   # a pod\n0s churn 20/s for 100ms\n300ms end";
    let ended = place.sim(scenario, &["-o", "json"]).run().assert_code(0);
    let records = ended.records();
    assert_keys(
        &records[0],
        &["kind", "time", "endpoint", "pods", "containers"],
    );
    assert_eq!(records[0]["endpoint"], format!("unix://{}", place.socket));
    for record in &records[1..] {
        assert_keys(
            record,
            &[
                "kind",
                "time",
                "atSeconds",
                "line",
                "action",
                "byChurn",
                "failure",
            ],
        );
        assert_eq!(record["kind"], "scenario");
        assert_time(&record["time"]);
    }
    let actions: Vec<_> = records[1..]
        .iter()
        .map(|record| record["action"].as_str().unwrap())
        .collect();
    assert_eq!(
        actions,
        [
            "run web nginx",
            "churn 20/s for 100ms",
            "restart web/nginx",
            "restart web/nginx",
            "end"
        ]
    );
    assert_eq!(records[3]["byChurn"], true);
    assert!(!PathBuf::from(&place.socket).exists());
}

#[test]
fn the_text_shows_where_it_listens_and_each_action() {
    let place = Place::new();
    let ended = place.sim("0s run web nginx\n100ms end", &[]).run();
    let shown = ended.assert_code(0).out;
    let expected = format!(
        "Listening on unix://{0}: CRI v1, 0 pods, 0 containers\n\
         Watch it with: pleg watch --agent off -r unix://{0}\n        \
                 0s  run web nginx\n     \
              100ms  end\n",
        place.socket
    );
    assert_eq!(shown, expected);
}

#[test]
fn a_restart_of_the_runtime_is_survived_by_a_watch() {
    let place = Place::new();
    let mut sim = place.serve("0s run web nginx\n2s restart-runtime for 1500ms", &[]);
    let args = ["watch", "-r", &place.socket, "--agent", "off", "-o", "json"];
    let mut watch = Pleg::new(&args).start();
    watch.record("synced", |record| record["kind"] == "synced");
    Place::reached(&mut sim, 2);
    let trouble = watch.record("trouble", |record| record["state"] == "Degraded");
    let message = trouble["message"].as_str().unwrap();
    assert!(message.contains("cannot be reached"), "{message}");
    watch.record("well again", |record| record["state"] == "Healthy");
}

#[test]
fn an_error_in_a_scenario_is_shown_with_its_line_and_nothing_listens() {
    let place = Place::new();
    for (scenario, shown) in [
        (
            "0s run web\n5s hagn ListContainers",
            [
                "a.scenario:2: expected a verb (run,",
                "found \"hagn\"",
                "\n  5s hagn ListContainers\n     ^^^^\n",
            ],
        ),
        (
            "0s run web nginx\n1s exit web/ngnix 1",
            [
                "a.scenario:2: there is no container web/ngnix",
                "\n  1s exit web/ngnix 1\n",
                "     ^^^^^^^^^^^^^^^^\n",
            ],
        ),
    ] {
        let ended = place.sim(scenario, &[]).run().assert_code(2);
        assert_eq!(ended.out, "");
        for part in shown {
            assert!(ended.err.contains(part), "{}", ended.err);
        }
        assert!(!PathBuf::from(&place.socket).exists());
    }
    let missing = Pleg::new(&["sim", "--listen", &place.socket, "--scenario", "/none"]).run();
    assert_eq!(
        missing.sentence(),
        "cannot read the scenario /none: no such file or directory"
    );
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_kept() {
    let place = Place::new();
    drop(UnixListener::bind(&place.socket).unwrap());
    let live = place.serve("", &[]);
    let refused = place.sim("", &[]).run().sentence();
    assert!(
        refused.ends_with(&format!("a server listens on {} already", place.socket)),
        "{refused}"
    );
    place.look("pods").assert_code(0);
    live.signal(Signal::INT);
    live.end(SOON).assert_code(0);

    fs::write(&place.socket, "a letter").unwrap();
    let refused = place.sim("", &[]).run().sentence();
    assert!(refused.ends_with("exists and is not a socket"), "{refused}");
    assert_eq!(fs::read_to_string(&place.socket).unwrap(), "a letter");
}

#[test]
fn a_signal_ends_the_simulation_with_exit_code_0_and_removes_the_socket() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        // Also while all calls hang, and while nothing listens on the socket.
        let scenario = "0s run web nginx\n0s restart-runtime for 1h";
        for scenario in ["0s hang everything", scenario] {
            let mut sim = place.serve(scenario, &[]);
            Place::reached(&mut sim, scenario.lines().count() as u64);
            sim.signal(signal);
            let ended = sim.end(SOON).assert_code(0);
            assert_eq!(ended.err, "");
            assert!(!PathBuf::from(&place.socket).exists());
        }
    }
}

#[test]
fn a_simulated_runtime_serves_although_its_output_is_not_read() {
    let place = Place::new();
    let file = place.scenario("0s run web nginx\n0s churn 2000/s");
    let mut sim = Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["sim", "-o", "json", "--listen", &place.socket])
        .arg("--scenario")
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("more was done than a pipe holds, and it answers", || {
        let pods = place.look("pods");
        // The runtime may not listen yet, and a container may be removed during the inspection.
        let seen = (pods.code == Some(0)).then(|| pods.value())?;
        let attempt = seen[0]["containers"][0]["attempt"].as_u64();
        attempt.filter(|attempt| *attempt > 2000)
    });
    sim.kill().unwrap();
    sim.wait().unwrap();
}

#[test]
fn without_a_scenario_there_are_pods_and_help_has_an_example() {
    let place = Place::new();
    let mut sim = Pleg::new(&["sim", "--listen", &place.socket]).start();
    let first = sim.line("it listens", |_| true);
    assert!(first.ends_with("10 pods, 20 containers\n"), "{first}");
    let help = Pleg::new(&["sim", "--help"]).run().assert_code(0).out;
    for taught in ["status-lock web/nginx", "restart-runtime", "docs/sim.md"] {
        assert!(help.contains(taught), "{help}");
    }
    Pleg::new(&["sim"]).run().assert_code(2);
}
