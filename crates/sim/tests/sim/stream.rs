//! What goes wrong with the stream of events, in virtual time.

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

/// One container after the other ends.
fn all_exit(sim: &Sim) {
    for pod in PODS {
        sim.exit(pod, "x", 1);
    }
}

/// What a reader is told until it is quiet for an hour, and after how many milliseconds.
async fn told(stream: &mut Announcements) -> Vec<(Announced, u128)> {
    let begun = Instant::now();
    let mut told = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::from_secs(3600), stream.next()).await {
        told.push((event.unwrap(), begun.elapsed().as_millis()));
    }
    told
}

async fn pods(stream: &mut Announcements) -> String {
    let told = told(stream).await;
    let pod = |(event, _): &(Announced, u128)| event.id.as_str()[..1].to_owned();
    told.iter().map(pod).collect()
}

/// What is told of six deaths under a fault.
async fn told_under(fault: StreamFault) -> String {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.disturb_stream(fault);
    all_exit(&sim);
    pods(&mut stream).await
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_what_it_says() {
    assert_eq!(told_under(StreamFault::Silent).await, "");
    let drop = StreamFault::Drop { every: every(3) };
    assert_eq!(told_under(drop).await, "abde");
    let duplicate = StreamFault::Duplicate { every: every(2) };
    assert_eq!(told_under(duplicate).await, "abbcddeff");
    assert_eq!(told_under(StreamFault::Swap).await, "badcfe");
    let delay = StreamFault::Delay(Duration::from_secs(2));
    assert_eq!(told_under(delay).await, "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_scattered_stream_is_out_of_order_and_the_same_each_time() {
    let within = Duration::from_secs(5);
    let scatter = |seed| StreamFault::Scatter { within, seed };
    let first = told_under(scatter(1)).await;
    assert_eq!(first, told_under(scatter(1)).await);
    assert_ne!(first, "abcdef");
    assert_ne!(first, told_under(scatter(2)).await);
    let mut sorted: Vec<char> = first.chars().collect();
    sorted.sort_unstable();
    assert_eq!(sorted.into_iter().collect::<String>(), "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_late_event_bears_the_time_at_which_it_was_made() {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.disturb_stream(StreamFault::Delay(Duration::from_millis(1500)));
    let made = sim.now();
    sim.exit("a", "x", 1);
    let told = told(&mut stream).await;
    assert_eq!((told[0].0.created_at, told[0].1), (Some(made), 1500));
}

#[tokio::test(start_paused = true)]
async fn faults_add_up_and_lifting_them_tells_what_was_held() {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.disturb_stream(StreamFault::Swap);
    sim.disturb_stream(StreamFault::WithoutStatus);
    sim.exit("a", "x", 1);
    assert_eq!(pods(&mut stream).await, "", "it waits for its neighbour");
    sim.calm_stream();
    let held = told(&mut stream).await;
    assert_eq!(held[0].0.sandbox, None);
    sim.exit("b", "x", 1);
    assert!(told(&mut stream).await[0].0.sandbox.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_fault_takes_the_place_of_one_of_its_kind() {
    let sim = six_pods();
    let mut stream = sim.announcements().await.unwrap();
    sim.disturb_stream(StreamFault::Drop { every: every(1) });
    sim.disturb_stream(StreamFault::Drop { every: every(6) });
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
    assert!(one.next().await.is_none(), "the runtime is another now");
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
async fn with_a_single_queue_one_event_is_lost_to_a_reader_that_has_gone() {
    let sim = six_pods();
    sim.serve_stream(Serving::OneReader);
    drop(sim.announcements().await.unwrap());
    let mut stream = sim.announcements().await.unwrap();
    sim.exit("a", "x", 1);
    sim.exit("b", "x", 1);
    assert_eq!(pods(&mut stream).await, "b");
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_end_at_once_or_be_unheard_of() {
    let sim = six_pods();
    sim.serve_stream(Serving::EndsAtOnce);
    assert!(sim.announcements().await.unwrap().next().await.is_none());
    sim.serve_stream(Serving::Unimplemented);
    let refused = sim.announcements().await.err();
    assert!(matches!(refused, Some(CallError::Unimplemented(_))));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_holds_nobody_up_and_what_it_loses_is_counted() {
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
    assert_eq!(sim.events_discarded(), events - 65_536);
}
