//! Faults of the stream of events, in virtual time.

use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::StreamExt;
use pleg::runtime::{Announced, Announcements, CallError, Runtime};
use sim::{Serving, Sim, StreamFault};
use tokio::time::{Instant, timeout};

const PODS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn every(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// A node of six pods with a container each.
fn six_pods() -> Sim {
    let sim = Sim::new();
    for pod in PODS {
        sim.run(pod, &["x"]);
    }
    sim
}

/// Ends one container after the other.
fn all_exit(sim: &Sim) {
    for pod in PODS {
        sim.exit(pod, "x", 1);
    }
}

/// The events that a reader receives until an hour passes without one, each with its delay in milliseconds.
async fn events(stream: &mut Announcements) -> Vec<(Announced, u128)> {
    let start = Instant::now();
    let mut events = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::from_secs(3600), stream.next()).await {
        events.push((event.unwrap(), start.elapsed().as_millis()));
    }
    events
}

/// The pods of the events that a reader receives, one letter each.
async fn pods(stream: &mut Announcements) -> String {
    let events = events(stream).await;
    let pod = |(event, _): &(Announced, u128)| event.id.as_str()[..1].to_owned();
    events.iter().map(pod).collect()
}

/// The pods of the events that are sent for six exits under a fault.
async fn pods_under(fault: StreamFault) -> String {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.set_stream_fault(fault);
    all_exit(&sim);
    pods(&mut stream).await
}

#[tokio::test(start_paused = true)]
async fn each_fault_changes_the_events_as_its_name_says() {
    assert_eq!(pods_under(StreamFault::Silent).await, "");
    let drop = StreamFault::Drop { every: every(3) };
    assert_eq!(pods_under(drop).await, "abde");
    let duplicate = StreamFault::Duplicate { every: every(2) };
    assert_eq!(pods_under(duplicate).await, "abbcddeff");
    assert_eq!(pods_under(StreamFault::Swap).await, "badcfe");
    let delay = StreamFault::Delay(Duration::from_secs(2));
    assert_eq!(pods_under(delay).await, "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_scattered_stream_is_out_of_order_and_the_same_each_time() {
    let within = Duration::from_secs(5);
    let scatter = |seed| StreamFault::Scatter { within, seed };
    let first = pods_under(scatter(1)).await;
    assert_eq!(first, pods_under(scatter(1)).await);
    assert_ne!(first, "abcdef");
    assert_ne!(first, pods_under(scatter(2)).await);
    let mut sorted: Vec<char> = first.chars().collect();
    sorted.sort_unstable();
    assert_eq!(sorted.into_iter().collect::<String>(), "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_event_has_the_time_of_its_change() {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.set_stream_fault(StreamFault::Delay(Duration::from_millis(1500)));
    let changed = sim.now();
    sim.exit("a", "x", 1);
    let events = events(&mut stream).await;
    assert_eq!((events[0].0.created_at, events[0].1), (Some(changed), 1500));
}

#[tokio::test(start_paused = true)]
async fn faults_combine_and_lifting_them_sends_the_event_that_waits() {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.set_stream_fault(StreamFault::Swap);
    sim.set_stream_fault(StreamFault::WithoutStatus);
    sim.exit("a", "x", 1);
    assert_eq!(pods(&mut stream).await, "", "it waits for its neighbour");
    sim.lift_stream_faults();
    let waiting = events(&mut stream).await;
    assert_eq!(waiting[0].0.sandbox, None);
    sim.exit("b", "x", 1);
    assert!(events(&mut stream).await[0].0.sandbox.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_fault_replaces_another_of_its_kind() {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.set_stream_fault(StreamFault::Drop { every: every(1) });
    sim.set_stream_fault(StreamFault::Drop { every: every(6) });
    all_exit(&sim);
    assert_eq!(pods(&mut stream).await, "abcde");
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_goes_to_all_readers_and_a_single_queue_to_one() {
    let sim = six_pods();
    let (mut one, mut other) = (
        sim.announcements().await.unwrap(),
        sim.announcements().await.unwrap(),
    );
    sim.exit("a", "x", 1);
    assert_eq!(pods(&mut one).await, "a");
    assert_eq!(pods(&mut other).await, "a");

    sim.serve_stream(Serving::OneReader);
    assert!(one.next().await.is_none(), "open streams end");
    let (mut one, mut other) = (
        sim.announcements().await.unwrap(),
        sim.announcements().await.unwrap(),
    );
    for pod in ["b", "c", "d"] {
        sim.exit(pod, "x", 1);
    }
    assert_eq!(pods(&mut one).await, "bd");
    assert_eq!(pods(&mut other).await, "c");
}

#[tokio::test(start_paused = true)]
async fn with_a_single_queue_one_event_is_lost_to_a_closed_stream() {
    let sim = six_pods();
    sim.serve_stream(Serving::OneReader);
    drop(sim.announcements().await.unwrap());
    let mut stream = sim.announcements().await.unwrap();
    sim.exit("a", "x", 1);
    sim.exit("b", "x", 1);
    assert_eq!(pods(&mut stream).await, "b");
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_end_at_once_or_be_unimplemented() {
    let sim = six_pods();
    sim.serve_stream(Serving::EndsAtOnce);
    assert!(sim.announcements().await.unwrap().next().await.is_none());
    sim.serve_stream(Serving::Unimplemented);
    let refused = sim.announcements().await.err();
    assert!(matches!(refused, Some(CallError::Unimplemented(_))));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_delays_no_change_and_its_lost_events_are_counted() {
    let sim = Sim::new();
    let _idle = sim.announcements().await.unwrap();
    sim.run("web", &[]);
    let now = sim.now();
    for _ in 0..600 {
        let mut world = sim.world();
        let pod = world.pod("web");
        pod.containers.clear();
        drop(world);
        let mut world = sim.world();
        for name in 0..100 {
            world.pod("web").create(&name.to_string(), now);
        }
    }
    let events = 1 + 600 * 100 + 599 * 100;
    assert_eq!(sim.discarded_events(), events - 65_536);
}
