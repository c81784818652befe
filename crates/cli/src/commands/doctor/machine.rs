//! Reads the machine while the runtime is observed.

use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use doctor::collect::helper::{Helper, Helpers};
use doctor::collect::host::{self, Host};
use doctor::facts::HostFacts;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};

/// How many reads that may block can run at the same time.
const HELPERS: usize = 4;

/// The minimum time between the two samples of counters.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The time that is reserved for the second sample and the reads after it.
const SECOND_SAMPLE_LIMIT: Duration = Duration::from_secs(9);

/// Reads the machine in the background. Counters and process states are read a second time once the
/// runtime has been observed, so that the states are those at the end of the observation.
pub(super) struct Machine {
    observed: Option<Sender<()>>,
    reading: Option<JoinHandle<HostFacts>>,
    facts: HostFacts,
    until: Instant,
}

impl Machine {
    /// Starts to read the machine. The helpers are started first, because starting a
    /// process may block later.
    pub(super) fn read(logs: Option<Duration>, until: Instant) -> anyhow::Result<Self> {
        let mut helpers = helpers()?;
        let (observed, is_observed): (_, Receiver<()>) = channel();
        let latest = until - SECOND_SAMPLE_LIMIT;
        let reading = spawn_blocking(move || {
            let wait = || {
                let begun = Instant::now();
                std::thread::sleep(SAMPLE_INTERVAL);
                let left = latest.saturating_duration_since(Instant::now());
                // The channel is closed once the runtime has been observed.
                let _ = is_observed.recv_timeout(left);
                begun.elapsed()
            };
            let host = Host {
                logs,
                ..Host::local()
            };
            host::collect(&host, &mut helpers, wait)
        });
        Ok(Self {
            observed: Some(observed),
            reading: Some(reading),
            facts: HostFacts::default(),
            until,
        })
    }

    /// To be called once the runtime has been observed: causes the second sample, waits until the
    /// machine has been read, at most until the deadline, and returns the facts.
    pub(super) async fn finish(&mut self) -> &HostFacts {
        self.observed = None;
        if let Some(reading) = self.reading.take() {
            match timeout_at(self.until, reading).await {
                Ok(Ok(facts)) => self.facts = facts,
                _ => tracing::warn!("the machine could not be read in time"),
            }
        }
        &self.facts
    }

    /// Finishes, and returns the facts.
    pub(super) async fn facts(mut self) -> HostFacts {
        self.finish().await;
        self.facts
    }
}

fn helpers() -> anyhow::Result<Helpers> {
    let started = || -> std::io::Result<Vec<Helper>> {
        let program = std::env::current_exe()?;
        let helper = |_| {
            let mut command = Command::new(&program);
            command.arg("doctor-helper");
            Helper::process(command)
        };
        (0..HELPERS).map(helper).collect()
    };
    match started() {
        Ok(helpers) => Ok(Helpers::new(helpers)),
        Err(error) => {
            tracing::warn!(
                "cannot start helper processes, so a read that blocks may delay the \
                 diagnosis: {error}"
            );
            Ok(Helpers::threads(HELPERS)?)
        }
    }
}
