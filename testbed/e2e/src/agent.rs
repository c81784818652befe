//! Runs an agent. Only its status shows the stream, the period of lists and the kernel's events.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Running, WAIT_LIMIT, command, pleg_json};

/// An agent logs this, followed by the path of its socket.
const SERVING: &str = "serving on unix://";

/// A guard logs this when it listens.
const GUARDING: &str = "guarding unix://";

/// `pleg agent` on a private socket, killed when dropped.
pub struct Agent {
    child: Child,
    command: Command,
    /// The guard beside the agent, if there is one.
    guard: Option<(Child, Command)>,
    socket: String,
    place: TempDir,
}

impl Agent {
    /// Starts an agent that watches this runtime with the default settings.
    pub fn watching(endpoint: &cri::Endpoint) -> Self {
        Self::start(|place| {
            let socket = place.join("agent.sock").display().to_string();
            let mut agent = command();
            agent.args(["agent", "--listen", &socket, "--listen", "127.0.0.1:0"]);
            agent.args(["-r", &endpoint.to_string()]);
            agent
        })
    }

    /// Starts an agent that watches this runtime with these lines of configuration.
    pub fn configured(endpoint: &cri::Endpoint, lines: &str) -> Self {
        Self::start(|place| configured(place, endpoint, lines))
    }

    /// Starts a guard of this runtime and an agent beside it with these lines of configuration. Returns
    /// the agent and the endpoint of the guard.
    pub fn guarding(endpoint: &cri::Endpoint, lines: &str) -> (Self, cri::Endpoint) {
        let place = tempfile::tempdir().expect("a temporary directory");
        let cri = cri::Endpoint::new(place.path().join("cri.sock"));
        let mut guard = command();
        guard.env("PLEG_STATE_DIR", place.path()).arg("guard");
        guard.args(["--listen", &cri.to_string(), "-r", &endpoint.to_string()]);
        guard.stderr(Stdio::piped());
        let process = serving(&mut guard, GUARDING);
        let mut agent = Self::in_place(place, |place| configured(place, endpoint, lines));
        agent.guard = Some((process, guard));
        agent.until("the guard", |status| status["guard"]["mode"] == "guard");
        (agent, cri)
    }

    fn start(command: impl FnOnce(&Path) -> Command) -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        Self::in_place(place, command)
    }

    fn in_place(place: TempDir, command: impl FnOnce(&Path) -> Command) -> Self {
        let mut command = command(place.path());
        command.stderr(Stdio::piped());
        Self {
            child: serving(&mut command, SERVING),
            command,
            guard: None,
            socket: place.path().join("agent.sock").display().to_string(),
            place,
        }
    }

    /// Kills the agent and its guard with `SIGKILL`, and starts both again.
    pub fn kill_and_start_again(&mut self) {
        self.end();
        if let Some((process, command)) = &mut self.guard {
            *process = serving(command, GUARDING);
        }
        self.child = serving(&mut self.command, SERVING);
    }

    /// Kills the agent and its guard with `SIGKILL`.
    pub fn end(&mut self) {
        let guard = self.guard.as_mut().map(|(process, _)| process);
        for process in [Some(&mut self.child), guard].into_iter().flatten() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// The path of a file or directory in the agent's state directory.
    pub fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    /// The text of all files in the agent's state directory whose names have this ending.
    pub fn kept(&self, ending: &str) -> String {
        let files = std::fs::read_dir(self.place.path()).expect("the directory is readable");
        let paths = files.map(|file| file.expect("the directory is readable").path());
        let named = paths.filter(|path| path.to_string_lossy().ends_with(ending));
        named
            .map(|path| std::fs::read_to_string(path).expect("it is UTF-8"))
            .collect()
    }

    /// The agent's `/v1/status`.
    pub fn status(&self) -> Value {
        pleg_json(&["status", "--agent", &self.socket])
    }

    /// Waits until the agent's status is `wanted`, and returns it. A panic names the `condition`.
    #[track_caller]
    pub fn until(&self, condition: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until_within(WAIT_LIMIT, condition, wanted)
    }

    /// Like [`Self::until`], with this limit.
    #[track_caller]
    pub fn until_within(
        &self,
        limit: Duration,
        condition: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + limit;
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{condition}: not within {limit:?}: {status:#}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts `pleg watch` on this agent.
    pub fn watch(&self) -> Running {
        Running::start(&["watch", "-o", "json", "--agent", &self.socket])
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}

/// The command of an agent of this runtime with these lines of configuration.
fn configured(place: &Path, endpoint: &cri::Endpoint, lines: &str) -> Command {
    let config = place.join("config.yaml");
    let socket = place.join("agent.sock");
    let socket = format!("socket: {}\nlisten: 127.0.0.1:0\n", socket.display());
    std::fs::write(&config, socket + lines).expect("the temporary directory is writable");
    let mut agent = command();
    agent.env("PLEG_STATE_DIR", place).arg("agent");
    agent.args(["-r", &endpoint.to_string()]);
    agent.arg("--config").arg(config);
    agent
}

/// Starts a process, and waits until it logs `line`.
fn serving(command: &mut Command, line: &str) -> Child {
    let mut child = command.spawn().expect("the binary was built");
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut lines = log.lines().map_while(Result::ok);
    let serves = lines.any(|logged| logged.contains(line));
    assert!(serves, "the log has no line with {line:?}");
    // Read the log to the end: a full pipe would block the agent.
    std::thread::spawn(move || lines.for_each(drop));
    child
}
