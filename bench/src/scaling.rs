//! The cost of a relist by the number of containers.
//!
//! The lists are read from memory, so only pleg's own work is measured: the snapshot, the records, the
//! inspections, the cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pleg::model::id::Id;
use pleg::model::listed::{ListedContainer, ListedSandbox};
use pleg::model::status::{ContainerStatus, SandboxStatus};
use pleg::runtime::{Announcements, CallError, Listing, Runtime, RuntimeVersion};
use pleg::{Config, Environment, Measurement, Mode, Observer, Pleg};
use tokio::sync::Notify;

use crate::Effort;
use crate::cpu::{Progress, median, used};
use crate::node;
use crate::rows::Node;
use crate::table::{Table, ratio, time};

/// One in this many pods changes.
const PODS_PER_CHANGE: usize = 100;

pub async fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<Table> {
    let mut table = Table::new(
        "One relist by number of containers, lists from memory",
        &[
            "containers",
            "nothing changed",
            "1 % of pods changed",
            "per container",
            "ratio to 100",
        ],
    );
    let mut first = None;
    for (containers, name) in [(100, "100"), (1_000, "1,000"), (10_000, "10,000")] {
        progress.show(&format!("a relist of {name} containers"));
        let idle = relist(effort, containers, false).await?;
        let changed = relist(effort, containers, true).await?;
        let each = changed / containers as f64;
        let first = *first.get_or_insert(each);
        table.row([
            name.to_owned(),
            time(idle),
            time(changed),
            time(each),
            ratio(each, first),
        ]);
    }
    table.note(
        "Each pod has two containers; a changed pod has one container that died or started \
         again, and is inspected. The last two columns are of the relists with changes: a \
         constant ratio means linear growth.",
    );
    Ok(table)
}

/// Nanoseconds of CPU time that a relist with all its inspections takes.
async fn relist(effort: Effort, containers: usize, changing: bool) -> anyhow::Result<f64> {
    let runtime = Arc::new(Memory::new(containers / 2, changing));
    let ended = Arc::new(Ended::default());
    let environment = Environment {
        observer: ended.clone(),
        ..node::environment()
    };
    // Relist only on request. Each request waits until the relist and its inspections are complete.
    let config = Config {
        mode: Mode::Generic,
        relist_period: Duration::from_secs(3600),
        ..Config::default()
    };
    let pleg = Pleg::start(runtime, config, environment);
    // In the first relist everything is new. The first batch warms the caches, and is discarded.
    ended.0.notified().await;
    let mut samples = Vec::new();
    for _ in 0..=effort.batches {
        let before = used();
        let mut count = 0;
        while used() - before < effort.batch {
            pleg.request_relist();
            ended.0.notified().await;
            count += 1;
        }
        samples.push((used() - before).as_nanos() as f64 / f64::from(count));
    }
    let status = pleg.status().await?;
    let listed: usize = status.containers.values().sum();
    anyhow::ensure!(
        listed == containers,
        "only {listed} of {containers} containers are observed"
    );
    samples.remove(0);
    Ok(median(samples))
}

/// Wakes the task that waits for the end of a relist.
#[derive(Debug, Default)]
struct Ended(Notify);

impl Observer for Ended {
    fn observe(&self, measurement: &Measurement) {
        if let Measurement::Seen(..) = measurement {
            self.0.notify_one();
        }
    }
}

/// A runtime whose answers are in memory.
struct Memory {
    sandboxes: Arc<[Arc<ListedSandbox>]>,
    /// The lists before and after the changes. They are returned alternately.
    containers: [Arc<[Arc<ListedContainer>]>; 2],
    changing: bool,
    changed: AtomicBool,
    sandbox_statuses: HashMap<Id, SandboxStatus>,
    container_statuses: HashMap<Id, ContainerStatus>,
}

impl Memory {
    fn new(pods: usize, changing: bool) -> Self {
        let node = Node::new(pods, 2);
        let changed = node.with_change_in(pods.div_ceil(PODS_PER_CHANGE));
        Self {
            sandbox_statuses: node.sandbox_statuses(),
            container_statuses: node.container_statuses(),
            sandboxes: node.sandboxes.into(),
            containers: [node.containers.into(), changed.into()],
            changing,
            changed: AtomicBool::new(false),
        }
    }
}

impl Runtime for Memory {
    async fn version(&self) -> Result<RuntimeVersion, CallError> {
        Ok(RuntimeVersion {
            name: "memory".into(),
            version: "1".into(),
            api_version: "v1".into(),
        })
    }

    async fn list_sandboxes(&self) -> Result<Listing<ListedSandbox>, CallError> {
        let rows = self.sandboxes.clone();
        Ok(Listing { rows, bytes: 0 })
    }

    async fn list_containers(&self) -> Result<Listing<ListedContainer>, CallError> {
        let changed = self.changed.fetch_xor(self.changing, Ordering::Relaxed);
        let rows = self.containers[usize::from(changed)].clone();
        Ok(Listing { rows, bytes: 0 })
    }

    async fn sandbox_status(&self, id: &Id) -> Result<SandboxStatus, CallError> {
        known(&self.sandbox_statuses, id)
    }

    async fn container_status(&self, id: &Id) -> Result<ContainerStatus, CallError> {
        known(&self.container_statuses, id)
    }

    async fn container_pid(&self, _: &Id) -> Result<Option<u32>, CallError> {
        Ok(None)
    }

    async fn announcements(&self) -> Result<Announcements, CallError> {
        Err(CallError::Unimplemented("memory has no events".into()))
    }
}

fn known<Status: Clone>(statuses: &HashMap<Id, Status>, id: &Id) -> Result<Status, CallError> {
    let status = statuses.get(id).cloned();
    status.ok_or_else(|| CallError::NotFound("not in memory".into()))
}
