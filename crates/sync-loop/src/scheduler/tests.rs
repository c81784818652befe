use super::*;

/// A scheduler with an open gate, and the time.
struct Trace {
    scheduler: Scheduler<&'static str>,
    start: Instant,
    now: Instant,
}

fn pod(uid: &str) -> PodRef {
    named(uid, uid)
}

fn named(name: &str, uid: &str) -> PodRef {
    PodRef {
        uid: uid.into(),
        namespace: "default".into(),
        name: name.into(),
    }
}

const DONE: Outcome = Outcome::Done {
    changed: true,
    again_in: None,
};

const NOTHING_DONE: Outcome = Outcome::Done {
    changed: false,
    again_in: None,
};

impl Trace {
    fn open(policy: Policy) -> Self {
        let now = Instant::now();
        let scheduler = Scheduler::new(now, policy, fastrand::Rng::with_seed(7));
        let mut trace = Self {
            scheduler,
            start: now,
            now,
        };
        assert_eq!(trace.errors(&[]), ["opened after 0 ms"]);
        trace
    }

    /// Applies an input, and returns the actions as text.
    fn step(&mut self, input: Input<&'static str>) -> Vec<String> {
        let start = self.start;
        let actions = self.scheduler.step(self.now, input);
        let pause = match self.scheduler.gate() {
            Gate::Open => Duration::ZERO,
            Gate::Closed { pause, .. } => pause,
        };
        let describe = |action| match action {
            Action::Sync { pod, goal, since } => {
                let goal = match goal {
                    Goal::Run(spec) => format!("run {spec}"),
                    Goal::End => "end".to_owned(),
                };
                let since: Option<Instant> = since;
                let since = since.map_or_else(String::new, |since| {
                    format!(" since {}", (since - start).as_secs())
                });
                format!("{}: {goal}{since}", pod.uid)
            }
            Action::Skip { .. } => format!("skip for {} ms", pause.as_millis()),
            Action::Opened { closed_for } => {
                format!("opened after {} ms", closed_for.as_millis())
            }
            Action::Gone(pod) => format!("{} is gone", pod.uid),
        };
        actions.into_iter().map(describe).collect()
    }

    fn set(&mut self, uid: &'static str, spec: &'static str) -> Vec<String> {
        self.step(Input::Change(Change::Set(pod(uid), spec)))
    }

    fn ended(&mut self, uid: &str, outcome: Outcome) -> Vec<String> {
        self.step(Input::Ended(uid.into(), outcome))
    }

    fn errors(&mut self, errors: &[&str]) -> Vec<String> {
        let errors = errors.iter().map(|it| (*it).to_owned()).collect();
        self.step(Input::Errors(errors))
    }

