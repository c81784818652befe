//! What only the verbose status of containerd contains: the process, and its command line.

use cri::Rpc;
use cri::v1::{ContainerStatusRequest, ContainerStatusResponse, NamespaceMode};
use rustix::process::Pid;
use serde_json::Value;

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::spec::Network;

/// The parts of the verbose status that are used. The rest, for example the environment, is dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VerboseStatus {
    /// `None` for a container that is not running.
    pub(crate) pid: Option<Pid>,
    pub(crate) command: Vec<String>,
    pub(crate) network: Network,
}

impl Driver {
    pub(crate) async fn verbose_status(&self, id: &str) -> Result<VerboseStatus> {
        let answer = self.container_status(id, true).await?;
        let text = answer.info.get("info").map_or("{}", String::as_str);
        let info = serde_json::from_str(text).map_err(|error| Error::Info(id.into(), error))?;
        Ok(read(&info))
    }

    pub(crate) async fn container_status(
        &self,
        id: &str,
        verbose: bool,
    ) -> Result<ContainerStatusResponse> {
        let container_id = id.to_owned();
        let request = ContainerStatusRequest {
            container_id,
            verbose,
        };
        self.call(Rpc::ContainerStatus, id, request).await
    }
}

fn read(info: &Value) -> VerboseStatus {
    let command = info["config"]["command"].as_array().into_iter().flatten();
    let mode = &info["config"]["linux"]["security_context"]["namespace_options"]["network"];
    VerboseStatus {
        // The PID is 0 after the process has ended. kill(2) with 0 would signal the process group of
        // the caller.
        pid: info["pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok())
            .filter(|&pid| pid > 1)
            .and_then(Pid::from_raw),
        command: command
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect(),
        network: match mode.as_i64() == Some(NamespaceMode::Node as i64) {
            true => Network::Host,
            false => Network::Pod,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_command_and_network_are_read() {
        let info = serde_json::json!({
            "pid": 42,
            "config": {
                "command": ["sh", "-c", "true"],
                "linux": { "security_context": { "namespace_options": { "network": 2 } } },
            },
        });
        assert_eq!(
            read(&info),
            VerboseStatus {
                pid: Pid::from_raw(42),
                command: ["sh", "-c", "true"].map(str::to_owned).into(),
                network: Network::Host,
            }
        );
    }

    #[test]
    fn a_pid_that_would_kill_more_than_a_container_is_ignored() {
        for pid in [-1, 0, 1] {
            assert_eq!(read(&serde_json::json!({ "pid": pid })).pid, None);
        }
    }
}
