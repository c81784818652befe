//! A runtime whose every call is slow: with the guard a kubelet is never worse off than without.

use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use fastrand::Rng;
use guard::core::{CallId, Mode, Phase};
use tokio::time::Instant;

use crate::node::{KUBELET_TIMEOUT, Node, container_id, list_running, request_for};

const SECOND: Duration = Duration::from_secs(1);
const CONTAINERS: usize = 30;

/// How long a kubelet waits for its relist before it reports that PLEG is not healthy.
const THRESHOLD: Duration = Duration::from_secs(180);

/// Which calls are slow.
#[derive(Clone, Copy, Debug)]
enum Slow {
    Lists,
    ListsAndStatuses,
    Everything,
}

/// How long a slow call takes.
#[derive(Clone, Copy, Debug)]
enum Takes {
    Always(u64),
    Between(u64, u64),
    Millis(u64),
}

/// A sequence of calls that a kubelet repeats, one call at a time.
struct Loop {
    calls: &'static [fn() -> (Rpc, Bytes)],
    period: Duration,
    next: usize,
    outstanding: Option<CallId>,
    due: Instant,
    /// When the first call of the last completed pass was sent.
    passed: Instant,
    began: Instant,
    passes: usize,
    /// The calls that failed, and when.
    failures: Vec<(Rpc, Instant)>,
    oldest: Duration,
}

fn all(rpc: Rpc) -> (Rpc, Bytes) {
    (rpc, Bytes::new())
}

fn running() -> (Rpc, Bytes) {
    (Rpc::ListContainers, list_running().into())
}

fn status() -> (Rpc, Bytes) {
    (Rpc::ContainerStatus, request_for(&container_id(3)).into())
}

impl Loop {
    fn new(node: &Node, calls: &'static [fn() -> (Rpc, Bytes)], period: Duration) -> Self {
        Self {
            calls,
            period,
            next: 0,
            outstanding: None,
            due: node.now(),
            passed: node.now(),
            began: node.now(),
            passes: 0,
            failures: Vec::new(),
            oldest: Duration::ZERO,
        }
    }

    fn turn(&mut self, node: &mut Node) {
        let now = node.now();
        self.oldest = self.oldest.max(now - self.passed);
        if let Some(call) = self.outstanding {
            let Some(end) = node.end_of(call) else {
                return;
            };
            self.outstanding = None;
            let (rpc, _) = self.calls[self.next]();
            self.next += 1;
            if end.is_none() {
                self.failures.push((rpc, now));
                self.next = 0;
                self.due = now + self.period;
            } else if self.next == self.calls.len() {
                self.next = 0;
                self.due = now + self.period;
                self.passed = self.began;
                self.passes += 1;
            }
        }
        if now >= self.due {
            if self.next == 0 {
                self.began = now;
            }
            let (rpc, request) = self.calls[self.next]();
            self.outstanding = Some(node.start_for(KUBELET_TIMEOUT, rpc, request));
        }
    }
}

/// What a kubelet observes of a slow runtime in ten minutes.
#[derive(Debug)]
struct Seen {
    relists: usize,
    /// The calls that failed, and how long after the runtime became slow.
    failures: Vec<(Rpc, Duration)>,
    oldest: Duration,
    /// How long the guard was not passing lists, after the first two minutes.
    guarding: Duration,
    gave_up: bool,
}

