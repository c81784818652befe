//! Tools of the end-to-end tests: a pleg process whose records are read, and a containerd for each test.
//!
//! ```text
//!   Testbed (private containerd) <-- Driver: starts and ends pods and faults
//!        ^
//!        +-- pleg watch / agent --> Running: its records, with a deadline for each wait
//! ```

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed_driver::Testbed;

mod agent;
pub mod doctor;
pub mod run_node;
pub mod soak;
mod ticks;

pub use agent::Agent;

/// How long a test waits for a record or a status. Lists may be 30 seconds apart, and the machine may
/// be busy.
pub const WAIT_LIMIT: Duration = Duration::from_secs(40);

/// The newest containerd and runc of Debian.
pub const NEWEST: &str = "2";

/// A version after its end of life. It delivers each event to one reader only, and holds its status lock
/// while a shim is stopped.
pub const LEGACY: &str = "1.7";

/// A version without events and with v1alpha2. It is tested where this matters.
pub const WITHOUT_EVENTS: &str = "1.6";

/// The versions that are tested where versions may differ.
pub const VERSIONS: [&str; 2] = [NEWEST, LEGACY];

/// `VERSIONS`, and the version without events.
pub const ALL_VERSIONS: [&str; 3] = [NEWEST, LEGACY, WITHOUT_EVENTS];

/// An instance of the newest version.
pub async fn newest(name: &str) -> Testbed {
    Testbed::up(NEWEST, name).await.unwrap()
}

/// The binary under test. `make test` builds it into the directory of the tests.
fn binary() -> PathBuf {
    let tests = std::env::current_exe().expect("a test has a path");
    let folder = tests.parent().and_then(|deps| deps.parent());
    folder.expect("tests are in target/debug/deps").join("pleg")
}

/// The programs under test.
pub fn programs() -> soak::Programs {
    let pleg = binary();
    let guard = pleg.with_file_name("pleg-guard");
    soak::Programs { pleg, guard }
}

/// A command that runs pleg, without arguments.
pub fn command() -> Command {
    Command::new(binary())
}

/// Runs pleg to its end.
pub fn pleg(arguments: &[&str]) -> Output {
    command()
        .args(arguments)
        .output()
        .expect("the binary was built")
}

/// Runs pleg to its end and reads the JSON that it wrote.
pub fn pleg_json(arguments: &[&str]) -> Value {
    json(&pleg(&[arguments, &["-o", "json"]].concat()))
}

/// The JSON that a process wrote.
fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}, {output:?}"))
}

/// A pleg process that runs in the background, killed when dropped.
pub struct Running {
    child: Child,
    lines: Receiver<(Instant, Value)>,
    history: RefCell<Vec<Value>>,
}

impl Running {
    /// Starts `pleg watch -o json` on an endpoint, with these options.
    pub fn watch(endpoint: &cri::Endpoint, options: &[&str]) -> Self {
        let endpoint = endpoint.to_string();
        let arguments = ["watch", "-o", "json", "--agent", "off", "-r", &endpoint];
        Self::start(&[&arguments, options].concat())
    }

    /// Starts pleg with these arguments. The command writes JSON lines, or nothing.
    pub fn start(arguments: &[&str]) -> Self {
        Self::of(command().args(arguments))
    }

    /// Starts this command, which writes JSON lines, or nothing.
    pub fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let record = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send((Instant::now(), record)).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            history: RefCell::default(),
        }
    }

    /// Returns the records up to the first `wanted` one, which is the last in the result. If there is none
    /// within the limit, panics with `condition` and the records that were read.
    #[track_caller]
    pub fn until(&self, condition: &str, wanted: impl Fn(&Value) -> bool) -> Vec<(Instant, Value)> {
        let deadline = Instant::now() + WAIT_LIMIT;
        let mut records = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(record) => {
                    let found = wanted(&record.1);
                    self.history.borrow_mut().push(record.1.clone());
                    records.push(record);
                    if found {
                        return records;
                    }
                }
                Err(error) => panic!("{condition}: {error}; records: {records:#?}"),
            }
        }
    }

    /// The first `wanted` record among those that were read already or that follow.
    #[track_caller]
    pub fn ever(&self, condition: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let history = self.history.borrow();
        let read = history.iter().find(|record| wanted(record)).cloned();
        drop(history);
        read.unwrap_or_else(|| self.first(condition, wanted).1)
    }

    /// Waits for the first `wanted` record. Returns when it arrived, and the record.
    #[track_caller]
    fn first(&self, condition: &str, wanted: impl Fn(&Value) -> bool) -> (Instant, Value) {
        let records = self.until(condition, wanted);
        let last = records.into_iter().next_back();
        last.expect("until returns at least one")
    }

    /// Whether a record that is `wanted` was read already.
    pub fn has_read(&self, wanted: impl Fn(&Value) -> bool) -> bool {
        self.history.borrow().iter().any(wanted)
    }

    /// All records that arrive within `time`.
    pub fn within(&self, time: Duration) -> Vec<Value> {
        let deadline = Instant::now() + time;
        let mut records = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok((_, record)) => records.push(record),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return records,
            }
        }
    }

    /// Waits for the record `synced`.
    #[track_caller]
    pub fn synced(&self) {
        self.until("synced", |record| record["kind"] == "synced");
    }

    /// Waits for an event of a container. Returns when it arrived, and the event.
    #[track_caller]
    pub fn event(&self, kind: &str, id: &str) -> (Instant, Value) {
        let condition = format!("{kind} of {id}");
        self.first(&condition, |record| is_event(record, kind, id))
    }

    /// Waits for a record with this state of health, and returns it.
    #[track_caller]
    pub fn health(&self, state: &str) -> Value {
        self.first(state, |record| record["state"] == state).1
    }
}

/// Whether a record is an event of this type about this id.
pub fn is_event(record: &Value, kind: &str, id: &str) -> bool {
    record["kind"] == "event" && record["type"] == kind && record["id"] == id
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
