//! Runs the doctor as a separate process, so that it cannot block the screen.

use std::process::Stdio;
use std::time::Duration;

use agent::AgentChoice;
use tokio::process::Command;
use tokio::time::timeout;
use top::diagnosis::Diagnosis;

use crate::commands::agent::program;

/// How long to wait for the doctor, which ends within 30 seconds, whatever hangs.
const DOCTOR_LIMIT: Duration = Duration::from_secs(45);

/// Runs `pleg doctor` on the runtime at `endpoint`. If it fails with a named agent, runs it once more
/// without the agent.
pub async fn run(endpoint: String, agent: AgentChoice) -> Result<Diagnosis, String> {
    let is_named = matches!(agent, AgentChoice::Named(_));
    match diagnose(&endpoint, agent).await {
        Err(_) if is_named => diagnose(&endpoint, AgentChoice::Off).await,
        diagnosis => diagnosis,
    }
}

/// Runs `pleg doctor` once. The process is killed if the screen ends first.
async fn diagnose(endpoint: &str, agent: AgentChoice) -> Result<Diagnosis, String> {
    let mut command = Command::new(program());
    command.args(["doctor", "-o", "json", "-r", endpoint]);
    match agent {
        AgentChoice::Default => {}
        AgentChoice::Named(socket) => drop(command.arg("--agent").arg(socket)),
        AgentChoice::Off => drop(command.args(["--agent", "off"])),
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(DOCTOR_LIMIT, command.output())
        .await
        .map_err(|_| "pleg doctor has not ended within 45 seconds".to_owned())?
        .map_err(|error| format!("pleg doctor cannot be started: {error}"))?;
    // The exit code shows the verdict, not whether the doctor failed. If there is no report, standard
    // error has the reason.
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        match errors.lines().last() {
            Some(line) => line.to_owned(),
            None => format!("the output of pleg doctor cannot be read: {error}"),
        }
    })
}
