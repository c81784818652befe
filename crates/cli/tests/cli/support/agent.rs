//! A running agent.

use std::io::Write;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::{Answer, Ended, PATIENCE, Pleg, Running, eventually, get, lines};

/// An agent on a port that was free.
pub struct Agent {
    running: Running,
    pub address: String,
    pub metrics_address: Option<String>,
    _config: NamedTempFile,
}

impl Agent {
    /// One that watches `endpoint` and relists often.
    pub fn watching(endpoint: &str) -> Self {
        Self::configured(endpoint, "")
    }

    /// The same with more lines of configuration.
    pub fn configured(endpoint: &str, lines: &str) -> Self {
        Self::listening("127.0.0.1:0", endpoint, lines)
    }

    /// The same on this address.
    pub fn listening(address: &str, endpoint: &str, lines: &str) -> Self {
        Self::start(address, endpoint, lines, env!("CARGO_TARGET_TMPDIR"))
    }

    /// One that saves what it knows in that folder.
    pub fn keeping_state_in(folder: &str, endpoint: &str) -> Self {
        Self::start("127.0.0.1:0", endpoint, "", folder)
    }

    fn start(address: &str, endpoint: &str, lines: &str, state: &str) -> Self {
        let mut config = NamedTempFile::new().unwrap();
        write!(config, "relistPeriod: 50ms\n{lines}").unwrap();
        let path = config.path().to_str().unwrap().to_owned();
        let args = ["-v", "agent", "-r", endpoint, "--config", &path];
        let args = [&args[..], &["--listen", address]].concat();
        let mut running = Pleg::new(&args).env("PLEG_STATE_DIR", state).start();
        let address = said_address(&mut running, "answering on http://");
        let metrics_address = lines
            .contains("metricsListen")
            .then(|| said_address(&mut running, "health and metrics on http://"));
        Self {
            running,
            address,
            metrics_address,
            _config: config,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        get(&self.address, path)
    }

    /// `/v1/events` as they come.
    pub fn events(&self) -> impl Iterator<Item = Value> + use<> {
        lines(&self.address, "/v1/events")
    }

    /// Waits until an answer is as it should be.
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

    /// Waits until every pod is seen.
    #[track_caller]
    pub fn wait_healthy(&self) {
        self.wait("/healthz?verbose", |answer| {
            answer.code == 200 && answer.body.starts_with("Healthy: ")
        });
    }

    /// The names of the pods it knows, in order.
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

    pub fn terminate(&self) {
        self.running.signal(Signal::TERM);
    }

    #[track_caller]
    pub fn end(self) -> Ended {
        self.running.end(PATIENCE)
    }
}

#[track_caller]
fn said_address(running: &mut Running, before: &str) -> String {
    eventually("the agent says where it answers", || {
        assert!(!running.has_ended(), "{}", running.log());
        let log = running.log();
        let (_, after) = log.split_once(before)?;
        let end = after.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':')?;
        Some(after[..end].to_owned())
    })
}
