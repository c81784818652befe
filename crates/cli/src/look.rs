//! A look of our own, where no agent runs: relist once, and see what answers.

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
use crate::progress::Teller;

/// What a look found.
pub struct Look {
    /// The generator, for its cache.
    pub pleg: Pleg,
    /// How things are after the look.
    pub status: StatusReport,
}

/// How often to see whether the look is complete: at first so often, and then once in this part
/// of the time that it has taken, for to tell how it is takes longer on a large node.
const GLANCE: Duration = Duration::from_millis(5);
const GLANCES: u32 = 20;
const LONGEST_GLANCE: Duration = Duration::from_millis(200);

/// How long a look goes on for pods whose status contradicts the list: they are asked for again
/// after the next list, and fail if both still say the same.
const DOUBTS: Duration = Duration::from_secs(8);

/// Whether all that is listed was seen, or has an error.
fn is_told(pleg: &Pleg) -> bool {
    let entries = pleg.cache().all();
    let mut entries = entries.iter();
    entries.all(|entry| entry.error.is_some() || entry.complete_as_of.is_some())
}

/// Relists once: until every pod was inspected or is named as stuck, however long that takes
/// while it comes any further. Where a list hangs, by a sweep of the ids that the runtime's
/// folders show.
pub async fn look(endpoint: &Endpoint) -> anyhow::Result<Look> {
    let (runtime, _) = endpoint::connect(endpoint).await?;
    // A glance takes no events, which containerd 1.7 would then not give to an agent.
    let config = Config {
        mode: Mode::Generic,
        ..Config::default()
    };
    // A list is overdue, then the status calls; where none is answered, the runtime may only be
    // slow, and they are named after twice the time.
    let enough = config.list_overdue + 2 * config.status_overdue + Duration::from_secs(1);
    let list_enough = config.list_overdue + Duration::from_secs(1);
    let environment = endpoint::environment(endpoint, KernelHints::Off);
    let pleg = Pleg::start(Arc::new(runtime), config, environment);
    let begun = Instant::now();
    let mut seen = None;
    let mut teller = Teller::new("inspected", "pods");
    loop {
        let status = pleg.status().await?;
        teller.advance(status.relist.progress);
        let hung = status.stuck.iter().any(|stuck| stuck.id.is_none());
        let in_vain = hung && !status.relist.sweeping && begun.elapsed() > list_enough;
        if status.relist.count > 0 {
            let seen = *seen.get_or_insert_with(Instant::now);
            // Lists do not wait for it so long, and whether it hangs is to be said.
            let mut in_flight = status.in_flight.iter();
            let awaits_version = !hung && in_flight.any(|call| call.call == Rpc::Version);
            if is_told(&pleg) && !awaits_version || seen.elapsed() > DOUBTS {
                // The report from before may not have what was told in between.
                let status = pleg.status().await?;
                return Ok(Look { pleg, status });
            }
        } else if in_vain || teller.moved().elapsed() > enough {
            return Ok(Look { pleg, status });
        }
        if let Some(failure) = status.relist.last_failure
            && !status.relist.sweeping
        {
            return Err(failure).with_context(|| format!("cannot list the pods at {endpoint}"));
        }
        let glance = begun.elapsed() / GLANCES;
        sleep(glance.clamp(GLANCE, LONGEST_GLANCE)).await;
    }
}
