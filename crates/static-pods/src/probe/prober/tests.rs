use super::*;
use crate::spec::RestartPolicy;
use crate::testing::pod_of as pod;

const SECOND: Duration = Duration::from_secs(1);

fn probe(period: u64) -> Probe {
    Probe {
        check: Check::Tcp {
            host: None,
            port: 80,
        },
        initial_delay: Duration::ZERO,
        period: Duration::from_secs(period),
        timeout: SECOND,
        success_threshold: 1,
        failure_threshold: 3,
        grace_period: None,
    }
}

/// A pod of one container, its prober, and a clock.
struct Scene {
    pod: PodSpec,
    prober: Prober,
    start: Instant,
    now: Instant,
    id: Id,
    age: Duration,
    /// The second and the kind of each check that was started.
    log: Vec<(u64, ProbeKind)>,
}

impl Scene {
    fn new(change: impl FnOnce(&mut Probes)) -> Self {
        let mut pod = pod(RestartPolicy::Always, &["app"]);
        change(&mut pod.containers[0].probes);
        let now = Instant::now();
        Self {
            pod,
            prober: Prober::new(now, fastrand::Rng::with_seed(7)),
            start: now,
            now,
            id: "one".into(),
            age: Duration::ZERO,
            log: Vec::new(),
        }
    }

    fn due(&mut self) -> Vec<DueCheck> {
        let running = Running {
            name: "app".into(),
            id: self.id.clone(),
            age: self.age,
        };
        let checks = self.prober.due(&self.pod, &[running], self.now);
        let second = (self.now - self.start).as_secs();
        self.log
            .extend(checks.iter().map(|check| (second, check.kind)));
        checks
    }

    fn apply_result(&mut self, check: &DueCheck, result: CheckResult) -> Option<Change> {
        self.prober.apply_result(&self.pod, check, result)
    }

    /// Lets time pass. Each check ends at once, with `result`. Returns the changes with their seconds.
    fn pass(&mut self, seconds: u64, result: &CheckResult) -> Vec<(u64, Change)> {
        let end = self.now + SECOND * seconds as u32;
        let mut changes = Vec::new();
        while self.now < end {
            let second = (self.now - self.start).as_secs();
            // The result of a check may make another check due.
            loop {
                let checks = self.due();
                if checks.is_empty() {
                    break;
                }
                for check in checks {
                    let change = self.apply_result(&check, result.clone());
                    changes.extend(change.map(|change| (second, change)));
                }
            }
            self.now += SECOND;
        }
        changes
    }

    fn is_ready(&self) -> bool {
        let probes = &self.pod.containers[0].probes;
        self.prober.health().is_ready(&self.id, probes)
    }
}

fn failure() -> CheckResult {
    CheckResult::Failure("refused".into())
}

fn failed(kind: ProbeKind) -> Change {
    let message = "refused".into();
    Change::Failed(FailedProbe { kind, message })
}

#[test]
fn a_container_without_probes_is_started_and_ready() {
    let mut scene = Scene::new(|_| {});
    assert!(scene.due().is_empty());
    assert!(scene.is_ready());
}

#[test]
fn a_container_is_not_ready_before_its_first_success_and_after_three_failures() {
    let mut scene = Scene::new(|probes| probes.readiness = Some(probe(10)));
    assert!(!scene.is_ready());
    assert_eq!(scene.pass(10, &CheckResult::Success), [(0, Change::Ready)]);
    assert!(scene.is_ready());
    let changes = scene.pass(60, &failure());
    assert_eq!(changes, [(30, Change::NotReady("refused".into()))]);
    assert!(!scene.is_ready());
    assert_eq!(scene.pass(10, &CheckResult::Success), [(70, Change::Ready)]);
}

#[test]
fn a_success_restarts_the_count_of_failures() {
    let mut scene = Scene::new(|probes| probes.liveness = Some(probe(10)));
    for _ in 0..5 {
        assert_eq!(scene.pass(20, &failure()), []);
        assert_eq!(scene.pass(10, &CheckResult::Success), []);
    }
    assert_eq!(
        scene.pass(30, &failure()),
        [(170, failed(ProbeKind::Liveness))]
    );
}

#[test]
fn a_success_threshold_of_two_needs_two_successes() {
    let mut scene = Scene::new(|probes| {
        let success_threshold = 2;
        probes.readiness = Some(Probe {
            success_threshold,
            ..probe(10)
        });
    });
    assert_eq!(scene.pass(30, &CheckResult::Success), [(10, Change::Ready)]);
}

#[test]
fn the_first_check_is_performed_after_the_initial_delay() {
    let mut scene = Scene::new(|probes| {
        let initial_delay = 7 * SECOND;
        probes.readiness = Some(Probe {
            initial_delay,
            ..probe(10)
        });
    });
    scene.pass(40, &CheckResult::Success);
    let seconds: Vec<_> = scene.log.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [7, 17, 27, 37]);
}

