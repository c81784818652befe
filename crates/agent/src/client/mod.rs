//! Querying an agent on this node.
//!
//! ```text
//!   --agent PATH | the default socket --> its owner is root or us? --> /v1/status --> client
//!                                              |  no: ignored, with a warning
//! ```
//!
//! The process that answers decides what the doctor and `pleg status` believe. So an agent is queried
//! only over a unix socket, and only if the process that listens there belongs to root or to our own
//! user.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use cri::{Endpoint, EndpointError};
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use tokio::time::sleep;

use crate::default_socket;

mod error;
mod events;
mod request;

pub use error::ClientError;
pub use events::Events;

/// How often the client checks whether an agent that became unreachable is back.
const RETRY: Duration = Duration::from_secs(3);

/// Which agent to query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentChoice {
    /// The agent on the default socket, if there is one and it observes the same runtime.
    #[default]
    Default,
    /// The agent on this socket, and no other.
    Named(PathBuf),
    /// No agent.
    Off,
}

impl FromStr for AgentChoice {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        match text {
            "off" => Ok(Self::Off),
            path => Ok(Self::Named(path.parse::<Endpoint>()?.path().to_owned())),
        }
    }
}

/// A client of one agent.
#[derive(Clone, Debug)]
pub struct AgentClient {
    socket: PathBuf,
}

impl AgentClient {
    /// The chosen agent, with its status. It must answer and observe `endpoint` (`None` accepts any): if
    /// the named agent does not, that is an error; if the agent on the default socket does not, the
    /// result is `None`.
    pub async fn find(
        choice: &AgentChoice,
        endpoint: Option<&Endpoint>,
    ) -> Result<Option<(Self, StatusReport)>, ClientError> {
        let client = match choice {
            AgentChoice::Off => return Ok(None),
            AgentChoice::Named(socket) => Self::new(socket),
            AgentChoice::Default => {
                return match Self::default_agent(endpoint).await {
                    Ok(found) => Ok(Some(found)),
                    Err(error @ ClientError::Untrusted { .. }) => {
                        tracing::warn!("ignored: {error}");
                        Ok(None)
                    }
                    Err(error) => {
                        tracing::debug!("no agent: {error}");
                        Ok(None)
                    }
                };
            }
        };
        client.watching(endpoint).await.map(Some)
    }

    /// The agent on the default socket, with its status, if it observes `endpoint`.
    pub async fn default_agent(
        endpoint: Option<&Endpoint>,
    ) -> Result<(Self, StatusReport), ClientError> {
        Self::new(&default_socket()).watching(endpoint).await
    }

    async fn watching(
        self,
        endpoint: Option<&Endpoint>,
    ) -> Result<(Self, StatusReport), ClientError> {
        let status = self.status().await?;
        match endpoint {
            Some(endpoint) if !watches(&status, endpoint) => Err(ClientError::OtherRuntime {
                socket: self.socket,
                watched: status.runtime.endpoint.to_string(),
                wanted: endpoint.clone(),
            }),
            _ => Ok((self, status)),
        }
    }

    /// A client for the agent on `socket`.
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
        }
    }

    /// Waits until an agent that became unreachable is back and has observed `endpoint`. An agent that
    /// is just starting knows less than the caller, which observes in its place.
    pub async fn back(&self, endpoint: &Endpoint) -> (StatusReport, Events) {
        loop {
            sleep(RETRY).await;
            if let Ok(status) = self.status().await
                && watches(&status, endpoint)
                && status.relist.count > 0
                && let Ok(events) = self.events().await
            {
                return (status, events);
            }
        }
    }

    /// `GET /v1/status`.
    pub async fn status(&self) -> Result<StatusReport, ClientError> {
        request::json(&self.socket, "/v1/status").await
    }

    /// `GET /v1/pods`.
    pub async fn pods(&self) -> Result<Vec<PodReport>, ClientError> {
        request::json(&self.socket, "/v1/pods").await
    }

    /// `POST /v1/relist`: the agent begins a new relist. Older agents do not accept this request.
    pub async fn relist(&self) -> Result<(), ClientError> {
        request::post(&self.socket, "/v1/relist").await
    }

    /// `GET /v1/events`.
    pub async fn events(&self) -> Result<Events, ClientError> {
        request::body(&self.socket, "/v1/events")
            .await
            .map(Events::new)
    }
}

/// Whether the agent observes the runtime behind this endpoint, which may be the runtime's own or that of
/// its guard.
fn watches(status: &StatusReport, endpoint: &Endpoint) -> bool {
    let endpoint = endpoint.to_string();
    *status.runtime.endpoint == *endpoint || status.guard.socket.as_ref() == Some(&endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_by_its_socket() {
        let parsed = |text: &str| text.parse::<AgentChoice>();
        assert_eq!(parsed("off").unwrap(), AgentChoice::Off);
        for text in ["/run/x.sock", "unix:///run/x.sock"] {
            let named = AgentChoice::Named("/run/x.sock".into());
            assert_eq!(parsed(text).unwrap(), named);
        }
        for text in ["", "http://127.0.0.1:20258", "127.0.0.1:20258", "x.sock"] {
            assert!(parsed(text).is_err(), "{text:?}");
        }
    }
}
