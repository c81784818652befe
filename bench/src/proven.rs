//! A quiet node of which births, processes and the stream are watched: what we take of a CPU, and what
//! the runtime takes because of us.

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

/// By then births, processes and the stream are watched, and lists are as rare as they become.
const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// The kernel is asked for the death of every container, as `pleg watch` does by default.
const MOST_PIDFDS: usize = 512;

/// A share of a CPU, as nanoseconds a second.
struct Cpu {
    ours: f64,
    runtime: f64,
}

/// Compares a node without a client, one that is listed each second, and one of which all is watched.
pub async fn measure(
    testbed: &Testbed,
    effort: Effort,
    progress: &Progress,
) -> anyhow::Result<Table> {
    let endpoint = testbed.endpoint();
    let pid = testbed.verb(&["pid"]).await?;
    let tasks = format!("/proc/{}/task", pid.trim());

    progress.say("containerd by itself");
    let no_client = observe(&tasks, effort.idle_lists).await?;

    progress.say("idle, listed each second");
    let pleg = start(&endpoint, Mode::Generic);
    sleep(node::CALM).await;
    let lists = observe(&tasks, effort.idle_lists).await?;
    drop(pleg);

    let pleg = start(&endpoint, Mode::Auto);
    let period = settle(&pleg).await?;
    let minutes = effort.idle_proven.as_secs_f64() / 60.0;
    progress.say(&format!("idle while all is watched, for {minutes} min"));
    let proven = observe(&tasks, effort.idle_proven).await?;
    let now = pleg.status().await?.relist.period_seconds;
    ensure!(
        now == period,
        "the stream failed meanwhile: lists each {now} s"
    );

    let head = [
        "CPU time in a second",
        "ours",
        "of the target",
        "containerd's",
    ];
    let mut table = Table::new("Idle, 100 pods x 2 containers, containerd 1.7", &head);
    let mut row = |what: String, cpu: Cpu, watched: bool| {
        let ours = if watched { time(cpu.ours) } else { "-".into() };
        let share = if watched {
            ratio(cpu.ours, 50e3)
        } else {
            "-".into()
        };
        table.row([what, ours, share, time(cpu.runtime)]);
    };
    row("no client".into(), no_client, false);
    row("lists each second".into(), lists, true);
    row(format!("all watched, lists each {period} s"), proven, true);
    table.note(format!(
        "Over {} s, {} s and {} s. The target is 0.05 ms a second while all is watched.",
        effort.idle_lists.as_secs(),
        effort.idle_lists.as_secs(),
        effort.idle_proven.as_secs(),
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
        kernel: Some(Arc::new(Pidfds::new("/proc", endpoint.path(), MOST_PIDFDS))),
        ..node::environment()
    };
    Pleg::start(runtime, config, environment)
}

/// Waits until lists are as rare as they become; gives their period.
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
        "lists are not rare: {:?}, {:?}",
        status.stream,
        status.kernel
    )
}

async fn observe(tasks: &str, time: Duration) -> anyhow::Result<Cpu> {
    let before = (Instant::now(), used(), of_tasks(tasks)?);
    sleep(time).await;
    let (ours, runtime) = (used() - before.1, of_tasks(tasks)? - before.2);
    let seconds = before.0.elapsed().as_secs_f64();
    Ok(Cpu {
        ours: ours.as_nanos() as f64 / seconds,
        runtime: runtime / seconds,
    })
}

/// Nanoseconds that the threads of a process have run for. Go's threads do not end.
fn of_tasks(tasks: &str) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for task in fs::read_dir(tasks).context("containerd's threads")? {
        let stat = fs::read_to_string(task?.path().join("schedstat"))?;
        let ran = stat.split(' ').next().unwrap_or_default();
        sum += ran.parse::<f64>().context("schedstat")?;
    }
    Ok(sum)
}