fn see(mode: Mode, slow: Slow, takes: Takes, seed: u64, workers: usize) -> Seen {
    let mut node = Node::without_limit(CONTAINERS, CONTAINERS);
    node.switch(mode);
    node.call(Rpc::ListContainers, "")
        .0
        .expect("it is answered");
    node.busy = vec![node.now(); workers];
    let mut rng = Rng::with_seed(seed);
    node.takes = Box::new(move |rpc| {
        let is_list = matches!(rpc, Rpc::ListContainers | Rpc::ListPodSandbox);
        let is_status = matches!(rpc, Rpc::ContainerStatus | Rpc::PodSandboxStatus);
        let is_slow = match slow {
            Slow::Lists => is_list,
            Slow::ListsAndStatuses => is_list || is_status,
            Slow::Everything => true,
        };
        match takes {
            _ if !is_slow => Duration::from_millis(5),
            Takes::Always(seconds) => Duration::from_secs(seconds),
            Takes::Millis(millis) => Duration::from_millis(millis),
            Takes::Between(least, most) => {
                Duration::from_millis(rng.u64(least * 1000..most * 1000))
            }
        }
    });
    let relist: &[fn() -> (Rpc, Bytes)] = &[
        || all(Rpc::ListPodSandbox),
        || all(Rpc::ListContainers),
        status,
    ];
    let mut relist = Loop::new(&node, relist, SECOND);
    let mut housekeeping = Loop::new(&node, &[running], SECOND * 2);
    let start = node.now();
    let mut seen = Seen {
        relists: 0,
        failures: Vec::new(),
        oldest: Duration::ZERO,
        guarding: Duration::ZERO,
        gave_up: false,
    };
    let step = SECOND / 10;
    while node.now() < start + SECOND * 600 {
        node.pass(step);
        relist.turn(&mut node);
        housekeeping.turn(&mut node);
        let phase = node.phase();
        seen.gave_up |= phase == Phase::LimitReached;
        if phase != Phase::Passing && node.now() > start + SECOND * 120 {
            seen.guarding += step;
        }
    }
    seen.relists = relist.passes;
    let failures = relist.failures.iter().chain(&housekeeping.failures);
    seen.failures = failures.map(|(rpc, at)| (*rpc, *at - start)).collect();
    seen.oldest = relist.oldest;
    seen
}

/// Enforces G7.
#[test]
fn a_kubelet_behind_the_guard_is_never_worse_off_than_one_on_a_slow_runtime() {
    let seed = std::env::var("GUARD_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("GUARD_SEED is a number"),
    );
    for takes in [
        Takes::Always(4),
        Takes::Always(8),
        Takes::Always(9),
        Takes::Always(13),
        Takes::Always(20),
        Takes::Between(1, 12),
    ] {
        for slow in [Slow::Lists, Slow::ListsAndStatuses, Slow::Everything] {
            let direct = see(Mode::Pass, slow, takes, seed, 0);
            let guarded = see(Mode::Guard, slow, takes, seed, 0);
            let case = format!(
                "{slow:?} slow, {takes:?} s, GUARD_SEED={seed}: {guarded:?}, direct {direct:?}"
            );
            assert!(
                direct.oldest < THRESHOLD && direct.failures.is_empty(),
                "{case}"
            );
            // Until the limits are raised, one status may count as stuck.
            let is_early = |(rpc, after): &(Rpc, Duration)| {
                *rpc == Rpc::ContainerStatus && *after < SECOND * 60
            };
            let failures = &guarded.failures;
            assert!(
                failures.iter().all(is_early) && failures.len() <= 2,
                "{case}"
            );
            assert!(!guarded.gave_up, "{case}");
            assert!(guarded.oldest <= direct.oldest * 2, "{case}");
            assert!(guarded.relists * 4 >= direct.relists * 3, "{case}");
            assert!(guarded.guarding <= SECOND * 30, "{case}");
        }
    }
}

/// The guard's own calls must not delay the kubelet's.
/// Enforces G7.
#[test]
fn a_kubelet_behind_the_guard_stays_ready_on_a_runtime_that_serves_few_calls_at_once() {
    for (workers, millis) in [(4, 2500), (4, 5000), (1, 600), (1, 1200), (1, 2500)] {
        let takes = Takes::Millis(millis);
        let guarded = see(Mode::Guard, Slow::Everything, takes, 1, workers);
        let case = format!("{workers} workers, {millis} ms a call: {guarded:?}");
        assert!(guarded.oldest < THRESHOLD, "{case}");
        assert!(!guarded.gave_up && guarded.failures.is_empty(), "{case}");
    }
}
