//! An agent, for what only its status tells: the stream, the period, the kernel.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{PATIENCE, Running, command, pleg_json};

/// What an agent logs before its address.
const ANSWERING: &str = "answering on http://";

/// `pleg agent` on a port that was free, killed when dropped.
pub struct Agent {
    child: Child,
    url: String,
}

impl Agent {
    /// One that watches this runtime as it does by default.
    pub fn watching(endpoint: &cri::Endpoint) -> Self {
        let mut child = command()
            .args(["agent", "--listen", "127.0.0.1:0", "-r"])
            .arg(endpoint.to_string())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut lines = log.lines().map_while(Result::ok);
        let url = lines
            .find_map(|line| Some(format!("http://{}", line.split_once(ANSWERING)?.1.trim())))
            .expect("an agent says where it answers");
        // Read to the end: an agent whose log fills a pipe is another test's.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    /// Its `/v1/status`.
    pub fn status(&self) -> Value {
        pleg_json(&["status", "--agent", &self.url])
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
        Running::start(&["watch", "-o", "json", "--agent", &self.url])
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
