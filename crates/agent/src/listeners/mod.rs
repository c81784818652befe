//! Where the agent listens, and which clients are served.
//!
//! ```text
//!   agent_socket: root, our own user, socketGroup --> everything
//!   listen, metricsListen: each client            --> health and metrics
//!                                                      |
//!                           places: a bounded number of connections, idle ones are closed
//!                                                      |
//!                                                   server: one request each
//! ```

mod agent_socket;
mod group;
mod peer;
mod places;
mod server;

use std::io;
use std::net::SocketAddr;

use base::host::SocketError;
use cri::Endpoint;
use tokio::net::TcpListener;

use crate::AgentConfig;

pub use agent_socket::AgentSocket;
pub(crate) use peer::is_trusted;
pub use server::{Endless, MAX_CONNECTIONS, serve};

/// The sockets of an agent.
#[derive(Debug)]
pub struct Listeners {
    /// Serves everything.
    pub socket: AgentSocket,
    /// Serves health and metrics to this machine.
    pub health: TcpListener,
    /// Serves health and metrics to Prometheus, if wanted.
    pub metrics: Option<TcpListener>,
}

/// Why an agent cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The socket cannot be made, or is in use.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The group that may use the socket does not exist.
    #[error("socketGroup {name}: no such group")]
    NoGroup {
        /// Its name.
        name: String,
        /// Why it was not found, if that is known.
        #[source]
        error: Option<io::Error>,
    },
}

impl Listeners {
    /// Binds the sockets that a configuration wants.
    pub async fn bind(config: &AgentConfig) -> Result<Self, ListenError> {
        let metrics = match config.metrics_listen {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let group = config.socket_group.as_deref().map(group::find);
        Ok(Self {
            health: bind(config.listen).await?,
            metrics,
            socket: AgentSocket::open(&config.socket, group.transpose()?).await?,
        })
    }

    /// Reports where the agent answers.
    pub(crate) fn log(&self, endpoint: &Endpoint) {
        let socket = self.socket.path().display();
        tracing::info!("watching {endpoint}, serving on unix://{socket}");
        for listener in [Some(&self.health), self.metrics.as_ref()] {
            if let Some(Ok(address)) = listener.map(TcpListener::local_addr) {
                tracing::info!("serving health and metrics on http://{address}");
            }
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| ListenError::Address { address, error })
}
