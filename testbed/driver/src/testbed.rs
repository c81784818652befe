//! One instance of the test bed, up for as long as this value lives.

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
    /// The name is the caller's alone: an instance of that name, left by a test that was
    /// killed, is taken down first. Needs root; the first time it fetches Debian packages.
    pub async fn up(version: &str, name: &str) -> Result<Self> {
        // Made before the instance, so that half of one is taken down as well.
        let testbed = Self {
            name: name.to_owned(),
        };
        testbed.verb(&["down"]).await?;
        testbed.verb(&["up", version]).await?;
        Ok(testbed)
    }

    /// Runs a verb of the script, as in `verb(&["slow", "50"])`, and gives what it printed.
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

    /// `--name` goes before the words, since everything after `ctr` belongs to ctr.
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
    /// Removes the instance, whatever state it is in, with all that was made in it.
    fn drop(&mut self) {
        let output = self.command(&["down"]).output();
        // Only the test's output can show it.
        #[allow(clippy::print_stderr)]
        if let Err(error) = result(&["down"], output) {
            eprintln!("the test bed {:?} stays: {error}", self.name);
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
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().next_back().unwrap_or("it said nothing");
    Err(failed(
        last.strip_prefix("testbed: ").unwrap_or(last).to_owned(),
    ))
}
