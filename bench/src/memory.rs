//! The memory of a process that only watches: this program, run again as a child.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use cri::Endpoint;
use pleg::Pleg;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use tokio::time::{sleep, timeout};

use crate::node;

/// Runs a child that relists for some seconds. Returns its peak resident memory in KiB.
pub fn measure_child(endpoint: &Endpoint, seconds: u64) -> anyhow::Result<u64> {
    let output = Command::new(std::env::current_exe()?)
        .args(["memory", &endpoint.to_string(), &seconds.to_string()])
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the child failed: {error}");
    let peak = String::from_utf8(output.stdout)?;
    peak.trim().parse().context("the child's peak memory")
}

/// Runs in the child: relists ten times a second with a subscriber, like `pleg watch`. Returns its own
/// peak resident memory in KiB.
pub async fn measure_own(endpoint: &Endpoint, seconds: u64) -> anyhow::Result<u64> {
    let runtime = Arc::new(GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE));
    let period = Duration::from_millis(100);
    let pleg = Pleg::start(runtime, node::config(period), node::environment());
    let mut subscription = pleg.subscribe().await?;
    let watch = async { while subscription.next().await.is_some() {} };
    let _ = timeout(Duration::from_secs(seconds), watch).await;
    let status = pleg.status().await?;
    ensure!(status.pods > 0, "the child observed no pods");
    // Wait until the last records of the subscription are freed.
    sleep(period).await;
    peak()
}

fn peak() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.context("no VmHWM in /proc/self/status")?;
    Ok(kib.trim().trim_end_matches(" kB").parse()?)
}
