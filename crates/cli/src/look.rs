//! A look of our own, where no agent runs: relist once, and see what answers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use cri::Endpoint;
use pleg::status_report::StatusReport;
use pleg::wall_time::system_clock;
use pleg::{Config, Environment, NoObserver, Pleg};
use tokio::time::{Instant, sleep};

use crate::endpoint;
use crate::text::sentence;

/// What a look found.
pub struct Look {
    /// The generator, for its cache.
    pub pleg: Pleg,
    /// How things are after the look.
    pub status: StatusReport,
}

/// How often to see whether the look is complete.
const GLANCE: Duration = Duration::from_millis(5);

/// Relists once: until every pod was inspected or is named as stuck, or a list proves to
/// hang.
pub async fn look(endpoint: &Endpoint) -> anyhow::Result<Look> {
    let (runtime, _) = endpoint::connect(endpoint).await?;
    let config = Config::default();
    // A list counts as hung when it is overdue; the rest is time for the status calls.
    let enough = config.list_overdue + config.status_overdue * 2;
    let environment = Environment {
        endpoint: endpoint.to_string().into(),
        clock: system_clock(),
        observer: Arc::new(NoObserver),
    };
    let pleg = Pleg::start(Arc::new(runtime), config, environment);
    let begun = Instant::now();
    loop {
        let status = pleg.status().await?;
        let hung = status.stuck.iter().any(|stuck| stuck.id.is_none());
        if status.relist.count > 0 || hung || begun.elapsed() > enough {
            return Ok(Look { pleg, status });
        }
        if let Some(failure) = status.relist.last_failure {
            let failure = sentence(&failure);
            bail!("cannot list the pods at {endpoint}: {failure}");
        }
        sleep(GLANCE).await;
    }
}
