//! One observation of the runtime, by a relist or a sweep, for commands on a node without an agent.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cri::Endpoint;
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use pleg::{Config, Mode, Pleg};
use tokio::time::{Instant, sleep};

use crate::args::KernelHints;
use crate::endpoint;
use crate::progress::{ProgressLine, Waiting};

/// What one relist or sweep observed.
pub struct Observation {
    /// The engine, for its cache.
    pub pleg: Pleg,
    /// The status after the relist or sweep.
    pub status: StatusReport,
}

/// The minimum interval at which the status is read.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
/// The maximum interval at which the status is read.
const MAX_INTERVAL: Duration = Duration::from_millis(200);
/// The status is read at intervals of the elapsed time divided by this number, because a report takes
/// longer on a large node.
const INTERVALS: u32 = 20;

/// How long to wait, after the first relist, for pods whose status contradicts the list: they are
/// inspected again after the next list, and fail if the contradiction remains.
const MAX_CONTRADICTION_WAIT: Duration = Duration::from_secs(8);

/// Whether each listed pod was observed, or has an error.
fn is_complete(pleg: &Pleg) -> bool {
    let entries = pleg.cache().all();
    let mut entries = entries.iter();
    entries.all(|entry| entry.error.is_some() || entry.complete_as_of.is_some())
}

/// Relists once, until every pod was observed or is reported as stuck. There is no time limit while
/// inspections proceed. If a list hangs, a sweep observes the ids in the runtime's state directories.
pub async fn observe_once(endpoint: &Endpoint) -> anyhow::Result<Observation> {
    let mut waiting = Some(Waiting::begin(format!("the runtime at {endpoint}")));
    let mut progress = ProgressLine::new("inspected", "pods");
    let (runtime, _) = endpoint::connect(endpoint).await?;
    // containerd 1.7 sends each event to one client only, so the stream is left to an agent.
    let config = Config {
        mode: Mode::Generic,
        ..Config::default()
    };
    // This allows for an overdue list, and then for the overdue status calls of the sweep. If none
    // of these is answered, the runtime may only be slow, so the engine reports them as stuck
    // after twice their limit.
    let limit = config.list_overdue + 2 * config.status_overdue + Duration::from_secs(1);
    let list_limit = config.list_overdue + Duration::from_secs(1);
    let environment = endpoint::environment(endpoint, KernelHints::Off);
    let pleg = Pleg::start(Arc::new(runtime), config, environment);
    let begun = Instant::now();
    let mut relisted = None;
    loop {
        let status = pleg.status().await?;
        if status.relist.progress.is_some() {
            // Both displays would use the same place on the terminal.
            drop(waiting.take());
        }
        progress.advance(status.relist.progress);
        let hung = status.stuck.iter().any(|stuck| stuck.id.is_none());
        // Between two sweeps `sweeping` is false, but pods are known from the last one.
        let has_nothing_to_sweep = status.pods == 0 && !status.relist.sweeping;
        let cannot_sweep = hung && has_nothing_to_sweep && begun.elapsed() > list_limit;
        if status.relist.count > 0 {
            let relisted = *relisted.get_or_insert_with(Instant::now);
            // A relist completes without the answer to Version, whose absence is to be reported.
            let mut in_flight = status.in_flight.iter();
            let awaits_version = !hung && in_flight.any(|call| call.call == Rpc::Version);
            if is_complete(&pleg) && !awaits_version || relisted.elapsed() > MAX_CONTRADICTION_WAIT
            {
                // The earlier report may lack what has been published since.
                let status = pleg.status().await?;
                return Ok(Observation { pleg, status });
            }
        } else if cannot_sweep || progress.moved().elapsed() > limit {
            return Ok(Observation { pleg, status });
        }
        if let Some(failure) = status.relist.last_failure
            && !status.relist.sweeping
        {
            return Err(failure).with_context(|| format!("cannot list the pods at {endpoint}"));
        }
        let interval = begun.elapsed() / INTERVALS;
        sleep(interval.clamp(MIN_INTERVAL, MAX_INTERVAL)).await;
    }
}
