//! A relist of a node on which nothing happens, against a real containerd.
//!
//! Four contestants ask the same two lists over sockets of their own, in turns:
//!
//! ```text
//!   bare socket      the same bytes by hand, blocking: what the kernel takes
//!   gRPC, no decode  cri::Client::list, every item thrown away: what the transport takes
//!   tonic and prost  as they come: every row becomes a message
//!   pleg             Pleg::start: rows read in place and compared, health reviewed
//! ```
//!
//! The CPU time is this thread's, so it counts everything that a relist causes in the
//! process: wake-ups, timers, and the kernel's copying.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use cri::{ApiVersion, Client, Endpoint, v1};
use pleg::Pleg;
use pleg::runtime::Rpc;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use testbed_driver::{Driver, PodSpec, Testbed};
use tokio::time::sleep;

use crate::cpu::{Progress, median, used};
use crate::node::{CALM, PODS, config, environment};
use crate::table::{Table, ratio, time};
use crate::{Effort, bare, latency, memory, proven};

pub const TITLE: &str = "Idle relist, 100 pods x 2 containers, containerd 1.7";

/// What a node pays: the kubelet's period.
const PERIOD: Duration = Duration::from_secs(1);

/// As soon as the last has ended.
const AT_ONCE: Duration = Duration::from_nanos(1);

/// Brings a node up and gives the tables about it; `latencies` gets its row.
pub async fn measure(
    effort: Effort,
    progress: &Progress,
    latencies: &mut Table,
) -> anyhow::Result<Vec<Table>> {
    progress.say("containerd comes up");
    let testbed = Testbed::up("1.7", "bench").await?;
    let endpoint = testbed.endpoint();
    let spec = |pod| {
        PodSpec::new(format!("load-{pod}"))
            .container("main")
            .container("side")
    };
    let specs: Vec<PodSpec> = (0..PODS).map(spec).collect();
    let running = |pods| progress.say(&format!("{pods} of {PODS} pods run"));
    Driver::new(&endpoint)?.run_pods(&specs, running).await?;
    sleep(CALM).await;

    progress.say("the memory of a process that watches");
    let peak = memory::of_a_child(&endpoint, 5)?;
    let compare = |period, relists, rounds| compare(&endpoint, period, relists, rounds, progress);
    let slow = compare(PERIOD, effort.slow_relists, effort.rounds).await?;
    let rounds = effort.rounds * 3;
    let fast = compare(AT_ONCE, effort.fast_relists, rounds).await?;
    // These restart containers, so the node is no longer as it was.
    latency::measure_containerd(&endpoint, effort.restarts, progress, latencies).await?;
    let proven = proven::measure(&testbed, effort, progress).await?;
    Ok(vec![cpu_table(&slow, &fast), memory_table(peak), proven])
}

fn cpu_table(slow: &[f64], fast: &[f64]) -> Table {
    let head = [
        "CPU time of one relist",
        "once a second",
        "ratio",
        "back to back",
        "ratio",
    ];
    let mut table = Table::new(TITLE, &head);
    for (index, contestant) in Contestant::ALL.iter().enumerate() {
        table.row([
            contestant.name().to_owned(),
            time(slow[index]),
            ratio(slow[index], slow[Contestant::BASE]),
            time(fast[index]),
            ratio(fast[index], fast[Contestant::BASE]),
        ]);
    }
    table.note(
        "Measured elsewhere, so to be compared with care: the kubelet 3.3 ms, the gRPC floor \
         0.14 ms, the target 0.25 ms.",
    );
    table
}

fn memory_table(peak: u64) -> Table {
    let mut table = Table::new("Memory", &["process", "peak RSS", "of the 10 MB target"]);
    let bytes = peak as f64 * 1024.0;
    let megabytes = format!("{:.1} MB", bytes / 1e6);
    table.row([
        "watches these pods".to_owned(),
        megabytes,
        ratio(bytes, 10e6),
    ]);
    table
}

#[derive(Clone, Copy, Debug)]
enum Contestant {
    Bare,
    Undecoded,
    FullDecode,
    Pleg,
}

