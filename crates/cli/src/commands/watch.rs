//! `pleg watch`: lifecycle events of the pods, live.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent::AgentClient;
use anyhow::ensure;
use cri::Endpoint;
use pleg::out::cache::Stopped;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::out::subscribers::Subscription;
use pleg::runtime::RuntimeVersion;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::{Config, Mode, Pleg};
use pleg_text::GoDuration;
use tokio::time::sleep;

use crate::args::{Format, Global, KernelHints, PodFilter, Relisting, Watch};
use crate::reported::Reported;
use crate::{Outcome, endpoint, output, signals, text};

pub async fn run(global: &Global, options: Watch) -> anyhow::Result<Outcome> {
    let interrupted = signals::interrupted()?;
    let end = sleep(options.duration.unwrap_or(Duration::MAX));
    tokio::select! {
        ended = watch(global, &options) => match ended? {},
        _ = interrupted => {}
        () = end => {}
        () = output::reader_gone() => {}
    }
    Ok(Outcome::Done)
}

/// Prints records until an error occurs.
async fn watch(global: &Global, options: &Watch) -> anyhow::Result<Infallible> {
    let config = config(&options.relisting)?;
    let named = global.given_endpoint()?;
    let mut printer = Printer::new(global, options);
    if let Some((agent, status)) =
        AgentClient::find(&options.agent.choice(), named.as_ref()).await?
    {
        warn_of_flags_without_effect(&options.relisting);
        return watch_agent(printer, agent, status, config).await;
    }
    let endpoint = endpoint::find(named).await?;
    let (runtime, version) = endpoint::connect(&endpoint).await?;
    let mut own = printer.begin(&endpoint, runtime, version, config).await?;
    loop {
        printer.print(own.next().await).await?;
    }
}

/// Prints the events of the agent. While the agent is away, prints those of an engine of our own, which
/// watches the same runtime.
async fn watch_agent(
    mut printer: Printer<'_>,
    agent: AgentClient,
    mut status: StatusReport,
    config: Config,
) -> anyhow::Result<Infallible> {
    let mut events = agent.events().await?;
    let endpoint: Endpoint = status.runtime.endpoint.parse()?;
    loop {
        printer.header(&text::watch::agent_header(&status, printer.width))?;
        while let Some(record) = events.next().await {
            printer.print(Some(record)).await?;
        }
        tracing::warn!("the agent stopped; watching the runtime directly");
        printer.reported.source_changed();
        let runtime = GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE);
        // containerd 1.7 sends each event to one client only, so the stream is left to the agent.
        let config = Config {
            mode: Mode::Generic,
            ..config.clone()
        };
        let mut own = printer.begin(&endpoint, runtime, None, config).await?;
        let mut back = pin!(agent.back(&endpoint));
        (status, events) = loop {
            tokio::select! {
                // Our own records are printed before those of the agent.
                biased;
                record = own.next() => printer.print(record).await?,
                back = &mut back => break back,
            }
        };
        tracing::warn!("the agent is back; using its events again");
        printer.reported.source_changed();
    }
}

/// The configuration of an engine of our own.
pub fn config(relisting: &Relisting) -> anyhow::Result<Config> {
    let default = Config::default();
    let period = relisting.relist_period.unwrap_or(default.relist_period);
    let threshold = relisting.relist_threshold;
    let threshold = threshold.unwrap_or(default.relist_threshold);
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

/// Warns of each given flag that has no effect, because an agent relists according
/// to its own configuration.
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

/// How to print records, and which were printed.
struct Printer<'a> {
    format: Format,
    /// The width of the terminal.
    width: Option<usize>,
    filter: &'a PodFilter,
    hints: KernelHints,
    reported: Reported,
}

impl<'a> Printer<'a> {
    fn new(global: &Global, options: &'a Watch) -> Self {
        Self {
            format: global.format(),
            width: text::terminal_columns(),
            filter: &options.filter,
            hints: options.relisting.kernel_hints.unwrap_or(KernelHints::Auto),
            reported: Reported::default(),
        }
    }

    /// Prints the header, and watches the runtime with an engine of our own.
    async fn begin(
        &self,
        endpoint: &Endpoint,
        runtime: GrpcRuntime,
        version: Option<RuntimeVersion>,
        config: Config,
    ) -> anyhow::Result<Subscription> {
        let period = config.relist_period;
        self.header(&text::watch::header(
            version.as_ref(),
            endpoint,
            period,
            self.width,
        ))?;
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

    /// Prints a record, if the filter shows it and it is new. `None` means that our own engine has
    /// stopped.
    async fn print(&mut self, record: Option<Record>) -> anyhow::Result<()> {
        let record = record.ok_or(Stopped)?;
        if let Record::Event(event) = &record
            && !self.filter.shows(&event.pod.namespace, &event.pod.name)
        {
            return Ok(());
        }
        let Some(record) = self.reported.take(record) else {
            return Ok(());
        };
        let (format, width) = (self.format, self.width);
        let write = move || output::show(format, &record, || text::watch::line(&record, width));
        output::write_in_thread(write).await
    }
}
