//! What `pleg top` learns of a node, and when it asks.
//!
//! ```text
//!   records   as they come
//!   status    once a second
//!   pods      at first, then when something has happened, but never often: on a large node all
//!             pods are megabytes. In between, the records are applied to them.
//! ```

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::{AgentClient, Events, pod_reports};
use anyhow::anyhow;
use pleg::model::wall_time::WallTime;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::out::told::Record;
use pleg::runtime::grpc::GrpcRuntime;
use pleg::{Config, Environment, Pleg};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use top::update::{Source, Update};

/// Between two looks at the status.
const STATUS: Duration = Duration::from_secs(1);

/// Before an agent that has gone is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// At least so long between two lists of pods, and so many times as long as the last one took:
/// that bounds what they cost.
const PODS: Duration = Duration::from_secs(2);
const PODS_SHARE: u32 = 50;

/// However long a list takes, and whether or not anything has happened: a pod whose inspection
/// fails, or succeeds again, has no event.
const LONGEST: Duration = Duration::from_secs(30);

/// Who is watched.
pub enum Watching {
    /// An agent, or a guard.
    Agent {
        /// How to ask it.
        client: AgentClient,
        /// Where it listens.
        socket: PathBuf,
        /// The runtime that it watches.
        endpoint: String,
    },
    /// The runtime, by a generator of our own.
    Ourselves(Box<Generator>),
}

/// What a generator of our own is made of.
pub struct Generator {
    /// The runtime.
    pub runtime: GrpcRuntime,
    /// How to relist.
    pub config: Config,
    /// What it takes from the machine.
    pub environment: Environment,
}

/// Sends all that is learned of a node, for as long as there is anybody to send it to; then, and
/// if our own generator fails, says why that is the end.
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
                let Err(why) = learn(&node, &to, &updates).await;
                let gone = Source::Disconnected {
                    since: WallTime::now(),
                    why,
                };
                if updates.send(Update::Source(gone)).await.is_err() {
                    return anyhow!("the screen has gone");
                }
                back(&node, &endpoint).await;
            }
        }
        Watching::Ourselves(generator) => {
            let Generator {
                runtime,
                config,
                environment,
            } = *generator;
            let node = Node::Ourselves(Pleg::start(Arc::new(runtime), config, environment));
            let Err(why) = learn(&node, "the runtime itself, without an agent", &updates).await;
            anyhow!(why)
        }
    }
}

/// Waits until an agent that has gone answers again, for the same runtime.
async fn back(node: &Node, endpoint: &str) {
    loop {
        sleep(RETRY).await;
        if let Ok(status) = node.status().await
            && *status.runtime.endpoint == *endpoint
        {
            return;
        }
    }
}

/// Somebody who can be asked about the node.
enum Node {
    Agent(AgentClient),
    Ourselves(Pleg),
}

enum Records {
    Agent(Events),
    Ourselves(Subscription),
}

impl Node {
    async fn status(&self) -> Result<StatusReport, String> {
        match self {
            Self::Agent(agent) => agent.status().await.map_err(|error| error.to_string()),
            Self::Ourselves(pleg) => pleg.status().await.map_err(|_| stopped()),
        }
    }

    async fn pods(&self) -> Result<Vec<PodReport>, String> {
        match self {
            Self::Agent(agent) => agent.pods().await.map_err(|error| error.to_string()),
            Self::Ourselves(pleg) => Ok(pod_reports(pleg)),
        }
    }

    async fn records(&self) -> Result<Records, String> {
        match self {
            Self::Agent(agent) => {
                let events = agent.events().await.map_err(|error| error.to_string())?;
                Ok(Records::Agent(events))
            }
            Self::Ourselves(pleg) => {
                let records = pleg.subscribe().await.map_err(|_| stopped())?;
                Ok(Records::Ourselves(records))
            }
        }
    }
}

impl Records {
    async fn next(&mut self) -> Result<Record, String> {
        match self {
            Self::Agent(events) => {
                let record = events.next().await;
                record.ok_or_else(|| "the agent ended its stream of events".to_owned())
            }
            Self::Ourselves(records) => records.next().await.ok_or_else(stopped),
        }
    }
}

fn stopped() -> String {
    "the event loop has stopped".to_owned()
}

/// Learns until nobody answers, or nobody wants to know; says why.
async fn learn(
    node: &Node,
    to: &str,
    updates: &mpsc::Sender<Update>,
) -> Result<Infallible, String> {
    let records = node.records().await?;
    let to = to.to_owned();
    send(updates, Update::Source(Source::Connected { to })).await?;
    let touched = Notify::new();
    touched.notify_one();
    tokio::select! {
        end = follow_records(records, updates, &touched) => end,
        end = ask_for_status(node, updates) => end,
        end = ask_for_pods(node, updates, &touched) => end,
    }
}

async fn follow_records(
    mut records: Records,
    updates: &mpsc::Sender<Update>,
    touched: &Notify,
) -> Result<Infallible, String> {
    loop {
        let record = records.next().await?;
        let is_news = match &record {
            // What was there at the beginning is in the first list of pods.
            Record::Event(event) => !event.initial,
            Record::Synced { .. } | Record::Health(_) | Record::Gap { .. } => true,
        };
        send(updates, Update::Record(record)).await?;
        if is_news {
            touched.notify_one();
        }
    }
}

async fn ask_for_status(node: &Node, updates: &mpsc::Sender<Update>) -> Result<Infallible, String> {
    let mut ticks = interval(STATUS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let report = Box::new(node.status().await?);
        let taken = WallTime::now();
        send(updates, Update::Status { taken, report }).await?;
    }
}

async fn ask_for_pods(
    node: &Node,
    updates: &mpsc::Sender<Update>,
    touched: &Notify,
) -> Result<Infallible, String> {
    loop {
        // Also when nothing has happened, now and then.
        let _ = timeout(LONGEST, touched.notified()).await;
        let (taken, begun) = (WallTime::now(), Instant::now());
        match node.pods().await {
            Ok(pods) => send(updates, Update::Pods { taken, pods }).await?,
            // If the agent has gone, the status says so; if it has not, the screen says how old
            // the list is.
            Err(why) => {
                tracing::debug!("the pods cannot be listed: {why}");
                touched.notify_one();
            }
        }
        sleep((begun.elapsed() * PODS_SHARE).clamp(PODS, LONGEST)).await;
    }
}

async fn send(updates: &mpsc::Sender<Update>, update: Update) -> Result<(), String> {
    let sent = updates.send(update).await;
    sent.map_err(|_| "the screen has gone".to_owned())
}
