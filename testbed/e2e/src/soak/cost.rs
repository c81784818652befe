//! Measures the cost of calls that a guard passes, compared with direct calls and a bare proxy.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cri::v1::{
    ContainerStatusRequest, ContainerStatusResponse, ListContainersRequest, ListContainersResponse,
    VersionRequest, VersionResponse,
};
use cri::{ApiVersion, Client, Endpoint, Rpc};
use tonic::Status;

use super::node::usage;

/// The number of measured starts of a guard.
const STARTS: usize = 20;

/// A guard or bare proxy between a client and the runtime. It is killed when dropped.
struct Proxy {
    process: Child,
    client: Client,
}

impl Proxy {
    /// Starts the process and waits until it answers. Returns how long that took.
    async fn start(mut command: Command, socket: &Path) -> (Self, Duration) {
        let began = Instant::now();
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the program was built");
        let client = Client::new(&Endpoint::new(socket), 64 << 20);
        while version(&client).await.is_err() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        (Self { process, client }, began.elapsed())
    }

    /// What the process has used so far.
    fn work(&self) -> Work {
        let process = format!("/proc/{}", self.process.id());
        let tasks = fs::read_dir(format!("{process}/task")).expect("it runs");
        let mut work = Work::default();
        for task in tasks.filter_map(Result::ok) {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let schedstat = read("schedstat");
            let used = schedstat
                .split(' ')
                .next()
                .and_then(|used| used.parse().ok());
            work.nanos += used.unwrap_or(0.0);
            work.waits += number(&read("status"), "voluntary_ctxt_switches:");
        }
        let io = fs::read_to_string(format!("{process}/io")).unwrap_or_default();
        work.reads = number(&io, "syscr:");
        work.writes = number(&io, "syscw:");
        work
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    nanos: f64,
    /// How often the process waited and was woken.
    waits: f64,
    reads: f64,
    writes: f64,
}

/// The number in the line that begins with this name; 0 if there is none.
fn number(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().parse().ok())
        .unwrap_or(0.0)
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn version(client: &Client) -> Result<(), Status> {
    let request = VersionRequest::default();
    let answer = client.unary(ApiVersion::V1, Rpc::Version, request).await;
    answer.map(|_: VersionResponse| ())
}

async fn list(client: &Client) -> Result<Vec<String>, Status> {
    let request = ListContainersRequest::default();
    let rpc = Rpc::ListContainers;
    let list: ListContainersResponse = client.unary(ApiVersion::V1, rpc, request).await?;
    Ok(list.containers.into_iter().map(|row| row.id).collect())
}

async fn status(client: &Client, id: &str) -> Result<(), Status> {
    let request = ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose: false,
    };
    let rpc = Rpc::ContainerStatus;
    let answer = client.unary(ApiVersion::V1, rpc, request).await;
    answer.map(|_: ContainerStatusResponse| ())
}

/// Measures this many calls of each method on this runtime. Returns the results as text.
pub async fn cost(
    runtime: &Endpoint,
    guard: &Path,
    bare: &Path,
    calls: usize,
) -> Result<String, Status> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let socket = |name: &str| -> PathBuf { place.path().join(name) };
    let start_guard = async |number: usize| {
        let socket = socket(&format!("guard-{number}.sock"));
        let mut command = Command::new(guard);
        command
            .args(["-r", &runtime.to_string(), "--listen"])
            .arg(&socket);
        command.env("PLEG_STATE_DIR", place.path());
        Proxy::start(command, &socket).await
    };
    let mut text = String::new();
    let mut starts = Vec::new();
    for number in 0..STARTS {
        starts.push(start_guard(number).await.1);
    }
    write_line(&mut text, "start to first answer", &mut starts);
    let (guarded, _) = start_guard(STARTS).await;
    let mut command = Command::new(bare);
    command.arg(runtime.path()).arg(socket("bare.sock"));
    let (bare, _) = Proxy::start(command, &socket("bare.sock")).await;
    let direct = Client::new(runtime, 64 << 20);
    let ids = list(&direct).await?;
    let id = ids.first().map_or("", String::as_str);
    // The calls of a guard after its start must not be measured.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for method in ["Version", "ContainerStatus", "ListContainers"] {
        let mut times = [const { Vec::new() }; 3];
        let clients = [&direct, &bare.client, &guarded.client];
        for turn in 0..=calls {
            for (place, client) in clients.iter().enumerate() {
                let began = Instant::now();
                match method {
                    "Version" => version(client).await?,
                    "ContainerStatus" => status(client, id).await?,
                    _ => drop(list(client).await?),
                }
                if turn > 0 {
                    times[place].push(began.elapsed());
                }
            }
        }
        for (name, times) in ["direct", "bare proxy", "guard"]
            .into_iter()
            .zip(&mut times)
        {
            write_line(&mut text, &format!("{method}, {name}"), times);
        }
        // CPU time is that of the whole process, so no other calls are made meanwhile.
        for (name, proxy) in [("bare proxy", &bare), ("guard", &guarded)] {
            let before = proxy.work();
            for _ in 0..calls {
                match method {
                    "Version" => version(&proxy.client).await?,
                    "ContainerStatus" => status(&proxy.client, id).await?,
                    _ => drop(list(&proxy.client).await?),
                }
            }
            let after = proxy.work();
            let each = |of: fn(&Work) -> f64| (of(&after) - of(&before)) / calls as f64;
            let title = format!("{method}, {name}");
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{title:40} CPU {:.1} us per call, {:.1} waits, {:.1} reads, {:.1} writes",
                each(|work| work.nanos) / 1e3,
                each(|work| work.waits),
                each(|work| work.reads),
                each(|work| work.writes)
            );
        }
    }
    let anonymous = usage(guarded.process.id()).anonymous;
    let _ = writeln!(
        text,
        "anonymous memory of the guard {anonymous} KiB, {} containers",
        ids.len()
    );
    let bytes = fs::metadata(guard).map_or(0, |file| file.len());
    let _ = writeln!(text, "size of the program {bytes} bytes");
    Ok(text)
}

fn write_line(text: &mut String, title: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let [p50, p99] = [50, 99].map(|percent| at(percent).as_secs_f64() * 1e3);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{title:40} p50 {p50:.3} ms, p99 {p99:.3} ms, {} times",
        times.len()
    );
}
