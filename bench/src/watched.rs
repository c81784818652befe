//! A quiet node on which new tasks, processes and the event stream are watched: the CPU time of pleg,
//! and of the runtime.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cri::Endpoint;
use pleg::kernel::Pidfds;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::{Config, Environment, Mode, Pleg};
use testbed_driver::Testbed;
use tokio::time::sleep;

use crate::cpu::{Progress, used};
use crate::table::{Table, ratio, time};
use crate::{Effort, node};

/// How long it may take until everything is watched and the period of lists is at its longest.
const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// Enough for a pidfd for every container, as with `pleg watch` by default.
const MAX_PIDFDS: usize = 512;

/// CPU time, in nanoseconds per second.
struct Cpu {
    pleg: f64,
    runtime: f64,
}

/// Compares a node without a client, one that is listed every second, and one on which everything is
/// watched.
pub async fn measure(
    testbed: &Testbed,
    effort: Effort,
    progress: &Progress,
) -> anyhow::Result<Table> {
    let endpoint = testbed.endpoint();
    let pid = testbed.verb(&["pid"]).await?;
    let tasks = format!("/proc/{}/task", pid.trim());

    progress.show("containerd without a client");
    let no_client = observe(&tasks, effort.idle_lists).await?;

    progress.show("idle, listed every second");
    let pleg = start(&endpoint, Mode::Generic);
    sleep(node::SETTLING_TIME).await;
    let lists = observe(&tasks, effort.idle_lists).await?;
    drop(pleg);

    let pleg = start(&endpoint, Mode::Auto);
    let period = settle(&pleg).await?;
    let minutes = effort.idle_watched.as_secs_f64() / 60.0;
    progress.show(&format!(
        "idle while everything is watched, for {minutes} min"
    ));
    let watched = observe(&tasks, effort.idle_watched).await?;
    let now = pleg.status().await?.relist.period_seconds;
    ensure!(
        now == period,
        "the stream failed meanwhile: lists are requested every {now} s"
    );

    let head = [
        "CPU time per second",
        "pleg",
        "ratio to target",
        "containerd",
    ];
    let mut table = Table::new("Idle, 100 pods x 2 containers, containerd 1.7", &head);
    let mut row = |name: String, cpu: Cpu, has_pleg: bool| {
        let pleg = if has_pleg { time(cpu.pleg) } else { "-".into() };
        let share = if has_pleg {
            ratio(cpu.pleg, 50e3)
        } else {
            "-".into()
        };
        table.row([name, pleg, share, time(cpu.runtime)]);
    };
    row("no client".into(), no_client, false);
    row("listed every second".into(), lists, true);
    row(
        format!("everything watched, listed every {period} s"),
        watched,
        true,
    );
    table.note(format!(
        "Measured over {} s, {} s and {} s. The target while everything is watched is 0.05 ms per second.",
        effort.idle_lists.as_secs(),
        effort.idle_lists.as_secs(),
        effort.idle_watched.as_secs(),
    ));
    Ok(table)
}

fn start(endpoint: &Endpoint, mode: Mode) -> Pleg {
    let runtime = Arc::new(GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE));
    let config = Config {
        mode,
        ..Config::default()
    };
    let environment = Environment {
        kernel: Some(Arc::new(Pidfds::new("/proc", endpoint.path(), MAX_PIDFDS))),
        ..node::environment()
    };
    Pleg::start(runtime, config, environment)
}

/// Waits until the period of lists is at its longest, and returns it.
async fn settle(pleg: &Pleg) -> anyhow::Result<f64> {
    let ceiling = Config::default().relist_ceiling.as_secs_f64();
    let begun = Instant::now();
    while begun.elapsed() < WAIT_LIMIT {
        let status = pleg.status().await?;
        if status.relist.period_seconds >= ceiling {
            return Ok(status.relist.period_seconds);
        }
        sleep(Duration::from_secs(1)).await;
    }
    let status = pleg.status().await?;
    anyhow::bail!(
        "the period of lists is not the longest one: {:?}, {:?}",
        status.stream,
        status.kernel
    )
}

async fn observe(tasks: &str, time: Duration) -> anyhow::Result<Cpu> {
    let before = (Instant::now(), used(), of_tasks(tasks)?);
    sleep(time).await;
    let (pleg, runtime) = (used() - before.1, of_tasks(tasks)? - before.2);
    let seconds = before.0.elapsed().as_secs_f64();
    Ok(Cpu {
        pleg: pleg.as_nanos() as f64 / seconds,
        runtime: runtime / seconds,
    })
}

/// Nanoseconds that the threads of a process have run. Threads of a Go program do not end.
fn of_tasks(tasks: &str) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for task in fs::read_dir(tasks).context("containerd's threads")? {
        let stat = fs::read_to_string(task?.path().join("schedstat"))?;
        let ran = stat.split(' ').next().unwrap_or_default();
        sum += ran.parse::<f64>().context("schedstat")?;
    }
    Ok(sum)
}
