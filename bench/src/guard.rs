//! What the guard costs a call that passes.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;
use cri::{ApiVersion, Client, Endpoint, Rpc, v1};
use guard::Proxy;
use guard::core::{Mode, Settings};
use pleg::no_ids;
use sim::Sim;
use tokio::net::UnixListener;

use crate::Effort;
use crate::cpu::Progress;
use crate::table::{Table, ratio, time};

pub async fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<Table> {
    progress.say("the guard");
    let mut table = Table::new(
        "The guard, before a simulated runtime of 110 pods",
        &["", "direct", "through the guard", "added", "ratio"],
    );
    let folder = std::env::temp_dir().join(format!("pleg-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let measured = passing(effort, &folder, &mut table).await;
    fs::remove_dir_all(&folder)?;
    measured?;
    table.note(
        "Client, guard and runtime are three threads of one process; direct calls and those \
         through the guard take turns.",
    );
    Ok(table)
}

/// Calls that pass, and what they take of the guard's thread.
async fn passing(
    effort: Effort,
    folder: &std::path::Path,
    table: &mut Table,
) -> anyhow::Result<()> {
    let (runtime, guarded) = (folder.join("runtime.sock"), folder.join("guard.sock"));
    serve_simulation(&runtime)?;
    let proxy = Proxy {
        runtime: runtime.clone(),
        settings: Settings::default(),
        state: None,
        ids: no_ids(),
        unix_nanos: 0,
    };
    let listener = std::os::unix::net::UnixListener::bind(&guarded)?;
    let handle = proxy.start(listener, Mode::Guard)?;
    let direct = Client::new(&Endpoint::new(runtime), 64 << 20);
    let through = Client::new(&Endpoint::new(guarded), 64 << 20);
    let calls = effort.fast_relists as usize * 10;
    for (name, rpc) in [
        ("Version", Rpc::Version),
        ("ContainerStatus", Rpc::ContainerStatus),
        ("ListContainers, 220 rows", Rpc::ListContainers),
    ] {
        let (mut of_direct, mut of_guarded) = (Vec::new(), Vec::new());
        call(&direct, rpc).await?;
        call(&through, rpc).await?;
        let before = used_by_guard()?;
        for _ in 0..calls {
            of_direct.push(call(&direct, rpc).await?);
            of_guarded.push(call(&through, rpc).await?);
        }
        let each = (used_by_guard()? - before).as_nanos() as f64 / calls as f64;
        for (what, of) in [("p50", 50), ("p99", 99)] {
            let (one, other) = (
                percentile(&mut of_direct, of),
                percentile(&mut of_guarded, of),
            );
            table.row([
                format!("{name}, {what}"),
                time(one),
                time(other),
                time(other - one),
                ratio(other, one),
            ]);
        }
        table.row([
            format!("{name}, CPU of the guard"),
            String::new(),
            time(each),
            String::new(),
            String::new(),
        ]);
    }
    drop(handle);
    Ok(())
}

async fn call(client: &Client, rpc: Rpc) -> anyhow::Result<f64> {
    let asked = Instant::now();
    match rpc {
        Rpc::Version => {
            let request = v1::VersionRequest::default();
            let _: v1::VersionResponse = client.unary(ApiVersion::V1, rpc, request).await?;
        }
        Rpc::ContainerStatus => {
            let request = v1::ContainerStatusRequest {
                container_id: "pod-0/app-0.0".into(),
                verbose: false,
            };
            let _: v1::ContainerStatusResponse = client.unary(ApiVersion::V1, rpc, request).await?;
        }
        _ => {
            let request = v1::ListContainersRequest::default();
            let _: v1::ListContainersResponse = client.unary(ApiVersion::V1, rpc, request).await?;
        }
    }
    Ok(asked.elapsed().as_nanos() as f64)
}

fn percentile(samples: &mut [f64], of: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() * of / 100).min(samples.len() - 1)]
}

/// A runtime in a thread of its own.
fn serve_simulation(path: &std::path::Path) -> anyhow::Result<()> {
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let sim = Sim::new();
            for number in 0..110 {
                sim.run(&format!("pod-{number}"), &["app-0", "app-1"]);
            }
            let listener = UnixListener::from_std(listener)?;
            sim::grpc::serve(sim, listener).await
        })
    });
    Ok(())
}

/// How long the guard's thread was on a CPU.
fn used_by_guard() -> anyhow::Result<Duration> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.trim() == "guard" {
            let stat = fs::read_to_string(task.join("schedstat"))?;
            let used = stat
                .split(' ')
                .next()
                .context("schedstat has a first number")?;
            return Ok(Duration::from_nanos(used.parse()?));
        }
    }
    anyhow::bail!("the guard has no thread")
}