#[test]
fn a_startup_probe_delays_the_others_and_ends_with_its_success() {
    let mut scene = Scene::new(|probes| {
        let failure_threshold = 30;
        probes.startup = Some(Probe {
            failure_threshold,
            ..probe(1)
        });
        probes.liveness = Some(probe(10));
        probes.readiness = Some(probe(10));
    });
    scene.pass(5, &failure());
    assert!(
        scene
            .log
            .iter()
            .all(|(_, kind)| *kind == ProbeKind::Startup)
    );
    assert_eq!(scene.log.len(), 5);
    let changes = scene.pass(20, &CheckResult::Success);
    assert_eq!(changes, [(5, Change::Started), (5, Change::Ready)]);
    let after: Vec<_> = scene.log[6..].to_vec();
    assert!(after.iter().all(|(_, kind)| *kind != ProbeKind::Startup));
    assert_eq!(after.len(), 4, "{after:?}");
}

#[test]
fn a_failed_liveness_probe_kills_once_for_each_container() {
    let mut scene = Scene::new(|probes| {
        probes.liveness = Some(probe(1));
        probes.readiness = Some(probe(1));
    });
    let changes = scene.pass(100, &failure());
    assert_eq!(changes, [(2, failed(ProbeKind::Liveness))]);
    assert!(scene.prober.health().failed(&"one".into()).is_some());
    let count = scene.log.len();
    assert!(
        count <= 6,
        "a container that is being killed is not checked"
    );
    // The next container starts without results.
    scene.id = "two".into();
    scene.due();
    assert!(scene.prober.health().failed(&"two".into()).is_none());
    assert!(scene.prober.health().failed(&"one".into()).is_none());
    scene.now += SECOND;
    assert_eq!(scene.pass(1, &failure()), []);
}

#[test]
fn a_failed_startup_probe_kills() {
    let mut scene = Scene::new(|probes| {
        probes.startup = Some(probe(1));
    });
    assert_eq!(scene.pass(9, &failure()), [(2, failed(ProbeKind::Startup))]);
}

#[test]
fn a_check_that_could_not_be_performed_does_not_count() {
    let mut scene = Scene::new(|probes| probes.liveness = Some(probe(1)));
    scene.pass(2, &failure());
    let unknown = CheckResult::Unknown("unavailable".into());
    assert_eq!(scene.pass(100, &unknown), []);
    assert_eq!(
        scene.pass(1, &failure()),
        [(102, failed(ProbeKind::Liveness))]
    );
}

#[test]
fn while_a_check_is_stuck_no_other_starts_and_missed_checks_do_not_accumulate() {
    let mut scene = Scene::new(|probes| probes.liveness = Some(probe(1)));
    let check = scene.due().remove(0);
    for _ in 0..50 {
        scene.now += SECOND;
        assert!(scene.due().is_empty());
    }
    assert_eq!(scene.prober.wake_at(&scene.pod), None);
    scene.apply_result(&check, CheckResult::Success);
    assert_eq!(scene.due().len(), 1);
    assert!(scene.due().is_empty());
}

#[test]
fn the_result_for_a_previous_container_is_ignored() {
    let mut scene = Scene::new(|probes| probes.readiness = Some(probe(1)));
    let check = scene.due().remove(0);
    scene.id = "two".into();
    scene.due();
    assert_eq!(scene.apply_result(&check, CheckResult::Success), None);
    assert!(!scene.is_ready());
}

#[test]
fn the_first_checks_of_containers_of_an_earlier_run_are_spread_over_their_period() {
    let mut delays = Vec::new();
    for seed in 0..20 {
        let mut scene = Scene::new(|probes| probes.liveness = Some(probe(10)));
        scene.prober = Prober::new(scene.now, fastrand::Rng::with_seed(seed));
        scene.age = 3600 * SECOND;
        assert!(scene.due().is_empty());
        let delay = scene.prober.wake_at(&scene.pod).unwrap() - scene.now;
        assert!(delay < 10 * SECOND);
        delays.push(delay);
    }
    delays.sort();
    assert!(delays[19] - delays[0] > 5 * SECOND, "{delays:?}");
}

#[test]
fn no_container_is_killed_for_its_probes_while_the_pod_ends() {
    let mut scene = Scene::new(|probes| {
        probes.liveness = Some(probe(1));
        probes.readiness = Some(probe(1));
    });
    scene.pass(2, &CheckResult::Success);
    scene.prober.end();
    let changes = scene.pass(10, &failure());
    assert_eq!(changes, [(4, Change::NotReady("refused".into()))]);
}
