//! A relist of a node on which nothing happens, against a real containerd.
//!
//! Four clients request the same two lists in turns, each over its own socket:
//!
//! ```text
//!   bare socket      reads only the headers of HTTP/2 frames: the cost of the kernel
//!   gRPC, no decode  cri::Client::list, discarding every item: the cost of the transport
//!   tonic and prost  both libraries used as usual: every row becomes a message
//!   pleg             Pleg::start: rows are read in place and compared, and health is reviewed
//! ```
//!
//! The CPU time is that of the whole thread, so it includes everything that a relist causes in the
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
use crate::node::{PODS, SETTLING_TIME, config, environment};
use crate::table::{Table, ratio, time};
use crate::{Effort, bare, latency, memory, watched};

pub const TITLE: &str = "Idle relist, 100 pods x 2 containers, containerd 1.7";

/// The kubelet's period: shows the cost on a real node.
const PERIOD: Duration = Duration::from_secs(1);

/// The period with which a relist begins as soon as the last one has ended.
const BACK_TO_BACK: Duration = Duration::from_nanos(1);

/// Starts a node and returns its tables. Adds a row to `latencies`.
pub async fn measure(
    effort: Effort,
    progress: &Progress,
    latencies: &mut Table,
) -> anyhow::Result<Vec<Table>> {
    progress.show("containerd starts");
    let testbed = Testbed::up("1.7", "bench").await?;
    let endpoint = testbed.endpoint();
    let spec = |pod| {
        PodSpec::new(format!("load-{pod}"))
            .container("main")
            .container("side")
    };
    let specs: Vec<PodSpec> = (0..PODS).map(spec).collect();
    let running = |pods| progress.show(&format!("{pods} of {PODS} pods run"));
    Driver::new(&endpoint)?.run_pods(&specs, running).await?;
    sleep(SETTLING_TIME).await;

    progress.show("the memory of a process that watches");
    let peak = memory::measure_child(&endpoint, 5)?;
    let compare = |period, relists, rounds| compare(&endpoint, period, relists, rounds, progress);
    let slow = compare(PERIOD, effort.slow_relists, effort.rounds).await?;
    let rounds = effort.rounds * 3;
    let fast = compare(BACK_TO_BACK, effort.fast_relists, rounds).await?;
    // This restarts containers, so it follows the measurements of the unchanged node.
    latency::measure_containerd(&endpoint, effort.restarts, progress, latencies).await?;
    let watched = watched::measure(&testbed, effort, progress).await?;
    Ok(vec![cpu_table(&slow, &fast), memory_table(peak), watched])
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
    for (index, client) in ListClient::ALL.iter().enumerate() {
        table.row([
            client.name().to_owned(),
            time(slow[index]),
            ratio(slow[index], slow[ListClient::BASE]),
            time(fast[index]),
            ratio(fast[index], fast[ListClient::BASE]),
        ]);
    }
    table.note(
        "On other machines the kubelet took 3.3 ms, and gRPC at least 0.14 ms: compare with care. The \
         target is 0.25 ms.",
    );
    table
}

fn memory_table(peak: u64) -> Table {
    let mut table = Table::new(
        "Memory",
        &["process", "peak RSS", "ratio to the 10 MB target"],
    );
    let bytes = peak as f64 * 1024.0;
    let megabytes = format!("{:.1} MB", bytes / 1e6);
    table.row([
        "one that watches these pods".to_owned(),
        megabytes,
        ratio(bytes, 10e6),
    ]);
    table
}

#[derive(Clone, Copy, Debug)]
enum ListClient {
    Bare,
    Undecoded,
    FullDecode,
    Pleg,
}

impl ListClient {
    const ALL: [Self; 4] = [Self::Bare, Self::Undecoded, Self::FullDecode, Self::Pleg];

    /// The index in `ALL` of the client with which the others are compared.
    const BASE: usize = 1;

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare socket",
            Self::Undecoded => "gRPC, no decode",
            Self::FullDecode => "tonic and prost",
            Self::Pleg => "pleg",
        }
    }

    /// Makes this many relists. Returns the mean CPU time of one, in nanoseconds.
    async fn relist(
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

/// Measures the clients in turns. Returns the median of each client's rounds, in the order of
/// `ALL`.
async fn compare(
    endpoint: &Endpoint,
    period: Duration,
    relists: u32,
    rounds: usize,
    progress: &Progress,
) -> anyhow::Result<Vec<f64>> {
    let mut samples = ListClient::ALL.map(|_| Vec::with_capacity(rounds));
    for round in 1..=rounds {
        for (client, samples) in ListClient::ALL.into_iter().zip(&mut samples) {
            let name = client.name();
            progress.show(&format!("idle relists, round {round} of {rounds}: {name}"));
            samples.push(client.relist(endpoint, period, relists).await?);
        }
    }
    Ok(samples.into_iter().map(median).collect())
}

/// Relists with the same pauses as pleg. The first relist, which connects, is not measured.
async fn repeat(
    period: Duration,
    relists: u32,
    mut relist: impl AsyncFnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    relist().await?;
    let before = used();
    for _ in 0..relists {
        if period > BACK_TO_BACK {
            sleep(period).await;
        }
        relist().await?;
    }
    Ok(each(before, relists.into()))
}

async fn undecoded(client: &Client) -> anyhow::Result<()> {
    let list = |call: Rpc| async move {
        // Both requests are empty messages.
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
    // Begin and end in a pause, so that only complete relists are measured.
    sleep(period / 2).await;
    let first = pleg.status().await?.relist.count;
    let before = used();
    let enough = first + u64::from(relists);
    let mut now = first;
    while now < enough {
        // A status request wakes the process: send one when the relists should be complete.
        sleep((period + Duration::from_millis(1)) * (enough - now) as u32).await;
        now = pleg.status().await?.relist.count;
    }
    Ok(each(before, now - first))
}

fn each(before: Duration, relists: u64) -> f64 {
    (used() - before).as_nanos() as f64 / relists as f64
}
