//! What `pleg run` costs with a hundred pods on a real containerd: the time until all of them run, its
//! memory, and the time from an exit to the request that replaces the container.
//!
//! ```text
//!   driver: the same calls for each pod, one after the other --> serial time
//!   pleg run --manifests, a child --lines--> all Ready, CreateContainer
//!   /proc/PID/status of the child --> anonymous memory
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cri::v1::ContainerState;
use pleg::model::wall_time::{WallTime, system_clock};
use serde::Deserialize;
use sim::figures::Latencies;
use tempfile::TempDir;
use testbed_driver::{ContainerSpec, Driver, PodSpec, Testbed};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::Effort;
use crate::cpu::Progress;
use crate::table::{Table, ratio, time};

const PODS: usize = 100;

/// The label of the pods that `pleg run` starts.
const LABEL: (&str, &str) = ("pleg.dev/owner", "pleg-run");

/// How long to wait for a line of `pleg run`.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Within this time after the start, memory reaches its constant size.
const MEMORY_SETTLES_WITHIN: Duration = Duration::from_secs(20);

/// A line of `pleg run -o json`.
#[derive(Debug, Deserialize)]
struct Line {
    time: WallTime,
    pod: Option<Pod>,
    action: String,
}

#[derive(Debug, Deserialize)]
struct Pod {
    name: String,
}

/// `pleg run`, which is killed when this is dropped.
struct Run {
    child: Child,
    lines: mpsc::UnboundedReceiver<Line>,
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    fn start(mut command: Command, manifests: &Path) -> anyhow::Result<Self> {
        let mut child = command
            .arg("--manifests")
            .arg(manifests)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child
            .stdout
            .take()
            .context("pleg run has no standard output")?;
        let (sender, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(line) = serde_json::from_str(&line) else {
                    continue;
                };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// The next line with this action and, if given, about this pod.
    async fn next(&mut self, action: &str, pod: Option<&str>) -> anyhow::Result<Line> {
        let next = async {
            loop {
                let line = self.lines.recv().await.context("pleg run has ended")?;
                let name = line.pod.as_ref().map(|pod| pod.name.as_str());
                if line.action == action && (pod.is_none() || name == pod) {
                    return Ok(line);
                }
            }
        };
        let timed_out = || format!("no {action} within {WAIT_LIMIT:?}");
        timeout(WAIT_LIMIT, next).await.with_context(timed_out)?
    }

    /// The anonymous memory of the process, in KiB.
    fn memory(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let size = line.context("no RssAnon in /proc/PID/status")?;
        Ok(size.trim().trim_end_matches(" kB").parse()?)
    }
}

/// Starts a node and returns its tables.
pub async fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<[Table; 2]> {
    let program = program()?;
    progress.show("containerd starts");
    let testbed = Testbed::up("1.7", "bench-run").await?;
    let driver = Driver::new(&testbed.endpoint())?;
    let serial = start_serially(&driver, progress).await?;

    let place = tempfile::tempdir()?;
    let manifests = place.path().join("manifests");
    fs::create_dir(&manifests)?;
    for pod in 0..PODS {
        fs::write(manifests.join(format!("p{pod}.yaml")), manifest(pod))?;
    }
    let command = || command(&program, &testbed, &place);
    progress.show("pleg run starts 100 pods");
    let began = Instant::now();
    let mut run = Run::start(command(), &manifests)?;
    for _ in 0..PODS {
        run.next("Ready", None).await?;
    }
    let started = began.elapsed();
    sleep(MEMORY_SETTLES_WITHIN).await;
    let after_start = run.memory()?;
    let exits = measure_exits(effort, &driver, &mut run, progress).await?;
    drop(run);
    progress.show("pleg run adopts 100 pods");
    let mut run = Run::start(command(), &manifests)?;
    for _ in 0..PODS {
        run.next("Ready", None).await?;
    }
    sleep(MEMORY_SETTLES_WITHIN).await;
    let after_adoption = run.memory()?;
    drop(run);
    progress.show("pleg run --down removes 100 pods");
    let ended = command().arg("--down").stdout(Stdio::null()).status()?;
    ensure!(ended.success(), "pleg run --down failed");
    Ok([
        start_table(serial, started, [after_start, after_adoption]),
        exits,
    ])
}

/// The program `pleg` in the directory of this one. It is measured as it is shipped, as a separate
/// process.
fn program() -> anyhow::Result<PathBuf> {
    let bench = std::env::current_exe()?;
    let program = bench.with_file_name("pleg");
    ensure!(
        program.exists(),
        "{} does not exist: build it with cargo build --release -p pleg-cli",
        program.display()
    );
    Ok(program)
}

fn command(program: &Path, testbed: &Testbed, place: &TempDir) -> Command {
    let path = |name: &str| place.path().join(name);
    let mut command = Command::new(program);
    command.env("PLEG_STATE_DIR", path("state"));
    command.args(["-o", "json", "run", "--beside-kubelet"]);
    command.args(["-r", &testbed.endpoint().to_string()]);
    command.args(["--listen", "127.0.0.1:0"]);
    command.arg("--listen").arg(path("agent.sock"));
    command.arg("--root-dir").arg(path("root"));
    command.arg("--pod-logs-dir").arg(path("logs"));
    command
}

fn manifest(pod: usize) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Pod\n\
         metadata: {{name: p{pod}}}\n\
         spec:\n  \
           hostNetwork: true\n  \
           terminationGracePeriodSeconds: 0\n  \
           containers:\n  \
           - name: app\n    \
             image: pleg.test/busybox:latest\n    \
             imagePullPolicy: Never\n    \
             command: [sleep, \"100000\"]\n"
    )
}

/// How long the runtime takes for the same pods if each call is sent after the answer to the last one.
async fn start_serially(driver: &Driver, progress: &Progress) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut pods = Vec::new();
    for pod in 0..PODS {
        progress.show(&format!(
            "{pod} of {PODS} pods are started, one after the other"
        ));
        let app = ContainerSpec::new("app", &["sleep", "100000"]);
        let spec = PodSpec::new(format!("p{pod}")).container(app);
        pods.push(driver.run_pod(&spec).await?);
    }
    let took = began.elapsed();
    driver.remove_pods(&pods, |_| {}).await?;
    Ok(took)
}

