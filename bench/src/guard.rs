//! What the guard adds to a call that it passes on, and what a list from its records costs.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use cri::{ApiVersion, Client, Endpoint, Rpc, v1};
use guard::core::{
    Action, Call, CallId, Caller, Guard, HostIds, Input, Mode, Outcome, Reply, Settings,
};
use guard::{Handle, Proxy};
use pleg::no_ids;
use prost::Message;
use sim::{Fault, Sim};
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep};

use crate::Effort;
use crate::cpu::Progress;
use crate::table::{Table, ratio, time};

/// The number of lists from records that are measured.
const LISTS: usize = 20;

pub async fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<Table> {
    progress.show("the guard");
    let mut table = Table::new(
        "The guard in front of a simulated runtime of 110 pods x 2 containers",
        &["", "direct", "through the guard", "added", "ratio"],
    );
    measure_passed(effort, &mut table).await?;
    measure_records(&mut table).await?;
    table.note(
        "Client, guard and runtime are three threads of one process; direct calls and those \
         through the guard take turns. A list from records is requested once a second while the \
         runtime does not answer its list, and compared with the runtime's earlier answers.",
    );
    Ok(table)
}

/// A simulated runtime and a guard in front of it, each in its own thread.
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
        // If this fails, the files stay in the directory for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Measures lists that the runtime does not answer: on a usual node, the time from request to answer;
/// with ten thousand containers, the time to build a list from the records.
async fn measure_records(table: &mut Table) -> anyhow::Result<()> {
    let guarded = Guarded::start(110)?;
    let mut direct = Vec::new();
    for _ in 0..LISTS {
        direct.push(call(&guarded.direct, Rpc::ListContainers).await?);
        call(&guarded.through, Rpc::ListContainers).await?;
    }
    guarded.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    // The first list waits for the runtime, and until each id is confirmed.
    call(&guarded.through, Rpc::ListContainers).await?;
    let mut through = Vec::new();
    for _ in 0..LISTS {
        through.push(call(&guarded.through, Rpc::ListContainers).await?);
        // The period of a kubelet's lists.
        sleep(Duration::from_secs(1)).await;
    }
    add_percentiles(
        table,
        "ListContainers from records, 220 rows",
        &mut direct,
        &mut through,
    );
    let mut records = Records::of(10_000);
    let mut took: Vec<f64> = (0..LISTS).map(|_| records.list()).collect();
    table.row([
        "building a list from the records of 10,000 containers".to_owned(),
        String::new(),
        time(percentile(&mut took, 50)),
        String::new(),
        String::new(),
    ]);
    Ok(())
}

/// The core of a guard whose runtime does not answer a list of containers. Each id is confirmed.
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
        records.step(Input::Time, true);
        records.call_list();
        // Wait until the list is overdue and the status of each id has been requested.
        for _ in 0..5000 {
            records.now += Duration::from_millis(1);
            records.step(Input::Time, false);
        }
        records
    }

    fn call_list(&mut self) -> bool {
        self.calls += 1;
        let called = Input::Called(Call {
            id: CallId(self.calls),
            rpc: Rpc::ListContainers,
            request: Bytes::new(),
            from: Caller::Client,
            deadline: None,
        });
        self.step(called, false)
    }

    /// How many nanoseconds the step takes in which a list is answered.
    fn list(&mut self) -> f64 {
        self.call_list();
        loop {
            self.now += Duration::from_millis(1);
            let begun = Instant::now();
            if self.step(Input::Time, false) {
                return begun.elapsed().as_nanos() as f64;
            }
        }
    }

    /// Performs one step of the core, and all steps that follow from it. Returns whether the core has
    /// answered. With `can_list` the runtime answers lists of containers.
    fn step(&mut self, input: Input, can_list: bool) -> bool {
        let mut is_answered = false;
        let mut actions = VecDeque::from(self.core.step(input, self.now));
        while let Some(action) = actions.pop_front() {
            let input = match action {
                Action::Call(runtime_call, rpc, request) => match self
                    .answer(rpc, &request, can_list)
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

    fn answer(&self, rpc: Rpc, request: &Bytes, can_list: bool) -> Option<Bytes> {
        let status_request =
            v1::ContainerStatusRequest::decode(request.clone()).unwrap_or_default();
        let message = match rpc {
            Rpc::ListContainers if !can_list => return None,
            Rpc::ListContainers => v1::ListContainersResponse {
                containers: (0..self.containers).map(row).collect(),
            }
            .encode_to_vec(),
            Rpc::ContainerStatus => v1::ContainerStatusResponse {
                status: Some(v1::ContainerStatus {
                    id: status_request.container_id,
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

/// A row as large as those of a kubelet's containers.
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

/// Measures calls that the guard passes on, and their CPU time in the guard's thread.
async fn measure_passed(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
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
        let (mut direct_times, mut through_times) = (Vec::new(), Vec::new());
        call(direct, rpc).await?;
        call(through, rpc).await?;
        let before = used_by_guard()?;
        for _ in 0..calls {
            direct_times.push(call(direct, rpc).await?);
            through_times.push(call(through, rpc).await?);
        }
        let each = (used_by_guard()? - before).as_nanos() as f64 / calls as f64;
        add_percentiles(table, name, &mut direct_times, &mut through_times);
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

/// Adds one row for p50, and one for p99.
fn add_percentiles(table: &mut Table, name: &str, direct: &mut [f64], through: &mut [f64]) {
    for percent in [50, 99] {
        let (direct, through) = (percentile(direct, percent), percentile(through, percent));
        table.row([
            format!("{name}, p{percent}"),
            time(direct),
            time(through),
            time(through - direct),
            ratio(through, direct),
        ]);
    }
}

async fn call(client: &Client, rpc: Rpc) -> anyhow::Result<f64> {
    let sent = Instant::now();
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
    Ok(sent.elapsed().as_nanos() as f64)
}

fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() * percent / 100).min(samples.len() - 1)]
}

/// Serves a simulated runtime from its own thread.
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

/// The CPU time of the guard's thread.
fn used_by_guard() -> anyhow::Result<Duration> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.trim() == "guard" {
            let stat = fs::read_to_string(task.join("schedstat"))?;
            let used = stat.split(' ').next().context("schedstat is empty")?;
            return Ok(Duration::from_nanos(used.parse()?));
        }
    }
    anyhow::bail!("there is no thread of the guard")
}
