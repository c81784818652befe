//! `pleg watch`: what happens to the pods, as it happens.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent::AgentClient;
use anyhow::{Context, ensure};
use cri::Endpoint;
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::out::told::Record;
use pleg::runtime::RuntimeVersion;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::{Config, Mode, Pleg};
use pleg_text::GoDuration;
use tokio::time::sleep;

use crate::args::{Format, Global, KernelHints, PodFilter, Relisting, Watch};
use crate::news::News;
use crate::{Found, endpoint, output, signals, text};

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
    let config = config(&options.relisting)?;
    let named = global.named_endpoint()?;
    let mut telling = Telling::new(global, options);
    if let Some((agent, status)) =
        AgentClient::find(&options.agent.choice(), named.as_ref()).await?
    {
        warn_of_flags_without_effect(&options.relisting);
        return watch_agent(telling, agent, status, config).await;
    }
    let endpoint = endpoint::find(named).await?;
    let (runtime, version) = endpoint::connect(&endpoint).await?;
    let mut ourselves = telling.begin(&endpoint, runtime, version, config).await?;
    loop {
        telling.tell(ourselves.next().await).await?;
    }
}

/// The agent's events; it knows its runtime, so nobody has to look for that. While it is
/// away, our own.
async fn watch_agent(
    mut telling: Telling<'_>,
    agent: AgentClient,
    mut status: StatusReport,
    config: Config,
) -> anyhow::Result<Infallible> {
    let mut events = agent.events().await?;
    let endpoint: Endpoint = status.runtime.endpoint.parse()?;
    loop {
        telling.header(&text::watch::agent_header(&status))?;
        while let Some(record) = events.next().await {
            telling.tell(Some(record)).await?;
        }
        tracing::warn!("the agent stopped; watching the runtime directly");
        telling.news.teller_changed();
        // It may be down as well, which the watch then says.
        let runtime = GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE);
        // An agent that comes back finds the stream of containerd 1.7 free.
        let config = Config {
            mode: Mode::Generic,
            ..config.clone()
        };
        let mut ourselves = telling.begin(&endpoint, runtime, None, config).await?;
        let mut back = pin!(agent.back(&endpoint));
        (status, events) = loop {
            tokio::select! {
                // What we have seen ourselves is told before the agent takes over.
                biased;
                record = ourselves.next() => telling.tell(record).await?,
                back = &mut back => break back,
            }
        };
        tracing::warn!("the agent is back; using its events again");
        telling.news.teller_changed();
    }
}

/// How a generator of our own relists.
pub fn config(relisting: &Relisting) -> anyhow::Result<Config> {
    let default = Config::default();
    let period = relisting.relist_period.unwrap_or(default.relist_period);
    let threshold = relisting
        .relist_threshold
        .unwrap_or(default.relist_threshold);
    ensure!(
        threshold > period,
        "the relist threshold ({}) must be longer than the period ({})",
        GoDuration(threshold),
        GoDuration(period)
    );
    Ok(Config {
        mode: relisting.mode.map_or(default.mode, Into::into),
        relist_period: period,
        relist_threshold: threshold,
        ..default
    })
}

/// An agent relists as its own configuration says.
pub fn warn_of_flags_without_effect(relisting: &Relisting) {
    let given = relisting.given();
    let (flags, verb) = match &given[..] {
        [] => return,
        [one] => ((*one).to_owned(), "has"),
        [most @ .., last] => (format!("{} and {last}", most.join(", ")), "have"),
    };
    tracing::warn!(
        "{flags} {verb} no effect while an agent is used; --agent off uses the runtime directly"
    );
}

/// How it is told, and what was told already.
struct Telling<'a> {
    format: Format,
    filter: &'a PodFilter,
    hints: KernelHints,
    news: News,
}

impl<'a> Telling<'a> {
    fn new(global: &Global, options: &'a Watch) -> Self {
        Self {
            format: global.output,
            filter: &options.filter,
            hints: options.relisting.kernel_hints.unwrap_or(KernelHints::Auto),
            news: News::default(),
        }
    }

    /// Watches the runtime by a generator of our own.
    async fn begin(
        &self,
        endpoint: &Endpoint,
        runtime: GrpcRuntime,
        version: Option<RuntimeVersion>,
        config: Config,
    ) -> anyhow::Result<Subscription> {
        let period = config.relist_period;
        self.header(&text::watch::header(version.as_ref(), endpoint, period))?;
        let environment = endpoint::environment(endpoint, self.hints);
        let pleg = Pleg::start(Arc::new(runtime), config, environment);
        Ok(pleg.subscribe().await?)
    }

    fn header(&self, header: &str) -> anyhow::Result<()> {
        match self.format {
            Format::Text => output::text(header),
            Format::Json => Ok(()),
        }
    }

    /// Tells a record, if it is wanted and new; `None` is the end of our own generator.
    async fn tell(&mut self, record: Option<Record>) -> anyhow::Result<()> {
        let record = record.context("the event loop has stopped")?;
        if let Record::Event(event) = &record
            && !self.filter.shows(&event.pod.namespace, &event.pod.name)
        {
            return Ok(());
        }
        let Some(record) = self.news.news_of(record) else {
            return Ok(());
        };
        let format = self.format;
        let write = move || match format {
            Format::Json => output::json(&record),
            Format::Text => output::text(&text::watch::line(&record)),
        };
        output::patiently(write).await
    }
}
