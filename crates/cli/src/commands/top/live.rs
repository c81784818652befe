//! The data of a node that `pleg top` shows, and when each part is requested.
//!
//! ```text
//!   records   as they arrive
//!   status    once a second
//!   pods      at first, then after a record, with a pause: on a large node the list of all pods
//!             has megabytes. In between, the records are applied to the last list.
//! ```

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::{AgentClient, Events, pod_reports};
use anyhow::{Context, anyhow};
use pleg::model::wall_time::WallTime;
use pleg::out::cache::Stopped;
use pleg::out::pods::PodReport;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::runtime::grpc::GrpcRuntime;
use pleg::{Config, Environment, Pleg};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use top::update::{Source, Update};

/// The time between two requests for the status.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two attempts to reach an agent that has stopped.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The minimum pause between two lists of pods.
const MIN_PODS_PAUSE: Duration = Duration::from_secs(2);
/// The maximum pause between two lists of pods, and how long the next list then waits for a record. It
/// does not wait longer, because a pod whose inspection fails or succeeds again has no event.
const MAX_PODS_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a list is this many times as long as the list took. This bounds the cost.
const PAUSE_PER_LIST: u32 = 50;

/// What is watched.
pub enum Watching {
    /// An agent, or a guard.
    Agent {
        /// The agent's client.
        client: AgentClient,
        /// The socket on which the agent listens.
        socket: PathBuf,
        /// The endpoint of the runtime that the agent watches.
        endpoint: String,
    },
    /// The runtime, by an engine of our own.
    Runtime(Box<OwnEngine>),
}

/// The parts of an engine of our own.
pub struct OwnEngine {
    /// The runtime.
    pub runtime: GrpcRuntime,
    /// How to relist.
    pub config: Config,
    /// The clock, the kernel's hints and what else an engine needs.
    pub environment: Environment,
}

/// Sends all data of a node until the screen has ended or our own engine has failed; returns the
/// reason.
pub async fn follow(watching: Watching, updates: mpsc::Sender<Update>) -> anyhow::Error {
    match watching {
        Watching::Agent {
            client,
            socket,
            endpoint,
        } => {
            let to = format!("agent at {}", socket.display());
            let node = Node::Agent(client);
            loop {
                let Err(why) = follow_node(&node, &to, &updates).await;
                let gone = Source::Disconnected {
                    since: WallTime::now(),
                    why: why.to_string(),
                };
                if let Err(gone) = send(&updates, Update::Source(gone)).await {
                    return gone;
                }
                back(&node, &endpoint).await;
            }
        }
        Watching::Runtime(engine) => {
            let OwnEngine {
                runtime,
                config,
                environment,
            } = *engine;
            let node = Node::Own(Pleg::start(Arc::new(runtime), config, environment));
            let Err(why) =
                follow_node(&node, "the runtime itself, without an agent", &updates).await;
            why
        }
    }
}

/// Waits until the agent answers again and watches the same runtime.
async fn back(node: &Node, endpoint: &str) {
    loop {
        sleep(RETRY_INTERVAL).await;
        if let Ok(status) = node.status().await
            && *status.runtime.endpoint == *endpoint
        {
            return;
        }
    }
}

/// The source of the data.
enum Node {
    Agent(AgentClient),
    Own(Pleg),
}

enum Records {
    Agent(Events),
    Own(Subscription),
}

impl Node {
    async fn status(&self) -> anyhow::Result<StatusReport> {
        Ok(match self {
            Self::Agent(agent) => agent.status().await?,
            Self::Own(pleg) => pleg.status().await?,
        })
    }

    async fn pods(&self) -> anyhow::Result<Vec<PodReport>> {
        Ok(match self {
            Self::Agent(agent) => agent.pods().await?,
            Self::Own(pleg) => pod_reports(pleg),
        })
    }

    async fn records(&self) -> anyhow::Result<Records> {
        Ok(match self {
            Self::Agent(agent) => Records::Agent(agent.events().await?),
            Self::Own(pleg) => Records::Own(pleg.subscribe().await?),
        })
    }
}

impl Records {
    async fn next(&mut self) -> anyhow::Result<Record> {
        match self {
            Self::Agent(events) => {
                let record = events.next().await;
                record.context("the agent ended its stream of events")
            }
            Self::Own(records) => Ok(records.next().await.ok_or(Stopped)?),
        }
    }
}

/// Sends all data until the source or the receiver is gone; returns the reason.
async fn follow_node(
    node: &Node,
    to: &str,
    updates: &mpsc::Sender<Update>,
) -> anyhow::Result<Infallible> {
    let records = node.records().await?;
    let to = to.to_owned();
    send(updates, Update::Source(Source::Connected { to })).await?;
    let touched = Notify::new();
    touched.notify_one();
    tokio::select! {
        end = follow_records(records, updates, &touched) => end,
        end = request_status(node, updates) => end,
        end = request_pods(node, updates, &touched) => end,
    }
}

async fn follow_records(
    mut records: Records,
    updates: &mpsc::Sender<Update>,
    touched: &Notify,
) -> anyhow::Result<Infallible> {
    loop {
        let record = records.next().await?;
        let is_change = match &record {
            // Initial events need no new list: the first list of pods contains what
            // exists at the beginning.
            Record::Event(event) => !event.initial,
            Record::Synced { .. } | Record::Health(_) | Record::Gap { .. } => true,
        };
        send(updates, Update::Record(record)).await?;
        if is_change {
            touched.notify_one();
        }
    }
}

async fn request_status(node: &Node, updates: &mpsc::Sender<Update>) -> anyhow::Result<Infallible> {
    let mut ticks = interval(STATUS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let report = Box::new(node.status().await?);
        let taken = WallTime::now();
        send(updates, Update::Status { taken, report }).await?;
    }
}

async fn request_pods(
    node: &Node,
    updates: &mpsc::Sender<Update>,
    touched: &Notify,
) -> anyhow::Result<Infallible> {
    loop {
        let _ = timeout(MAX_PODS_PAUSE, touched.notified()).await;
        let (taken, begun) = (WallTime::now(), Instant::now());
        match node.pods().await {
            Ok(pods) => send(updates, Update::Pods { taken, pods }).await?,
            // If the agent has stopped, the request for the status fails too. Otherwise the screen
            // shows how old the list is.
            Err(why) => {
                tracing::debug!("the pods cannot be listed: {why}");
                touched.notify_one();
            }
        }
        let pause = begun.elapsed() * PAUSE_PER_LIST;
        sleep(pause.clamp(MIN_PODS_PAUSE, MAX_PODS_PAUSE)).await;
    }
}

async fn send(updates: &mpsc::Sender<Update>, update: Update) -> anyhow::Result<()> {
    let sent = updates.send(update).await;
    sent.map_err(|_| anyhow!("the screen has gone"))
}
