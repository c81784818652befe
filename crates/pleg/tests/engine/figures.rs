//! The figures of the table in docs/benchmarks.md that do not depend on a machine: how late
//! events arrive in virtual time, where a kubelet's arrive seconds late or never.

use std::time::Duration;

use pleg::Mode;
use sim::figures::{
    Latencies, StoppedReader, all_restart_at_once, restarts_before_a_stopped_reader,
    restarts_beside_hung_pods,
};

const HUNG: [usize; 4] = [0, 1, 2, 20];

#[track_caller]
fn assert_all_delivered_within(latencies: &Latencies, longest: Duration) {
    let delivered = latencies.delivered();
    assert_eq!(delivered, latencies.changes, "each is delivered once");
    assert!(latencies.longest() <= longest, "{latencies}");
}

#[tokio::test(start_paused = true)]
async fn stuck_pods_do_not_delay_the_events_of_others() {
    for hung in HUNG {
        let latencies = restarts_beside_hung_pods(Mode::Generic, hung).await;
        assert_all_delivered_within(&latencies, Duration::from_millis(1300));
    }
}

#[tokio::test(start_paused = true)]
async fn stuck_pods_do_not_delay_the_events_of_a_stream() {
    for hung in HUNG {
        let latencies = restarts_beside_hung_pods(Mode::Auto, hung).await;
        assert_all_delivered_within(&latencies, Duration::from_millis(300));
        assert!(latencies.quantile(0.5) <= Duration::from_millis(1));
    }
}

#[tokio::test(start_paused = true)]
async fn all_pods_may_restart_at_once_although_each_status_takes_20_ms() {
    let status = Duration::from_millis(20);
    for mode in [Mode::Generic, Mode::Auto] {
        let latencies = all_restart_at_once(mode, status).await;
        assert_all_delivered_within(&latencies, Duration::from_secs(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_reader_receives_the_final_state_of_every_pod_and_the_number_of_merged_events() {
    let received = restarts_before_a_stopped_reader(800).await;
    let StoppedReader {
        events,
        delivered,
        conflated,
        pods,
        correct,
    } = received;
    let count = delivered + conflated;
    assert_eq!((correct, count), (pods, events), "{received:?}");
    assert!(conflated > 0, "{received:?}");
}
