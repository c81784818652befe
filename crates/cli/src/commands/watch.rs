//! `pleg watch`: what happens to the pods, as it happens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use cri::Endpoint;
use pleg::go_duration::GoDuration;
use pleg::runtime::RuntimeVersion;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::subscribers::Subscription;
use pleg::told::Record;
use pleg::{Config, Pleg};
use tokio::time::sleep;

use crate::agent_client::{AgentClient, Events};
use crate::args::{Format, Global, PodFilter, Watch};
use crate::{Found, endpoint, output, signals, text};

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
    let interrupted = signals::interrupted()?;
    let end = sleep(options.duration.unwrap_or(Duration::MAX));
    tokio::select! {
        ended = watch(global, &options) => match ended? {},
        _ = interrupted => {}
        () = end => {}
        () = output::reader_gone() => {}
    }
    Ok(Found::Well)
}

/// Tells for ever, unless it cannot.
async fn watch(global: &Global, options: &Watch) -> anyhow::Result<Infallible> {
    let (mut teller, endpoint) = begin(global, options).await?;
    let mut synced = false;
    loop {
        let record = teller.next().await;
        let Some(record) = record else {
            // The agent has gone; the runtime may be there still.
            ensure!(
                matches!(teller, Teller::Agent(_)),
                "the event loop has stopped"
            );
            tracing::warn!("the agent has gone: watching the runtime directly");
            // It may be down as well, which the watch then says.
            let runtime = GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE);
            teller = watch_runtime(global, options, &endpoint, runtime, None).await?;
            continue;
        };
        if matches!(record, Record::Synced { .. }) && std::mem::replace(&mut synced, true) {
            continue;
        }
        tell(global, &options.filter, record).await?;
    }
}

/// The agent's events, where there is one; it knows its runtime, so nobody has to look
/// for that. Otherwise our own.
async fn begin(global: &Global, options: &Watch) -> anyhow::Result<(Teller, Endpoint)> {
    let named = global.named_endpoint()?;
    if let Some(agent) = AgentClient::find(&options.agent, named.as_ref()).await? {
        let status = agent.status().await?;
        header(global, &text::watch::agent_header(&status))?;
        let endpoint = status.runtime.endpoint.parse()?;
        return Ok((Teller::Agent(agent.events().await?), endpoint));
    }
    let endpoint = endpoint::find(named).await?;
    let ourselves = watch_ourselves(global, options, &endpoint).await?;
    Ok((ourselves, endpoint))
}

async fn watch_ourselves(
    global: &Global,
    options: &Watch,
    endpoint: &Endpoint,
) -> anyhow::Result<Teller> {
    let (runtime, version) = endpoint::connect(endpoint).await?;
    watch_runtime(global, options, endpoint, runtime, version).await
}

async fn watch_runtime(
    global: &Global,
    options: &Watch,
    endpoint: &Endpoint,
    runtime: GrpcRuntime,
    version: Option<RuntimeVersion>,
) -> anyhow::Result<Teller> {
    let relisting = &options.relisting;
    ensure!(
        relisting.relist_threshold > relisting.relist_period,
        "the relist threshold ({}) must be longer than the period ({})",
        GoDuration(relisting.relist_threshold),
        GoDuration(relisting.relist_period)
    );
    let config = Config {
        mode: relisting.mode.into(),
        relist_period: relisting.relist_period,
        relist_threshold: relisting.relist_threshold,
        ..Config::default()
    };
    header(
        global,
        &text::watch::header(version.as_ref(), endpoint, config.relist_period),
    )?;
    let environment = endpoint::environment(endpoint, relisting.kernel_hints);
    let pleg = Pleg::start(Arc::new(runtime), config, environment);
    Ok(Teller::Ourselves(Box::new(pleg.subscribe().await?)))
}

fn header(global: &Global, header: &str) -> anyhow::Result<()> {
    match global.output {
        Format::Text => output::text(header),
        Format::Json => Ok(()),
    }
}

async fn tell(global: &Global, filter: &PodFilter, record: Record) -> anyhow::Result<()> {
    if let Record::Event(event) = &record
        && !filter.shows(&event.pod.namespace, &event.pod.name)
    {
        return Ok(());
    }
    let format = global.output;
    let write = move || match format {
        Format::Json => output::json(&record),
        Format::Text => output::text(&text::watch::line(&record)),
    };
    output::patiently(write).await
}
