//! `pleg watch`: what happens to the pods, as it happens.

use std::sync::Arc;
use std::time::Duration;

use cri::Endpoint;
use pleg::event::Record;
use pleg::subscribers::Subscription;
use pleg::wall_time::system_clock;
use pleg::{Config, Environment, NoObserver, Pleg};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::agent_client::{AgentClient, Events};
use crate::args::{Format, Global, PodFilter, Watch};
use crate::{Found, endpoint, output, text};

/// Who tells.
enum Teller {
    Agent(Events),
    Ourselves(Box<Subscription>),
}

impl Teller {
    async fn next(&mut self) -> Option<Record> {
        match self {
            Self::Agent(events) => events.next().await,
            Self::Ourselves(subscription) => subscription.next().await,
        }
    }
}

pub async fn run(global: &Global, options: Watch) -> anyhow::Result<Found> {
    let endpoint = endpoint::find(global.runtime_endpoint.as_deref()).await?;
    let mut teller = match AgentClient::find(&options.agent, Some(&endpoint)).await? {
        Some(agent) => {
            let status = agent.status().await?;
            header(global, &text::watch::agent_header(&status))?;
            Teller::Agent(agent.events().await?)
        }
        None => watch_ourselves(global, &options, &endpoint).await?,
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let end = sleep(options.duration.unwrap_or(Duration::MAX));
    tokio::pin!(end);
    let mut synced = false;
    loop {
        let record = tokio::select! {
            record = teller.next() => record,
            _ = terminate.recv() => return Ok(Found::Well),
            _ = interrupt.recv() => return Ok(Found::Well),
            () = &mut end => return Ok(Found::Well),
        };
        let Some(record) = record else {
            // The agent has gone; the runtime may be there still.
            anyhow::ensure!(
                matches!(teller, Teller::Agent(_)),
                "the event loop has stopped"
            );
            tracing::warn!("the agent has gone: watching the runtime directly");
            teller = watch_ourselves(global, &options, &endpoint).await?;
            continue;
        };
        if matches!(record, Record::Synced { .. }) && std::mem::replace(&mut synced, true) {
            continue;
        }
        tell(global, &options.filter, &record)?;
    }
}

async fn watch_ourselves(
    global: &Global,
    options: &Watch,
    endpoint: &Endpoint,
) -> anyhow::Result<Teller> {
    let (runtime, version) = endpoint::connect(endpoint).await?;
    let relisting = &options.relisting;
    let config = Config {
        relist_period: relisting.relist_period,
        relist_threshold: relisting.relist_threshold,
        ..Config::default()
    };
    header(
        global,
        &text::watch::header(version.as_ref(), endpoint, config.relist_period),
    )?;
    let environment = Environment {
        endpoint: endpoint.to_string().into(),
        clock: system_clock(),
        observer: Arc::new(NoObserver),
    };
    let pleg = Pleg::start(Arc::new(runtime), config, environment);
    Ok(Teller::Ourselves(Box::new(pleg.subscribe().await?)))
}

fn header(global: &Global, header: &str) -> anyhow::Result<()> {
    match global.output {
        Format::Text => output::text(header),
        Format::Json => Ok(()),
    }
}

fn tell(global: &Global, filter: &PodFilter, record: &Record) -> anyhow::Result<()> {
    if let Record::Event(event) = record
        && !filter.shows(&event.pod.namespace, &event.pod.name)
    {
        return Ok(());
    }
    match global.output {
        Format::Json => output::json(record),
        Format::Text => output::text(&text::watch::line(record)),
    }
}