    /// Waits for the alarm, and returns the elapsed time.
    fn wait(&mut self) -> Duration {
        let alarm = self.scheduler.alarm().expect("an alarm is set");
        let waited = alarm.saturating_duration_since(self.now);
        self.now += waited;
        waited
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_needs_a_status_as_of_the_last_sync_that_changed_something() {
    let mut trace = Trace::open(Policy::Pod);
    trace.set("a", "v1");
    trace.ended("a", DONE);
    trace.pass(5);
    assert_eq!(trace.step(Input::Woken("a".into())), ["a: run v1 since 0"]);
    trace.ended("a", NOTHING_DONE);
    trace.pass(5);
    assert_eq!(trace.step(Input::Woken("a".into())), ["a: run v1 since 0"]);
    trace.ended("a", Outcome::Failed("it may have started".to_owned()));
    trace.pass(5);
    assert_eq!(trace.step(Input::Woken("a".into())), ["a: run v1 since 10"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_synced_at_once_and_then_every_60_to_90_seconds() {
    let mut trace = Trace::open(Policy::Pod);
    assert_eq!(trace.set("a", "v1"), ["a: run v1"]);
    let mut waits = Vec::new();
    for _ in 0..20 {
        assert!(trace.ended("a", DONE).is_empty());
        waits.push(trace.wait());
        assert_eq!(trace.step(Input::Time).len(), 1);
    }
    let (min, max) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(
        *min >= RESYNC_INTERVAL && *max <= RESYNC_INTERVAL * 3 / 2,
        "{waits:?}"
    );
    assert!(*max - *min > Duration::from_secs(5), "spread: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_one_sync_at_a_time_and_one_more_for_all_events_during_it() {
    let mut trace = Trace::open(Policy::Pod);
    trace.set("a", "v1");
    for _ in 0..5 {
        assert!(trace.step(Input::Woken("a".into())).is_empty());
    }
    assert!(trace.set("a", "v2").is_empty());
    trace.pass(3);
    assert_eq!(trace.ended("a", DONE), ["a: run v2 since 3"]);
    assert!(trace.ended("a", DONE).is_empty(), "one more sync, not five");
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_does_not_end_delays_no_other_pod() {
    let mut trace = Trace::open(Policy::Pod);
    trace.set("stuck", "v1");
    trace.set("a", "v1");
    trace.ended("a", DONE);
    trace.pass(600);
    assert_eq!(trace.step(Input::Woken("a".into())), ["a: run v1 since 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_retried_after_10_to_15_s_and_a_network_failure_after_1_to_1_5_s() {
    let mut trace = Trace::open(Policy::Pod);
    trace.set("a", "v1");
    trace.ended("a", Outcome::Failed("no image".into()));
    let waited = trace.wait().as_secs_f64();
    assert!((10.0..=15.0).contains(&waited), "{waited}");
    trace.step(Input::Time);
    trace.ended("a", Outcome::NetworkNotReady);
    let waited = trace.wait().as_secs_f64();
    assert!((1.0..=1.5).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_back_off_wakes_a_pod() {
    let mut trace = Trace::open(Policy::Pod);
    trace.set("a", "v1");
    let again_in = Some(Duration::from_secs(20));
    trace.ended(
        "a",
        Outcome::Done {
            changed: true,
            again_in,
        },
    );
    assert_eq!(trace.wait(), Duration::from_secs(20));
    assert_eq!(trace.step(Input::Time), ["a: run v1 since 0"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_removed_pod_is_retried_until_everything_is_removed() {
    let mut trace = Trace::open(Policy::Pod);
    trace.set("a", "v1");
    trace.ended("a", DONE);
    let remove = Input::Change(Change::Remove(pod("a")));
    assert_eq!(trace.step(remove), ["a: end since 0"]);
    trace.ended("a", Outcome::Failed("StopPodSandbox failed".into()));
    trace.wait();
    assert_eq!(trace.step(Input::Time).len(), 1);
    assert_eq!(trace.ended("a", Outcome::Ended), ["a is gone"]);
    assert!(trace.scheduler.workers.is_empty());
    assert_eq!(trace.scheduler.alarm(), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_an_earlier_run_left_ends_although_it_was_never_set() {
    let mut trace = Trace::open(Policy::Pod);
    let remove = Input::Change(Change::Remove(pod("left")));
    assert_eq!(trace.step(remove), ["left: end"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_pod_starts_when_the_old_one_with_its_name_has_ended() {
    let mut trace = Trace::open(Policy::Pod);
    let set = |uid, spec| Input::Change(Change::Set(named("web", uid), spec));
    assert_eq!(trace.step(set("old", "v1")), ["old: run v1"]);
    trace.ended("old", DONE);
    assert_eq!(trace.step(set("new", "v2")), ["old: end since 0"]);
    trace.pass(30);
    assert!(trace.step(Input::AllWoken).is_empty());
    assert_eq!(trace.ended("old", DONE), ["old: end since 30"]);
    assert_eq!(
        trace.ended("old", Outcome::Ended),
        ["old is gone", "new: run v2"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_set_again_while_it_ends_starts_after_its_end() {
    let mut trace = Trace::open(Policy::Pod);
    trace.set("a", "v1");
    trace.ended("a", DONE);
    trace.step(Input::Change(Change::Remove(pod("a"))));
    assert!(trace.set("a", "v1").is_empty());
    assert_eq!(trace.ended("a", DONE), ["a: end since 0"]);
    assert_eq!(trace.ended("a", Outcome::Ended), ["a: run v1 since 0"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_of_three_pods_with_one_name_runs() {
    let mut trace = Trace::open(Policy::Pod);
    let set = |uid, spec| Input::Change(Change::Set(named("web", uid), spec));
    trace.step(set("one", "v1"));
    assert!(trace.step(set("two", "v2")).is_empty());
    assert_eq!(trace.step(set("three", "v3")), ["two: end"]);
    assert_eq!(trace.ended("two", Outcome::Ended), ["two is gone"]);
    assert_eq!(trace.ended("one", DONE), ["one: end since 0"]);
    assert_eq!(
        trace.ended("one", Outcome::Ended),
        ["one is gone", "three: run v3"]
    );
}

#[tokio::test(start_paused = true)]
async fn syncs_that_a_closed_gate_delays_start_when_it_opens() {
    let mut trace = Trace::open(Policy::Node);
    trace.set("a", "v1");
    trace.ended("a", DONE);
    assert_eq!(trace.errors(&["PLEG is not healthy"]), ["skip for 100 ms"]);
    assert!(trace.step(Input::Woken("a".into())).is_empty());
    assert!(trace.set("b", "v1").is_empty());
    assert_eq!(trace.wait(), Duration::from_millis(100));
    assert_eq!(
        trace.errors(&[]),
        ["opened after 100 ms", "a: run v1 since 0", "b: run v1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_sync_may_end_while_the_gate_is_closed_but_no_other_starts() {
    let mut trace = Trace::open(Policy::Node);
    trace.set("a", "v1");
    trace.errors(&["container runtime is down"]);
    trace.step(Input::Woken("a".into()));
    assert!(trace.ended("a", DONE).is_empty());
}
