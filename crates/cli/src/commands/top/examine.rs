//! The doctor, as a process of its own: whatever blocks it does not block the screen.

use std::process::Stdio;
use std::time::Duration;

use agent::AgentChoice;
use tokio::process::Command;
use tokio::time::timeout;
use top::diagnosis::Diagnosis;

/// The doctor ends within 30 seconds, whatever hangs.
const PATIENCE: Duration = Duration::from_secs(45);

/// This program, also after its file was replaced.
const OURSELVES: &str = "/proc/self/exe";

/// Runs `pleg doctor` on the runtime at `endpoint`, without the agent if that has gone.
pub async fn run(endpoint: String, agent: AgentChoice) -> Result<Diagnosis, String> {
    let is_named = matches!(agent, AgentChoice::Named(_));
    match ask(&endpoint, agent).await {
        Err(_) if is_named => ask(&endpoint, AgentChoice::Off).await,
        answer => answer,
    }
}

/// It is killed if the screen ends before it.
async fn ask(endpoint: &str, agent: AgentChoice) -> Result<Diagnosis, String> {
    let mut command = Command::new(OURSELVES);
    command
        .args(["doctor", "-o", "json", "-r", endpoint])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match agent {
        AgentChoice::Default => {}
        AgentChoice::Named(socket) => drop(command.arg("--agent").arg(socket)),
        AgentChoice::Off => drop(command.args(["--agent", "off"])),
    }
    let output = timeout(PATIENCE, command.output())
        .await
        .map_err(|_| "pleg doctor has not ended within 45 seconds".to_owned())?
        .map_err(|error| format!("pleg doctor cannot be started: {error}"))?;
    // Its exit code is the verdict. Without a verdict, it says on standard error why.
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        match said.lines().last() {
            Some(line) => line.to_owned(),
            None => format!("the output of pleg doctor cannot be read: {error}"),
        }
    })
}
