//! `pleg doctor` as a process: it is started, has a deadline, and its report is read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use cri::Endpoint;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long the doctor may take. It ends by itself within 30 seconds, but starting it may block on
/// a sick machine.
const DEADLINE: Duration = Duration::from_secs(45);

/// How much of the doctor's output is read: no report is as large.
const MAX_REPORT_BYTES: u64 = 4 << 20;

/// How much of the end of the doctor's standard error is kept. The end shows why it failed.
const MAX_ERROR_BYTES: usize = 1 << 10;

/// The longest id of a cause that is accepted, since it becomes a label of a metric.
const MAX_ID_BYTES: usize = 64;

pub(super) struct Doctor {
    program: OsString,
    endpoint: String,
    socket: PathBuf,
    /// Folders with the site's own rules.
    rules: Vec<PathBuf>,
}

/// The part of the doctor's report that matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DoctorReport {
    pub(super) findings: Vec<recorder::Finding>,
    #[serde(default)]
    pub(super) systemd_cookie_left_seconds: SerialsLeft,
}

/// How long systemd can go on sending messages on the system bus.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum SerialsLeft {
    /// This many seconds.
    Seconds(f64),
    /// Without a limit: `null`.
    Unlimited,
    /// It could not be read.
    #[default]
    #[serde(skip)]
    Unknown,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(super) enum DoctorError {
    #[error("pleg doctor cannot be started: {0}")]
    NotStarted(#[source] std::io::Error),
    #[error("pleg doctor has not ended within {}s", DEADLINE.as_secs())]
    TooLong,
    #[error("pleg doctor printed no diagnosis ({ended}): {}", pleg_text::escape::sentence(.printed))]
    NoDiagnosis {
        /// How the process ended.
        ended: ExitStatus,
        /// The end of its standard error, or what is wrong with its output.
        printed: String,
    },
    #[error("the output of pleg doctor cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
}

impl Doctor {
    pub(super) fn new(
        program: OsString,
        endpoint: &Endpoint,
        socket: &Path,
        rules: Vec<PathBuf>,
    ) -> Self {
        Self {
            program,
            endpoint: endpoint.to_string(),
            socket: socket.to_owned(),
            rules,
        }
    }

    /// Diagnoses the node, and writes the facts to `bundle`.
    pub(super) async fn run(&self, bundle: Option<&Path>) -> Result<DoctorReport, DoctorError> {
        let mut command = Command::new(&self.program);
        command.args(["doctor", "--output", "json", "--runtime-endpoint"]);
        command.arg(&self.endpoint).arg("--agent").arg(&self.socket);
        for folder in &self.rules {
            command.arg("--rules").arg(folder);
        }
        if let Some(bundle) = bundle {
            command.arg("--bundle").arg(bundle);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.map_err(DoctorError::NotStarted)?;
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let mut printed = Vec::new();
        let all = async {
            let read = async {
                match out {
                    Some(out) => out.take(MAX_REPORT_BYTES).read_to_end(&mut printed).await,
                    None => Ok(0),
                }
            };
            let (read, errors) = tokio::join!(read, end_of(errors));
            // The bundle is complete only when the process has ended.
            read.and(child.wait().await).map(|ended| (ended, errors))
        };
        let ended = timeout(DEADLINE, all)
            .await
            .map_err(|_| DoctorError::TooLong)?;
        let (ended, errors) = ended.map_err(DoctorError::Unreadable)?;
        let said = match serde_json::from_slice::<DoctorReport>(&printed) {
            Ok(said) if said.findings.iter().all(|found| is_id(&found.cause)) => return Ok(said),
            Ok(_) => "the id of a cause is not valid".to_owned(),
            Err(error) => error.to_string(),
        };
        let printed = if errors.is_empty() { said } else { errors };
        Err(DoctorError::NoDiagnosis { ended, printed })
    }
}

/// Reads a stream to its end, so that its writer does not block, and returns the last part of it on
/// one line.
async fn end_of(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        while from.read_buf(&mut kept).await.is_ok_and(|read| read > 0) {
            kept.drain(..kept.len().saturating_sub(MAX_ERROR_BYTES));
        }
    }
    let text = String::from_utf8_lossy(&kept);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ").trim().to_owned()
}

fn is_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The result of a doctor that is this shell script.
    async fn printed(script: &str) -> Result<DoctorReport, DoctorError> {
        printed_with(script, Vec::new()).await
    }

    /// The result of a doctor that is this shell script, with these folders of rules.
    async fn printed_with(script: &str, rules: Vec<PathBuf>) -> Result<DoctorReport, DoctorError> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("pleg");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        let endpoint = Endpoint::new("/run/x.sock");
        let doctor = Doctor::new(
            program.into(),
            &endpoint,
            Path::new("/run/agent.sock"),
            rules,
        );
        loop {
            match doctor.run(None).await {
                // Another test forks while the script is written, and holds it open until its exec.
                Err(DoctorError::NotStarted(why))
                    if why.kind() == ErrorKind::ExecutableFileBusy => {}
                ended => return ended,
            }
        }
    }

    #[tokio::test]
    async fn the_doctor_reads_each_folder_of_rules_that_is_configured() {
        let rules = ["/etc/pleg/rules", "/opt/acme/rules"].map(PathBuf::from);
        let said = printed_with("echo \"$@\" >&2; exit 1", rules.to_vec()).await;
        let said = said.unwrap_err().to_string();
        let given = "--rules /etc/pleg/rules --rules /opt/acme/rules";
        assert!(said.ends_with(given), "{said}");
    }

    #[tokio::test]
    async fn a_doctor_that_fails_leaves_its_exit_code_and_its_standard_error() {
        let failed = printed("echo 'warning: x' >&2; echo 'no memory' >&2; exit 3").await;
        assert_eq!(
            failed.unwrap_err().to_string(),
            "pleg doctor printed no diagnosis (exit status: 3): warning: x no memory"
        );
        let killed = printed("kill -9 $$").await.unwrap_err().to_string();
        assert!(killed.contains("(signal: 9 (SIGKILL)): EOF"), "{killed}");
        let much = "while [ $((n += 1)) -lt 9999 ]; do echo abcdefghijklmnop; done >&2";
        let much = printed(&format!("{much}; echo last >&2; exit 1")).await;
        let much = much.unwrap_err().to_string();
        assert!(much.ends_with(" last") && much.len() < 3000, "{much}");
        let fine = printed("echo noise >&2; echo '{\"findings\":[]}'; exit 1").await;
        assert!(fine.unwrap().findings.is_empty());
    }
}
