//! Making a check: a command in the container, a request, a connection.
//!
//! | the check | success | failure | could not be made |
//! |---|---|---|---|
//! | exec | exit code 0 | any other, or the timeout | the runtime could not run it |
//! | HTTP | 200 to 399 | any other, no connection, the timeout | |
//! | TCP | a connection | none, the timeout | |

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use pleg::model::id::Id;
use pleg_text::redact;
use tokio::time::timeout;

use super::{CheckToMake, Finding, http, tcp};
use crate::runtime::{CallFailed, ExecEnd, RuntimeClient};
use crate::spec::Check;

/// So much of a command's output is shown.
const OUTPUT_SHOWN: usize = 1024;

/// Runs commands in containers.
pub trait Exec: Sync {
    /// Runs a command in a container; the runtime ends it after `timeout`. An error says that it
    /// could not be run, or that nobody knows what became of it.
    ///
    /// This waits for the runtime's answer as long as it takes: an `ExecSync` that hangs says
    /// nothing about the container, and as long as it does, no other is begun.
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

/// Makes a check of a pod with this address.
pub async fn perform(check: &CheckToMake, pod_ip: Option<IpAddr>, exec: &impl Exec) -> Finding {
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
                return no_address();
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
                return no_address();
            };
            timeout(limit, connect(&host, *port)).await
        }
    };
    match found {
        Ok(Ok(())) => Finding::Success,
        Ok(Err(message)) => Finding::Failure(message.into()),
        Err(_) => Finding::Failure(format!("no answer within {} s", limit.as_secs_f32()).into()),
    }
}

async fn run(exec: &impl Exec, id: &Id, command: &[String], limit: Duration) -> Finding {
    match exec.exec(id, command, limit).await {
        Ok(ExecEnd::Exited { code: 0, .. }) => Finding::Success,
        Ok(ExecEnd::Exited {
            code,
            stdout,
            stderr,
        }) => {
            let output = [stdout, stderr].concat();
            // A character has four bytes at most.
            let near = &output[..output.len().min(OUTPUT_SHOWN * 4)];
            let near = String::from_utf8_lossy(near);
            let shown = redact(near.trim());
            let shown: String = shown.chars().take(OUTPUT_SHOWN).collect();
            let colon = if shown.is_empty() { "" } else { ": " };
            Finding::Failure(format!("exit code {code}{colon}{shown}").into())
        }
        Ok(ExecEnd::TimedOut) => {
            let seconds = limit.as_secs_f32();
            Finding::Failure(format!("the command took longer than {seconds} s").into())
        }
        Err(failed) => Finding::Unknown(failed.to_string().into()),
    }
}

fn address(host: &Option<String>, pod_ip: Option<IpAddr>) -> Option<String> {
    host.clone().or_else(|| pod_ip.map(|ip| ip.to_string()))
}

/// That is not the container's fault.
fn no_address() -> Finding {
    Finding::Unknown("the pod has no IP address yet".into())
}

async fn connect(host: &str, port: u16) -> Result<(), String> {
    tcp::open(host, port).await.map(|_| ())
}

#[cfg(test)]
mod tests;
