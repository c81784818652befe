//! What the guard costs a call that passes.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use cri::{ApiVersion, Client, Endpoint, Rpc, v1};
use guard::core::{Action, CallId, Caller, Guard, HostIds, Input, Mode, Outcome, Reply, Settings};
use guard::{Handle, Proxy};
use pleg::no_ids;
use prost::Message;
use sim::{Fault, Sim};
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep};

use crate::Effort;
use crate::cpu::Progress;
use crate::table::{Table, ratio, time};

/// How many lists from records.
const LISTS: usize = 20;

pub async fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<Table> {
    progress.say("the guard");
    let mut table = Table::new(
        "The guard in front of a simulated runtime of 110 pods x 2 containers",
        &["", "direct", "through the guard", "added", "ratio"],
    );
    passing(effort, &mut table).await?;
    from_records(&mut table).await?;
    table.note(
        "Client, guard and runtime are three threads of one process; direct calls and those \
         through the guard take turns. A list from records is asked for once a second while the \
         runtime's hangs, and compared with the runtime's before that.",
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
            socket: guarded.clone(),
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

/// Lists that the runtime does not answer: of a common node end to end, and of ten thousand
/// containers what it costs to make one of what is known.
async fn from_records(table: &mut Table) -> anyhow::Result<()> {
    let guarded = Guarded::start(110)?;
    let mut of_direct = Vec::new();
    for _ in 0..LISTS {
        of_direct.push(call(&guarded.direct, Rpc::ListContainers).await?);
        call(&guarded.through, Rpc::ListContainers).await?;
    }
    guarded.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    // The first one waits for the runtime, and for each id to be confirmed.
    call(&guarded.through, Rpc::ListContainers).await?;
    let mut of_guarded = Vec::new();
    for _ in 0..LISTS {
        of_guarded.push(call(&guarded.through, Rpc::ListContainers).await?);
        // As often as a kubelet asks.
        sleep(Duration::from_secs(1)).await;
    }
    for (what, of) in [("p50", 50), ("p99", 99)] {
        let (one, other) = (
            percentile(&mut of_direct, of),
            percentile(&mut of_guarded, of),
        );
        table.row([
            format!("ListContainers from records, 220 rows, {what}"),
            time(one),
            time(other),
            time(other - one),
            ratio(other, one),
        ]);
    }
    let mut records = Records::of(10_000);
    let mut took: Vec<f64> = (0..LISTS).map(|_| records.list()).collect();
    table.row([
        "a list made of the records of 10,000 containers".to_owned(),
        String::new(),
        time(percentile(&mut took, 50)),
        String::new(),
        String::new(),
    ]);
    Ok(())
}

/// A guard's core whose runtime answers no list of containers, and every id of which is confirmed.
struct Records {
    core: Guard,
    now: Instant,
    containers: usize,
    calls: u64,
}

impl Records {
    fn of(containers: usize) -> Self {
        let now = Instant::now();
        let mut records = Self {
            core: Guard::new(Settings::default(), Mode::Guard, now, 0),
            now,
            containers,
            calls: 0,
        };
        records.turn(Input::Time, true);
        records.turn_called();
        // Until the list is overdue, and each id was asked for.
        for _ in 0..5000 {
            records.now += Duration::from_millis(1);
            records.turn(Input::Time, false);
        }
        records
    }

    fn turn_called(&mut self) -> bool {
        self.calls += 1;
        let called = Input::Called {
            call: CallId(self.calls),
            rpc: Rpc::ListContainers,
            request: Bytes::new(),
            from: Caller::Client,
            deadline: None,
        };
        self.turn(called, false)
    }

    /// How many nanoseconds the turn takes in which a list is answered.
    fn list(&mut self) -> f64 {
        self.turn_called();
        loop {
            self.now += Duration::from_millis(1);
            let begun = Instant::now();
            if self.turn(Input::Time, false) {
                return begun.elapsed().as_nanos() as f64;
            }
        }
    }

    /// One turn of the core and of all that follows; whether it has answered.
    fn turn(&mut self, input: Input, lists: bool) -> bool {
        let mut is_answered = false;
        let mut actions = VecDeque::from(self.core.step(input, self.now));
        while let Some(action) = actions.pop_front() {
            let input = match action {
                Action::Call(runtime_call, rpc, request) => match self.answer(rpc, &request, lists)
                {
                    Some(answer) => Input::Answered(runtime_call, Outcome::Messages(vec![answer])),
                    None => continue,
                },
                Action::ListHostIds => Input::HostIds(HostIds::Unavailable),
                Action::Reply(_, Reply::Message(_)) => {
                    is_answered = true;
                    continue;
                }
                _ => continue,
            };
            actions.extend(self.core.step(input, self.now));
        }
        is_answered
    }

    fn answer(&self, rpc: Rpc, request: &Bytes, lists: bool) -> Option<Bytes> {
        let asked = v1::ContainerStatusRequest::decode(request.clone()).unwrap_or_default();
        let message = match rpc {
            Rpc::ListContainers if !lists => return None,
            Rpc::ListContainers => v1::ListContainersResponse {
                containers: (0..self.containers).map(row).collect(),
            }
            .encode_to_vec(),
            Rpc::ContainerStatus => v1::ContainerStatusResponse {
                status: Some(v1::ContainerStatus {
                    id: asked.container_id,
                    state: v1::ContainerState::ContainerRunning.into(),
                    ..Default::default()
                }),
                ..Default::default()
            }
            .encode_to_vec(),
            // There are no sandboxes.
            _ => Vec::new(),
        };
        Some(message.into())
    }
}

/// A row as large as a kubelet's.
fn row(number: usize) -> v1::Container {
    let label = |key: &str, value: String| (format!("io.kubernetes.{key}"), value);
    v1::Container {
        id: format!("{number:064x}"),
        pod_sandbox_id: format!("{:064x}", number / 2),
        metadata: Some(v1::ContainerMetadata {
            name: "app".to_owned(),
            attempt: 0,
        }),
        image_ref: format!("sha256:{:064x}", 7),
        state: v1::ContainerState::ContainerRunning.into(),
        created_at: 1_767_225_600_000_000_000,
        labels: [
            label("container.name", "app".to_owned()),
            label("pod.name", format!("web-{number}")),
            label("pod.namespace", "shop".to_owned()),
            label("pod.uid", format!("{number:036x}")),
        ]
        .into(),
        annotations: [
            label("container.hash", "8f7b2c1d".to_owned()),
            label("container.restartCount", "0".to_owned()),
            label("pod.terminationGracePeriod", "30".to_owned()),
        ]
        .into(),
        ..Default::default()
    }
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
