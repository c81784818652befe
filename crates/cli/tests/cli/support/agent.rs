//! A running agent.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

use super::{Answer, Ended, Pleg, Running, TEST_LIMIT, eventually, get, lines};

/// An agent on its own socket, and on free ports.
pub struct Agent {
    running: Running,
    pub socket: String,
    pub health_address: String,
    pub metrics_address: Option<String>,
    _place: Option<TempDir>,
    _config: NamedTempFile,
    /// The directory of the agent's recording.
    pub history: TempDir,
}

impl Agent {
    /// An agent that observes `endpoint` with a short period.
    pub fn watching(endpoint: &str) -> Self {
        Self::configured(endpoint, "")
    }

    /// An agent with more lines of configuration.
    pub fn configured(endpoint: &str, lines: &str) -> Self {
        Self::start(None, endpoint, lines, env!("CARGO_TARGET_TMPDIR"))
    }

    /// An agent that listens on this socket.
    pub fn listening(socket: &str, endpoint: &str, lines: &str) -> Self {
        Self::start(Some(socket), endpoint, lines, env!("CARGO_TARGET_TMPDIR"))
    }

    /// An agent with this state directory.
    pub fn keeping_state_in(folder: &str, endpoint: &str) -> Self {
        Self::start(None, endpoint, "", folder)
    }

    fn start(socket: Option<&str>, endpoint: &str, lines: &str, state: &str) -> Self {
        let place = socket.is_none().then(|| {
            let place = tempfile::tempdir().unwrap();
            // Other users are kept out by the socket, not by its folder.
            let open = Permissions::from_mode(0o755);
            std::fs::set_permissions(place.path(), open).unwrap();
            place
        });
        let socket = match (&place, socket) {
            (Some(place), _) => place.path().join("agent.sock").display().to_string(),
            (None, socket) => socket.unwrap_or_default().to_owned(),
        };
        let mut config = NamedTempFile::new().unwrap();
        let history = tempfile::tempdir().unwrap();
        // Each agent has its own history, wherever its state is.
        let folder = history.path().display();
        let recorded = match lines.contains("history:") {
            true => String::new(),
            false => format!("history:\n  directory: {folder}\n"),
        };
        let period = match lines.contains("relistPeriod:") {
            true => "",
            false => "relistPeriod: 50ms\n",
        };
        write!(config, "{period}{lines}{recorded}").unwrap();
        let path = config.path().to_str().unwrap().to_owned();
        let args = ["-v", "agent", "-r", endpoint, "--config", &path];
        let listen = ["--listen", &socket, "--listen", "127.0.0.1:0"];
        let args = [&args[..], &listen].concat();
        let mut running = Pleg::new(&args).env("PLEG_STATE_DIR", state).start();
        let health_address = said_address(&mut running, 1);
        let metrics_address = lines
            .contains("metricsListen")
            .then(|| said_address(&mut running, 2));
        Self {
            running,
            socket,
            health_address,
            metrics_address,
            _place: place,
            _config: config,
            history,
        }
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        get(&self.socket, path)
    }

    /// The records of `/v1/events`, as they arrive.
    pub fn events(&self) -> impl Iterator<Item = Value> + use<> {
        lines(&self.socket, "/v1/events")
    }

    /// Waits until an answer matches.
    #[track_caller]
    pub fn wait(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let what = format!("{path} is as wanted");
        let mut last = None;
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&what, || {
                let answer = self.get(path);
                last = Some(answer.clone());
                wanted(&answer).then_some(answer)
            })
        }));
        found.unwrap_or_else(|_| panic!("{what}: {last:#?}"))
    }

    /// Waits until all pods are up to date.
    #[track_caller]
    pub fn wait_healthy(&self) {
        self.wait("/healthz?verbose", |answer| {
            answer.code == 200 && answer.body.starts_with("Healthy: ")
        });
    }

    /// The names of the known pods, in order.
    #[track_caller]
    pub fn pods(&self) -> Vec<String> {
        let pods = self.get("/v1/pods").json();
        let pods = pods.as_array().unwrap().iter();
        let mut names: Vec<String> = pods
            .map(|pod| pod["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    pub fn log(&mut self) -> &str {
        self.running.log()
    }

    /// Stops the agent: its socket accepts connections, but they are not served.
    pub fn stop(&self) {
        self.running.signal(Signal::STOP);
    }

    /// Sends SIGHUP, as if the terminal closed from which the agent was started.
    pub fn hang_up(&self) {
        self.running.signal(Signal::HUP);
    }

    pub fn terminate(&self) {
        self.running.signal(Signal::TERM);
    }

    #[track_caller]
    pub fn end(self) -> Ended {
        self.running.end(TEST_LIMIT)
    }
}

/// The address with this number, from 1, in the log of the agent.
#[track_caller]
fn said_address(running: &mut Running, number: usize) -> String {
    eventually("the agent reports where it serves", || {
        assert!(!running.has_ended(), "{}", running.log());
        let log = running.log();
        let after = log
            .split("serving health and metrics on http://")
            .nth(number)?;
        let (address, _) = after.split_once('\n')?;
        Some(address.to_owned())
    })
}