fn start_table(serial: Duration, started: Duration, [start, adoption]: [u64; 2]) -> Table {
    let title = "pleg run: 100 static pods on containerd 1.7";
    let mut table = Table::new(title, &["", "measured", "ratio"]);
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let to_serial = ratio(started.as_secs_f64(), serial.as_secs_f64());
    table.row([
        "the runtime alone, one call after the other".to_owned(),
        seconds(serial),
        ratio(1.0, 1.0),
    ]);
    table.row([
        "from the start of pleg run until all are Ready".to_owned(),
        seconds(started),
        to_serial,
    ]);
    let later = MEMORY_SETTLES_WITHIN.as_secs();
    for (event, size) in [("starting", start), ("adopting", adoption)] {
        let size = size as f64 * 1024.0;
        table.row([
            format!("anonymous memory {later} s after {event} the pods"),
            format!("{:.1} MB", size / 1e6),
            ratio(size, 12e6),
        ]);
    }
    table.note(
        "The targets are 1.2 times the serial time, and 12 MB: the ratios of the memory are to 12 MB.",
    );
    table
}

/// Kills containers that have never crashed, one after the other, each with SIGKILL. Measures the time
/// until each is replaced.
async fn measure_exits(
    effort: Effort,
    driver: &Driver,
    run: &mut Run,
    progress: &Progress,
) -> anyhow::Result<Table> {
    let clock = system_clock();
    let count = effort.restarts.min(PODS);
    let [mut to_report, mut to_request, mut between] = [const { Vec::new() }; 3];
    let pods = driver.pods_with(LABEL).await?;
    for (number, pod) in pods.iter().take(count).enumerate() {
        progress.show(&format!("exit {number} of {count}"));
        let id = pod.id("app")?;
        let pid = driver.pid(id).await?;
        let killed = clock();
        driver.kill(id, pid)?;
        while driver.status(id).await?.state() != ContainerState::ContainerExited {
            sleep(Duration::from_micros(500)).await;
        }
        let reported = clock();
        let create = run.next("CreateContainer", Some(&pod.name)).await?.time;
        run.next("Ready", Some(&pod.name)).await?;
        to_report.push(reported.since(killed));
        to_request.push(create.since(killed));
        between.push(create.since(reported));
    }
    let head = [
        "time from SIGKILL, first crash of a container",
        "p50",
        "p99",
        "max",
    ];
    let title = "pleg run: from an exit to the request that replaces the container";
    let mut table = Table::new(title, &head);
    let mut row = |name: &str, times: Vec<Duration>| {
        let times = Latencies::new(times, count);
        let time = |latency: Duration| time(latency.as_nanos() as f64);
        table.row([
            name.to_owned(),
            time(times.quantile(0.5)),
            time(times.quantile(0.99)),
            time(times.longest()),
        ]);
    };
    row("until containerd reports the exit", to_report);
    row("until pleg run requests a new container", to_request);
    row("from containerd's report to this request", between);
    table.note(format!(
        "{count} exits. Nothing replaces a container before the runtime reports its exit. The \
         target for the second row is 20 ms (p99)."
    ));
    Ok(table)
}