impl Contestant {
    const ALL: [Self; 4] = [Self::Bare, Self::Undecoded, Self::FullDecode, Self::Pleg];

    /// Where in `ALL` the one is that the others are compared with.
    const BASE: usize = 1;

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare socket",
            Self::Undecoded => "gRPC, no decode",
            Self::FullDecode => "tonic and prost",
            Self::Pleg => "pleg",
        }
    }

    /// Nanoseconds of CPU that one of so many relists took.
    async fn turn(
        self,
        endpoint: &Endpoint,
        period: Duration,
        relists: u32,
    ) -> anyhow::Result<f64> {
        let client = Client::new(endpoint, MAX_MESSAGE_SIZE);
        match self {
            Self::Bare => {
                let mut node = bare::Node::connect(endpoint)?;
                repeat(period, relists, async || node.relist()).await
            }
            Self::Undecoded => repeat(period, relists, async || undecoded(&client).await).await,
            Self::FullDecode => repeat(period, relists, async || decoded(&client).await).await,
            Self::Pleg => pleg(endpoint, period, relists).await,
        }
    }
}

/// The contestants in turns; the median of each one's rounds, in the order of `ALL`.
async fn compare(
    endpoint: &Endpoint,
    period: Duration,
    relists: u32,
    rounds: usize,
    progress: &Progress,
) -> anyhow::Result<Vec<f64>> {
    let mut samples = Contestant::ALL.map(|_| Vec::with_capacity(rounds));
    for round in 1..=rounds {
        for (contestant, samples) in Contestant::ALL.into_iter().zip(&mut samples) {
            let name = contestant.name();
            progress.say(&format!("idle relists, round {round} of {rounds}: {name}"));
            samples.push(contestant.turn(endpoint, period, relists).await?);
        }
    }
    Ok(samples.into_iter().map(median).collect())
}

/// Relists with the same pause after each as pleg makes; the first, which connects, does
/// not count.
async fn repeat(
    period: Duration,
    relists: u32,
    mut relist: impl AsyncFnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    relist().await?;
    let before = used();
    for _ in 0..relists {
        if period > AT_ONCE {
            sleep(period).await;
        }
        relist().await?;
    }
    Ok(each(before, relists.into()))
}

async fn undecoded(client: &Client) -> anyhow::Result<()> {
    let list = |call: Rpc| async move {
        // Neither request says anything: both messages are empty.
        let request = v1::ListContainersRequest::default();
        client.list(ApiVersion::V1, call, request, |_| Ok(())).await
    };
    tokio::try_join!(list(Rpc::ListPodSandbox), list(Rpc::ListContainers))?;
    Ok(())
}

async fn decoded(client: &Client) -> anyhow::Result<()> {
    let request = v1::ListPodSandboxRequest::default();
    let sandboxes =
        client.unary::<_, v1::ListPodSandboxResponse>(ApiVersion::V1, Rpc::ListPodSandbox, request);
    let request = v1::ListContainersRequest::default();
    let containers =
        client.unary::<_, v1::ListContainersResponse>(ApiVersion::V1, Rpc::ListContainers, request);
    black_box(tokio::try_join!(sandboxes, containers)?);
    Ok(())
}

async fn pleg(endpoint: &Endpoint, period: Duration, relists: u32) -> anyhow::Result<f64> {
    let runtime = Arc::new(GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE));
    let pleg = Pleg::start(runtime, config(period), environment());
    while pleg.status().await?.relist.count == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    // From pause to pause, so that no relist is cut in two.
    sleep(period / 2).await;
    let first = pleg.status().await?.relist.count;
    let before = used();
    let enough = first + u64::from(relists);
    let mut now = first;
    while now < enough {
        // A request wakes the process: ask once, when it should be over.
        sleep((period + Duration::from_millis(1)) * (enough - now) as u32).await;
        now = pleg.status().await?.relist.count;
    }
    Ok(each(before, now - first))
}

fn each(before: Duration, relists: u64) -> f64 {
    (used() - before).as_nanos() as f64 / relists as f64
}
