//! Performs checks: a command in the container, an HTTP request, or a TCP connection.
//!
//! | check | success | failure | no result |
//! |---|---|---|---|
//! | exec | exit code 0 | another exit code, or the timeout | the runtime could not run the command |
//! | HTTP | status 200 to 399 | another status, no connection, or the timeout | the pod has no address |
//! | TCP | a connection | no connection, or the timeout | the pod has no address |

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use pleg::model::id::Id;
use pleg_text::redact;
use tokio::time::timeout;

use super::{CheckResult, DueCheck, http, tcp};
use crate::runtime::{CallFailed, ExecEnd, RuntimeClient};
use crate::spec::Check;

/// How many characters of a command's output are shown.
const MAX_OUTPUT_CHARS: usize = 1024;

/// Why the check of a pod without an address has no result.
const NO_ADDRESS: &str = "the pod has no IP address yet";

/// Runs commands in containers.
pub trait Exec: Sync {
    /// Runs a command in a container. The runtime ends it after `timeout`. An error means that the
    /// command was not run, or that its exit code is unknown.
    ///
    /// This waits for the runtime without a limit: an overdue `ExecSync` is no evidence about the
    /// container, and no other check of the probe starts before this one ends.
    fn exec(
        &self,
        id: &Id,
        command: &[String],
        timeout: Duration,
    ) -> impl Future<Output = Result<ExecEnd, CallFailed>> + Send;
}

impl Exec for RuntimeClient {
    async fn exec(
        &self,
        id: &Id,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecEnd, CallFailed> {
        self.exec_sync(id, command, timeout).await
    }
}

/// Performs a check. `pod_ip` is the address of the pod, if it has one.
pub async fn perform(check: &DueCheck, pod_ip: Option<IpAddr>, exec: &impl Exec) -> CheckResult {
    let limit = check.timeout;
    let found = match &check.check {
        Check::Exec(command) => return run(exec, &check.id, command, limit).await,
        Check::Http {
            scheme,
            host,
            port,
            path,
            headers,
        } => {
            let Some(host) = address(host, pod_ip) else {
                return CheckResult::Unknown(NO_ADDRESS.into());
            };
            let target = http::Target {
                scheme: *scheme,
                host,
                port: *port,
                path: path.clone(),
            };
            timeout(limit, http::get(target, headers)).await
        }
        Check::Tcp { host, port } => {
            let Some(host) = address(host, pod_ip) else {
                return CheckResult::Unknown(NO_ADDRESS.into());
            };
            timeout(limit, tcp::open(&host, *port))
                .await
                .map(|opened| opened.map(drop))
        }
    };
    match found {
        Ok(Ok(())) => CheckResult::Success,
        Ok(Err(message)) => CheckResult::Failure(message.into()),
        Err(_) => {
            let seconds = limit.as_secs_f32();
            CheckResult::Failure(format!("no answer within {seconds} s").into())
        }
    }
}

async fn run(exec: &impl Exec, id: &Id, command: &[String], limit: Duration) -> CheckResult {
    match exec.exec(id, command, limit).await {
        Ok(ExecEnd::Exited { code: 0, .. }) => CheckResult::Success,
        Ok(ExecEnd::Exited {
            code,
            stdout,
            stderr,
        }) => {
            let output = [stdout, stderr].concat();
            // A character has at most four bytes.
            let start = &output[..output.len().min(MAX_OUTPUT_CHARS * 4)];
            let start = String::from_utf8_lossy(start);
            let shown = redact(start.trim());
            let shown: String = shown.chars().take(MAX_OUTPUT_CHARS).collect();
            let colon = if shown.is_empty() { "" } else { ": " };
            CheckResult::Failure(format!("exit code {code}{colon}{shown}").into())
        }
        Ok(ExecEnd::TimedOut) => {
            let seconds = limit.as_secs_f32();
            CheckResult::Failure(format!("the command took longer than {seconds} s").into())
        }
        Err(failed) => CheckResult::Unknown(failed.to_string().into()),
    }
}

fn address(host: &Option<String>, pod_ip: Option<IpAddr>) -> Option<String> {
    host.clone().or_else(|| pod_ip.map(|ip| ip.to_string()))
}

#[cfg(test)]
mod tests;
