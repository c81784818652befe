//! The latency of events while the stream is healthy: from the runtime's timestamp to pleg's event.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cri::Endpoint;
use pleg::model::event::Source;
use pleg::model::wall_time::WallClock;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{Rpc, Runtime};
use pleg::{Config, Environment, Measurement, Observer, Pleg};
use sim::Sim;
use sim::figures::Latencies;
use testbed_driver::Driver;
use tokio::time::sleep;

use crate::cpu::Progress;
use crate::node;
use crate::table::{Table, time};

const TITLE: &str = "An event with a healthy stream, from the runtime's timestamp to pleg's event";

/// Within this time containerd 1.7 has sent the events that it kept while nothing read them.
const OLD_EVENTS_WITHIN: Duration = Duration::from_secs(5);

/// The time between two restarts of the simulator's containers.
const PAUSE: Duration = Duration::from_millis(2);

const SIMULATED_PODS: usize = 100;

/// Records the latencies of the stream's events, and their parts.
#[derive(Default)]
struct Listener {
    events: Mutex<Vec<Duration>>,
    /// From the runtime's timestamp until its event arrived.
    arrivals: Mutex<Vec<Duration>>,
    /// From the arrival until the pod was inspected.
    inspections: Mutex<Vec<Duration>>,
    calls: Mutex<Vec<Duration>>,
}

fn record(times: &Mutex<Vec<Duration>>, time: Option<Duration>) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.extend(time);
}

impl Observer for Listener {
    fn observe(&self, measurement: &Measurement) {
        match *measurement {
            Measurement::Event {
                source: Source::Stream,
                latency,
                ..
            } => record(&self.events, latency),
            Measurement::StreamEvent(latency) => record(&self.arrivals, latency),
            Measurement::PodRelistEnded(took) => record(&self.inspections, Some(took)),
            Measurement::CallEnded {
                call: Rpc::ContainerStatus | Rpc::PodSandboxStatus,
                took,
                ..
            } => record(&self.calls, Some(took)),
            _ => {}
        }
    }
}

impl Listener {
    /// Forgets everything that was recorded so far.
    fn begin(&self) {
        self.take();
    }

    /// Takes the times of events, arrivals, inspections and calls.
    fn take(&self) -> [Latencies; 4] {
        [&self.events, &self.arrivals, &self.inspections, &self.calls].map(|times| {
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            let times = std::mem::take(&mut *times);
            let count = times.len();
            Latencies::new(times, count)
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

/// Measures with the simulator, in this process and in real time: the latency of pleg itself.
pub async fn measure_simulator(restarts: usize, progress: &Progress, table: &mut Table) {
    progress.show("events of the simulator's stream");
    let sim = Sim::new();
    for pod in 0..SIMULATED_PODS {
        sim.run(&format!("load-{pod}"), &["main", "side"]);
    }
    let (listener, _pleg) = watch(sim.clone(), sim.clock());
    sleep(OLD_EVENTS_WITHIN).await;
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

/// Measures with a containerd whose pods are named `load-0` and so on.
pub async fn measure_containerd(
    endpoint: &Endpoint,
    restarts: usize,
    progress: &Progress,
    table: &mut Table,
) -> anyhow::Result<()> {
    let driver = Driver::new(endpoint)?;
    let runtime = GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE);
    let (listener, _pleg) = watch(runtime, node::environment().clock);
    sleep(OLD_EVENTS_WITHIN).await;
    listener.begin();
    for restart in 0..restarts {
        progress.show(&format!(
            "events of containerd: restart {restart} of {restarts}"
        ));
        let pod = driver
            .pod(&format!("load-{}", restart % node::PODS))
            .await?;
        driver.restart_container(&pod, "main").await?;
    }
    sleep(Duration::from_secs(1)).await;
    let [events, arrivals, inspections, calls] = listener.take();
    row(table, "containerd 1.7", &events);
    let half = |times: &Latencies| time(times.quantile(0.5).as_nanos() as f64);
    table.note(format!(
        "On containerd, half of the events arrive within {}; an inspection takes {} (p50): {:.1} \
         status calls, one after the other (mean), of {} each (p50).",
        half(&arrivals),
        half(&inspections),
        calls.delivered() as f64 / inspections.delivered().max(1) as f64,
        half(&calls),
    ));
    Ok(())
}

/// Starts pleg without pidfds: an event that the kernel reports first would not be counted.
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
