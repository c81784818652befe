//! `pleg doctor` as a process: started, waited for no longer than it may take, and read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cri::Endpoint;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

/// It ends within 30 seconds by itself; starting it may block on a sick machine.
const LONGEST: Duration = Duration::from_secs(45);

/// No diagnosis is as long.
const LONGEST_ANSWER: u64 = 4 << 20;

/// What a cause's id is made of: it becomes a label.
const LONGEST_ID: usize = 64;

pub(super) struct Doctor {
    program: OsString,
    endpoint: String,
    socket: PathBuf,
}

/// What it says, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    pub(super) findings: Vec<Found>,
    #[serde(default)]
    pub(super) systemd_cookie_left_seconds: SerialsLeft,
}

/// How long systemd can go on sending messages on the system bus.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum SerialsLeft {
    /// So many seconds.
    Seconds(f64),
    /// For ever: `null`.
    Unlimited,
    /// It does not say, because it could not ask.
    #[default]
    #[serde(skip)]
    Unknown,
}

#[derive(Debug, Deserialize)]
pub(super) struct Found {
    pub(super) cause: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) sentence: String,
    pub(super) confidence: String,
}

/// Why it says nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    #[error("pleg doctor cannot be started: {0}")]
    NotStarted(#[source] std::io::Error),
    #[error("pleg doctor has not ended within {}s", LONGEST.as_secs())]
    TooLong,
    #[error("what pleg doctor says cannot be read")]
    Unreadable,
}

impl Doctor {
    pub(super) fn new(program: OsString, endpoint: &Endpoint, socket: &Path) -> Self {
        Self {
            program,
            endpoint: endpoint.to_string(),
            socket: socket.to_owned(),
        }
    }

    /// Looks at the node, and writes what it saw to `bundle`.
    pub(super) async fn say(&self, bundle: Option<&Path>) -> Result<Said, Silence> {
        let mut command = Command::new(&self.program);
        command.args(["doctor", "--output", "json", "--runtime-endpoint"]);
        command.arg(&self.endpoint).arg("--agent").arg(&self.socket);
        if let Some(bundle) = bundle {
            command.arg("--bundle").arg(bundle);
        }
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.map_err(Silence::NotStarted)?;
        let out = child.stdout.take().ok_or(Silence::Unreadable)?;
        let mut said = Vec::new();
        let all = async {
            let mut out = out.take(LONGEST_ANSWER);
            out.read_to_end(&mut said).await.ok()?;
            // Only when it has ended is the bundle whole.
            child.wait().await.ok()
        };
        let ended = timeout(LONGEST, all).await.map_err(|_| Silence::TooLong)?;
        ended.ok_or(Silence::Unreadable)?;
        let said: Said = serde_json::from_slice(&said).map_err(|_| Silence::Unreadable)?;
        let are_ids = said.findings.iter().all(|found| is_id(&found.cause));
        are_ids.then_some(said).ok_or(Silence::Unreadable)
    }
}

fn is_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(is_part)
}
