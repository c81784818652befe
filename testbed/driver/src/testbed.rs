//! One instance of the testbed. It exists until this value is dropped.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use cri::Endpoint;

use crate::error::{Error, Result};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testbed");

/// A private containerd, made by the script `testbed/testbed`; see its `--help` for the verbs.
#[derive(Debug)]
pub struct Testbed {
    name: String,
}

impl Testbed {
    /// Starts containerd `version` ("2", the newest, "1.7" or "1.6") as the instance `name`.
    ///
    /// No other caller may use this name: an instance of this name, for example of a killed test, is
    /// removed first. Needs root. The first call downloads packages of Debian.
    pub async fn up(version: &str, name: &str) -> Result<Self> {
        // Created before the instance, so that an incomplete instance is removed too.
        let testbed = Self {
            name: name.to_owned(),
        };
        testbed.verb(&["down"]).await?;
        testbed.verb(&["up", version]).await?;
        Ok(testbed)
    }

    /// Runs a verb of the script, for example `verb(&["slow", "50"])`. Returns its output.
    pub async fn verb(&self, words: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::from(self.command(words));
        let output = command.output().await;
        result(words, output)
    }

    /// The CRI endpoint.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(format!("/run/pleg-testbed/{}/containerd.sock", self.name))
    }

    /// The name of the instance.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `--name` precedes the words, because everything after `ctr` belongs to ctr.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(Path::new(SCRIPT));
        command
            .args(["--name", &self.name])
            .args(words)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Testbed {
    /// Removes the instance with everything in it, in any state.
    fn drop(&mut self) {
        let output = self.command(&["down"]).output();
        // There is no other way to report it.
        #[allow(clippy::print_stderr)]
        if let Err(error) = result(&["down"], output) {
            eprintln!(
                "the testbed instance {:?} could not be removed: {error}",
                self.name
            );
        }
    }
}

fn result(words: &[&str], output: std::io::Result<Output>) -> Result<String> {
    let failed = |reason: String| Error::Script {
        verb: words.join(" "),
        reason,
    };
    let output = output.map_err(|error| failed(format!("{SCRIPT}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().next_back();
    let last = last.unwrap_or("it reported no reason");
    Err(failed(
        last.strip_prefix("testbed: ").unwrap_or(last).to_owned(),
    ))
}
