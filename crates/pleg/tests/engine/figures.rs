//! The figures of the table in docs/benchmarks.md that do not depend on a machine: how late
//! events come in virtual time, where a kubelet's come seconds late or never.

use std::time::Duration;

use pleg::Mode;
use sim::figures::{
    Caught, Latencies, all_restart_at_once, restarts_before_a_stopped_reader,
    restarts_beside_hung_pods,
};

const HUNG: [usize; 4] = [0, 1, 2, 20];

#[track_caller]
fn assert_all_told_within(latencies: &Latencies, longest: Duration) {
    assert_eq!(latencies.told(), latencies.changes, "each is told once");
    assert!(latencies.longest() <= longest, "{latencies}");
}

#[tokio::test(start_paused = true)]
async fn stuck_pods_do_not_delay_the_events_of_others() {
    for hung in HUNG {
        let latencies = restarts_beside_hung_pods(Mode::Generic, hung).await;
        assert_all_told_within(&latencies, Duration::from_millis(1300));
    }
}

#[tokio::test(start_paused = true)]
async fn stuck_pods_do_not_delay_the_events_of_a_stream() {
    for hung in HUNG {
        let latencies = restarts_beside_hung_pods(Mode::Auto, hung).await;
        assert_all_told_within(&latencies, Duration::from_millis(300));
        assert!(latencies.quantile(0.5) <= Duration::from_millis(1));
    }
}

#[tokio::test(start_paused = true)]
async fn all_pods_may_restart_at_once_although_each_status_takes_20_ms() {
    let status = Duration::from_millis(20);
    for mode in [Mode::Generic, Mode::Auto] {
        let latencies = all_restart_at_once(mode, status).await;
        assert_all_told_within(&latencies, Duration::from_secs(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_reader_receives_the_final_state_of_every_pod_and_the_number_of_merged_events() {
    let caught = restarts_before_a_stopped_reader(800).await;
    let Caught {
        events,
        told,
        conflated,
        pods,
        right,
    } = caught;
    assert_eq!((right, told + conflated), (pods, events), "{caught:?}");
    assert!(conflated > 0, "{caught:?}");
}
