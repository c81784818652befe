//! Asking an agent on this node.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use cri::Endpoint;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use pleg::status::PodStatus;
use pleg::status_report::StatusReport;
use pleg::told::Record;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::args::AgentUrl;

const DEFAULT_URL: &str = "http://127.0.0.1:20258";

/// How long an agent may take to answer; it does so from memory.
const PATIENCE: Duration = Duration::from_secs(2);

/// All pods of the largest node take less.
const LONGEST: usize = 64 << 20;

/// How often to see whether an agent that has gone is back.
const AGAIN: Duration = Duration::from_secs(3);

/// An agent that answers.
pub struct AgentClient {
    address: String,
}

/// What an agent tells as it happens.
pub struct Events {
    body: Incoming,
    unread: Vec<u8>,
}

impl AgentClient {
    /// The agent to ask: the one that is named, which must answer and watch `endpoint`; or
    /// one on the usual address, if it does. `None` is any endpoint. With what it answered,
    /// `GET /v1/status`.
    pub async fn find(
        wanted: &AgentUrl,
        endpoint: Option<&Endpoint>,
    ) -> anyhow::Result<Option<(Self, StatusReport)>> {
        match wanted.url.as_deref() {
            Some("off") => Ok(None),
            Some(url) => {
                let client = Self::new(url)?;
                let status = client.status().await?;
                if let Some(endpoint) = endpoint
                    && !watches(&status, endpoint)
                {
                    bail!(
                        "the agent on {} watches {}, not {endpoint}",
                        client.address,
                        status.runtime.endpoint
                    );
                }
                Ok(Some((client, status)))
            }
            None => {
                let client = Self::new(DEFAULT_URL)?;
                let status = client.status().await.ok();
                let status = status
                    .filter(|status| endpoint.is_none_or(|endpoint| watches(status, endpoint)));
                Ok(status.map(|status| (client, status)))
            }
        }
    }

    /// Waits until an agent that has gone is back and has seen `endpoint`: one that is just
    /// beginning knows less than whoever watches in its place.
    pub async fn back(&self, endpoint: &Endpoint) -> (StatusReport, Events) {
        loop {
            sleep(AGAIN).await;
            if let Ok(status) = self.status().await
                && watches(&status, endpoint)
                && status.relist.count > 0
                && let Ok(events) = self.events().await
            {
                return (status, events);
            }
        }
    }

    fn new(url: &str) -> anyhow::Result<Self> {
        let wrong =
            || format!("{url:?} is no agent's address: write http://127.0.0.1:20258, or off");
        let uri: Uri = url.parse().with_context(wrong)?;
        let host = uri.host().with_context(wrong)?;
        if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
            bail!(wrong());
        }
        let port = uri.port_u16().unwrap_or(20258);
        Ok(Self {
            address: format!("{host}:{port}"),
        })
    }

    async fn status(&self) -> anyhow::Result<StatusReport> {
        self.json("/v1/status").await
    }

    /// `GET /v1/pods`.
    pub async fn pods(&self) -> anyhow::Result<Vec<PodStatus>> {
        self.json("/v1/pods").await
    }

    /// `GET /v1/events`.
    pub async fn events(&self) -> anyhow::Result<Events> {
        let body = timeout(PATIENCE, self.get("/v1/events"))
            .await
            .map_err(|_| self.silent())??;
        Ok(Events {
            body,
            unread: Vec::new(),
        })
    }

    async fn json<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = async {
            // Whoever may open the port may answer on it.
            let nonsense = || format!("what answers on {} is no pleg agent", self.address);
            let body = Limited::new(self.get(path).await?, LONGEST).collect().await;
            let body = body
                .map_err(|error| anyhow!(error))
                .with_context(nonsense)?;
            serde_json::from_slice(&body.to_bytes()).with_context(nonsense)
        };
        timeout(PATIENCE, answer).await.map_err(|_| self.silent())?
    }

    fn silent(&self) -> anyhow::Error {
        anyhow!("the agent on {} does not answer", self.address)
    }

    async fn get(&self, path: &str) -> anyhow::Result<Incoming> {
        let unreachable = || format!("no agent on {}", self.address);
        let stream = TcpStream::connect(&self.address)
            .await
            .with_context(unreachable)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .with_context(unreachable)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to the agent ended: {error}");
            }
        });
        let request = Request::get(path)
            .header(header::HOST, &self.address)
            .body(Empty::<Bytes>::new())?;
        let answer = sender
            .send_request(request)
            .await
            .with_context(unreachable)?;
        if answer.status() != StatusCode::OK {
            bail!("the agent on {} answers {}", self.address, answer.status());
        }
        Ok(answer.into_body())
    }
}

fn watches(status: &StatusReport, endpoint: &Endpoint) -> bool {
    *status.runtime.endpoint == *endpoint.to_string()
}

impl Events {
    /// The next record; `None` when the agent has gone.
    pub async fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(record) => return Some(record),
                    // A newer agent may tell what we do not know.
                    Err(error) => tracing::debug!("the agent told something unknown: {error}"),
                }
                continue;
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.unread.extend_from_slice(&data);
            }
        }
    }
}
