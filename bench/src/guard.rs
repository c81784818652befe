//! What the guard costs a call that passes.

use std::fs;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use cri::{ApiVersion, Client, Endpoint, Rpc, v1};
use guard::core::{Mode, Settings};
use guard::{Handle, Proxy};
use pleg::no_ids;
use sim::{Fault, Sim};
use tokio::net::UnixListener;

use crate::Effort;
use crate::cpu::Progress;
use crate::table::{Table, ratio, time};

/// How many lists from records.
const LISTS: usize = 20;

pub async fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<Table> {
    progress.say("the guard");
    let mut table = Table::new(
        "The guard, before a simulated runtime of 110 pods x 2 containers",
        &["", "direct", "through the guard", "added", "ratio"],
    );
    passing(effort, &mut table).await?;
    from_records(&mut table).await?;
    table.note(
        "Client, guard and runtime are three threads of one process; direct calls and those \
         through the guard take turns. A list from records is compared with the same list that \
         the runtime answers.",
    );
    Ok(table)
}

/// A simulated runtime with a guard before it, each in a thread of its own.
struct Guarded {
    sim: Sim,
    direct: Client,
    through: Client,
    folder: PathBuf,
    _handle: Handle,
}

impl Guarded {
    fn start(pods: usize) -> anyhow::Result<Self> {
        let folder = format!("pleg-bench-{}-{pods}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder)?;
        let (runtime, guarded) = (folder.join("runtime.sock"), folder.join("guard.sock"));
        let sim = serve_simulation(&runtime, pods)?;
        let proxy = Proxy {
            runtime: runtime.clone(),
            settings: Settings::default(),
            state: None,
            ids: no_ids(),
            unix_nanos: 0,
        };
        let listener = StdUnixListener::bind(&guarded)?;
        Ok(Self {
            sim,
            direct: Client::new(&Endpoint::new(runtime), 64 << 20),
            through: Client::new(&Endpoint::new(guarded), 64 << 20),
            folder,
            _handle: proxy.start(listener, Mode::Guard)?,
        })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // What is left lies among temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Lists that the runtime does not answer, of ten thousand containers.
async fn from_records(table: &mut Table) -> anyhow::Result<()> {
    let guarded = Guarded::start(5000)?;
    let mut of_direct = Vec::new();
    for _ in 0..LISTS {
        of_direct.push(call(&guarded.direct, Rpc::ListContainers).await?);
        call(&guarded.through, Rpc::ListContainers).await?;
    }
    guarded.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    // The first one waits for the runtime and for each id to be confirmed.
    call(&guarded.through, Rpc::ListContainers).await?;
    let before = used_by_guard()?;
    let mut of_guarded = Vec::new();
    for _ in 0..LISTS {
        of_guarded.push(call(&guarded.through, Rpc::ListContainers).await?);
    }
    let each = (used_by_guard()? - before).as_nanos() as f64 / LISTS as f64;
    let (one, other) = (
        percentile(&mut of_direct, 50),
        percentile(&mut of_guarded, 50),
    );
    table.row([
        "ListContainers from records, 10,000 rows, p50".to_owned(),
        time(one),
        time(other),
        time(other - one),
        ratio(other, one),
    ]);
    table.row([
        "the same, CPU of the guard".to_owned(),
        String::new(),
        time(each),
        String::new(),
        String::new(),
    ]);
    Ok(())
}

/// Calls that pass, and what they take of the guard's thread.
async fn passing(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let guarded = Guarded::start(110)?;
    let Guarded {
        direct, through, ..
    } = &guarded;
    let calls = effort.fast_relists as usize * 10;
    for (name, rpc) in [
        ("Version", Rpc::Version),
        ("ContainerStatus", Rpc::ContainerStatus),
        ("ListContainers, 220 rows", Rpc::ListContainers),
    ] {
        let (mut of_direct, mut of_guarded) = (Vec::new(), Vec::new());
        call(direct, rpc).await?;
        call(through, rpc).await?;
        let before = used_by_guard()?;
        for _ in 0..calls {
            of_direct.push(call(direct, rpc).await?);
            of_guarded.push(call(through, rpc).await?);
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
fn serve_simulation(path: &Path, pods: usize) -> anyhow::Result<Sim> {
    let listener = StdUnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let sim = Sim::new();
    for number in 0..pods {
        sim.run(&format!("pod-{number}"), &["app-0", "app-1"]);
    }
    let served = sim.clone();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let listener = UnixListener::from_std(listener)?;
            sim::grpc::serve(served, listener).await
        })
    });
    Ok(sim)
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
