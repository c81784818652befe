//! How late events are while the runtime announces them: from the time that the runtime
//! put on its event to our record.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cri::Endpoint;
use pleg::model::event::{EventType, Source};
use pleg::model::wall_time::WallClock;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{CallError, Rpc, Runtime};
use pleg::{Config, Environment, Observer, Pleg};
use sim::Sim;
use sim::figures::Latencies;
use testbed_driver::Driver;
use tokio::time::sleep;

use crate::cpu::Progress;
use crate::node;
use crate::table::{Table, time};

const TITLE: &str = "An event with a healthy stream, from the runtime's timestamp to pleg's event";

/// containerd 1.7 first sends the events that it kept without a reader.
const SETTLED: Duration = Duration::from_secs(5);

/// Between two restarts of the simulator's containers.
const PAUSE: Duration = Duration::from_millis(2);

const SIMULATED_PODS: usize = 100;

/// Notes the latencies of events of the stream, and their parts.
#[derive(Default)]
struct Listener {
    events: Mutex<Vec<Duration>>,
    /// Until the runtime's event was here.
    arrivals: Mutex<Vec<Duration>>,
    /// From there until the pod was looked at.
    looks: Mutex<Vec<Duration>>,
    calls: Mutex<Vec<Duration>>,
}

fn note(times: &Mutex<Vec<Duration>>, time: Option<Duration>) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.extend(time);
}

impl Observer for Listener {
    fn event(&self, _event_type: EventType, source: Source, latency: Option<Duration>) {
        if source == Source::Stream {
            note(&self.events, latency);
        }
    }

    fn stream_event(&self, latency: Option<Duration>) {
        note(&self.arrivals, latency);
    }

    fn pod_relist_ended(&self, took: Duration) {
        note(&self.looks, Some(took));
    }

    fn call_ended(&self, call: Rpc, took: Duration, _error: Option<&CallError>) {
        if matches!(call, Rpc::ContainerStatus | Rpc::PodSandboxStatus) {
            note(&self.calls, Some(took));
        }
    }
}

impl Listener {
    /// Everything up to now does not count.
    fn begin(&self) {
        self.take();
    }

    /// The events, the arrivals, the looks and the calls.
    fn take(&self) -> [Latencies; 4] {
        [&self.events, &self.arrivals, &self.looks, &self.calls].map(|noted| {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            let noted = std::mem::take(&mut *noted);
            let count = noted.len();
            Latencies::new(noted, count)
        })
    }
}

/// A table without rows.
pub fn table() -> Table {
    let head = ["runtime", "events", "p50", "p99", "max"];
    let mut table = Table::new(TITLE, &head);
    table.note("Targets: p50 1 ms on the simulator; p50 3 ms and p99 20 ms on containerd.");
    table
}

fn row(table: &mut Table, runtime: &str, events: &Latencies) {
    let time = |latency: Duration| time(latency.as_nanos() as f64);
    table.row([
        runtime.to_owned(),
        events.delivered().to_string(),
        time(events.quantile(0.5)),
        time(events.quantile(0.99)),
        time(events.longest()),
    ]);
}

/// The simulator, in this process and in real time: what our own part takes.
pub async fn measure_simulator(restarts: usize, progress: &Progress, table: &mut Table) {
    progress.say("events of the simulator's stream");
    let sim = Sim::new();
    for pod in 0..SIMULATED_PODS {
        sim.run(&format!("load-{pod}"), &["main", "side"]);
    }
    let (listener, _pleg) = watch(sim.clone(), sim.clock());
    sleep(SETTLED).await;
    listener.begin();
    for restart in 0..restarts {
        let now = sim.now();
        let pod = format!("load-{}", restart % SIMULATED_PODS);
        sim.world().pod(&pod).restart("main", 1, now);
        sleep(PAUSE).await;
    }
    sleep(PAUSE).await;
    let [events, ..] = listener.take();
    row(table, "simulator, through the trait", &events);
}

/// A real containerd with pods named `load-0` and so on.
pub async fn measure_containerd(
    endpoint: &Endpoint,
    restarts: usize,
    progress: &Progress,
    table: &mut Table,
) -> anyhow::Result<()> {
    let driver = Driver::new(endpoint)?;
    let runtime = GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE);
    let (listener, _pleg) = watch(runtime, node::environment().clock);
    sleep(SETTLED).await;
    listener.begin();
    for restart in 0..restarts {
        progress.say(&format!(
            "events of containerd: restart {restart} of {restarts}"
        ));
        let pod = driver
            .pod(&format!("load-{}", restart % node::PODS))
            .await?;
        driver.restart_container(&pod, "main").await?;
    }
    sleep(Duration::from_secs(1)).await;
    let [events, arrivals, looks, calls] = listener.take();
    row(table, "containerd 1.7", &events);
    let half = |times: &Latencies| time(times.quantile(0.5).as_nanos() as f64);
    table.note(format!(
        "On containerd, half of the events arrive within {}; an inspection takes {} (p50): {:.1} \
         status calls, one after the other (mean), of {} each (p50).",
        half(&arrivals),
        half(&looks),
        calls.delivered() as f64 / looks.delivered().max(1) as f64,
        half(&calls),
    ));
    Ok(())
}

/// By the stream alone: an event that the kernel reports first would not be counted.
fn watch<R: Runtime>(runtime: R, clock: WallClock) -> (Arc<Listener>, Pleg) {
    let listener = Arc::<Listener>::default();
    let environment = Environment {
        clock,
        observer: listener.clone(),
        ..node::environment()
    };
    let pleg = Pleg::start(Arc::new(runtime), Config::default(), environment);
    (listener, pleg)
}
