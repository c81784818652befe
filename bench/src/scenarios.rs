//! Faults on a simulated node, in virtual time: figures that do not depend on the machine.
//! `crates/pleg/tests/engine/figures.rs` checks them.

use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use pleg::Mode;
use sim::figures::{
    Latencies, all_restart_at_once, restarts_before_a_stopped_reader, restarts_beside_hung_pods,
};

use crate::table::Table;

const MODES: [(&str, Mode); 2] = [
    ("lists only", Mode::Generic),
    ("with the stream", Mode::Auto),
];

/// Runs in a separate thread, because virtual time is a property of a tokio runtime.
pub fn measure() -> anyhow::Result<Vec<Table>> {
    let in_virtual_time = thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        Ok(runtime.block_on(tables()))
    });
    let ended = in_virtual_time.join();
    ended.map_err(|_| anyhow!("a scenario panicked"))?
}

async fn tables() -> Vec<Table> {
    let head = ["110 pods x 2 containers", "delivered", "p50", "p99", "max"];
    let title = "Latency of events of pods without a stuck call, in virtual time";
    let mut latency_table = Table::new(title, &head);
    let mut row = |name: String, latencies: &Latencies| {
        let ms = |latency: Duration| format!("{} ms", latency.as_millis());
        latency_table.row([
            name,
            format!("{} of {}", latencies.delivered(), latencies.changes),
            ms(latencies.quantile(0.5)),
            ms(latencies.quantile(0.99)),
            ms(latencies.longest()),
        ]);
    };
    for (name, mode) in MODES {
        for stuck in [0, 1, 2, 20] {
            let latencies = restarts_beside_hung_pods(mode, stuck).await;
            row(
                format!("10 restarts/s, {stuck} ContainerStatus calls stuck, {name}"),
                &latencies,
            );
        }
        let latencies = all_restart_at_once(mode, Duration::from_millis(20)).await;
        row(
            format!("all restart at once, 20 ms per status, {name}"),
            &latencies,
        );
    }

    let head = [
        "800 pods, 3 restarts each",
        "events",
        "delivered",
        "counted",
        "correct at the end",
    ];
    let mut stopped = Table::new("A reader that stops, and later reads again", &head);
    let received = restarts_before_a_stopped_reader(800).await;
    stopped.row([
        "the reader is stopped".to_owned(),
        received.events.to_string(),
        received.delivered.to_string(),
        received.conflated.to_string(),
        format!("{} of {} pods", received.correct, received.pods),
    ]);
    vec![latency_table, stopped]
}
