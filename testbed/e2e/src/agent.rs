//! An agent, for what only its status tells: the stream, the period, the kernel.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{PATIENCE, Running, command, pleg_json};

/// What an agent logs before its socket.
const SERVING: &str = "serving on unix://";

/// `pleg agent` on a socket of its own, killed when dropped.
pub struct Agent {
    child: Child,
    command: Command,
    socket: String,
    place: TempDir,
}

impl Agent {
    /// One that watches this runtime as it does by default.
    pub fn watching(endpoint: &cri::Endpoint) -> Self {
        Self::start(|place| {
            let socket = place.join("agent.sock").display().to_string();
            let mut agent = command();
            agent.args(["agent", "--listen", &socket, "--listen", "127.0.0.1:0"]);
            agent.args(["-r", &endpoint.to_string()]);
            agent
        })
    }

    /// The same with these lines of configuration besides.
    pub fn configured(endpoint: &cri::Endpoint, lines: &str) -> Self {
        Self::start(|place| {
            let config = place.join("config.yaml");
            let socket = place.join("agent.sock");
            let socket = format!("socket: {}\nlisten: 127.0.0.1:0\n", socket.display());
            std::fs::write(&config, socket + lines).expect("the folder is ours");
            let mut agent = command();
            agent.env("PLEG_STATE_DIR", place).arg("agent");
            agent.args(["-r", &endpoint.to_string()]);
            agent.arg("--config").arg(config);
            agent
        })
    }

    /// One that guards this runtime with these options, and where it does.
    pub fn guarding(endpoint: &cri::Endpoint, options: &[&str]) -> (Self, cri::Endpoint) {
        let mut guarded = None;
        let agent = Self::start(|place| {
            let config = place.join("config.yaml");
            let socket = place.join("agent.sock");
            let text = format!("socket: {}\nlisten: 127.0.0.1:0\n", socket.display());
            std::fs::write(&config, text).expect("the folder is ours");
            let cri = cri::Endpoint::new(place.join("cri.sock"));
            let mut guard = command();
            guard.env("PLEG_STATE_DIR", place).arg("guard");
            guard.args(["--listen", &cri.to_string(), "-r", &endpoint.to_string()]);
            guard.arg("--config").arg(config).args(options);
            guarded = Some(cri);
            guard
        });
        (agent, guarded.expect("it was started"))
    }

    fn start(command: impl FnOnce(&Path) -> Command) -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        let mut command = command(place.path());
        command.stderr(Stdio::piped());
        Self {
            child: serving(&mut command),
            command,
            socket: place.path().join("agent.sock").display().to_string(),
            place,
        }
    }

    /// Kills it as nobody can prevent, and starts it again.
    pub fn kill_and_start_again(&mut self) {
        self.end();
        self.child = serving(&mut self.command);
    }

    /// Kills it as nobody can prevent.
    pub fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A file or folder of its state directory.
    pub fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    /// The text of all files of its state directory whose names end so.
    pub fn kept(&self, ending: &str) -> String {
        let files = std::fs::read_dir(self.place.path()).expect("the folder is ours");
        let paths = files.map(|file| file.expect("it is there").path());
        let named = paths.filter(|path| path.to_string_lossy().ends_with(ending));
        named
            .map(|path| std::fs::read_to_string(path).expect("text"))
            .collect()
    }

    /// Its `/v1/status`.
    pub fn status(&self) -> Value {
        pleg_json(&["status", "--agent", &self.socket])
    }

    /// Waits until its status is as `wanted`.
    #[track_caller]
    pub fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{what} did not come: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// `pleg watch` through it.
    pub fn watch(&self) -> Running {
        Running::start(&["watch", "-o", "json", "--agent", &self.socket])
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts it, and waits until it serves.
fn serving(command: &mut Command) -> Child {
    let mut child = command.spawn().expect("the binary was built");
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut lines = log.lines().map_while(Result::ok);
    let serves = lines.any(|line| line.contains(SERVING));
    assert!(serves, "an agent says where it serves");
    // Read to the end: an agent whose log fills a pipe is another test's.
    std::thread::spawn(move || lines.for_each(drop));
    child
}
