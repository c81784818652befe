use super::*;
use crate::spec::{RestartPolicy, sample::pod};

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
    began: Instant,
    now: Instant,
    id: Id,
    age: Duration,
    /// The checks that were begun: second, kind.
    log: Vec<(u64, Kind)>,
}

impl Scene {
    fn new(change: impl FnOnce(&mut Probes)) -> Self {
        let mut pod = pod(RestartPolicy::Always, &["app"]);
        change(&mut pod.containers[0].probes);
        let now = Instant::now();
        Self {
            pod,
            prober: Prober::new(now, fastrand::Rng::with_seed(7)),
            began: now,
            now,
            id: "one".into(),
            age: Duration::ZERO,
            log: Vec::new(),
        }
    }

    fn due(&mut self) -> Vec<CheckToMake> {
        let running = Running {
            name: "app".into(),
            id: self.id.clone(),
            age: self.age,
        };
        let checks = self.prober.due(&self.pod, &[running], self.now);
        let second = (self.now - self.began).as_secs();
        self.log
            .extend(checks.iter().map(|check| (second, check.kind)));
        checks
    }

    fn found(&mut self, check: &CheckToMake, finding: Finding) -> Option<Change> {
        self.prober.found(&self.pod, check, finding)
    }

    /// Lets time pass, and each check find the same at once; gives what changed and when.
    fn pass(&mut self, seconds: u64, finding: &Finding) -> Vec<(u64, Change)> {
        let end = self.now + SECOND * seconds as u32;
        let mut changes = Vec::new();
        while self.now < end {
            let second = (self.now - self.began).as_secs();
            // What one check finds may make another due.
            loop {
                let checks = self.due();
                if checks.is_empty() {
                    break;
                }
                for check in checks {
                    let change = self.found(&check, finding.clone());
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

fn failure() -> Finding {
    Finding::Failure("refused".into())
}

fn failed(kind: Kind) -> Change {
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
    assert_eq!(scene.pass(10, &Finding::Success), [(0, Change::Ready)]);
    assert!(scene.is_ready());
    let changes = scene.pass(60, &failure());
    assert_eq!(changes, [(30, Change::NotReady("refused".into()))]);
    assert!(!scene.is_ready());
    assert_eq!(scene.pass(10, &Finding::Success), [(70, Change::Ready)]);
}

#[test]
fn a_success_in_between_begins_the_row_of_failures_anew() {
    let mut scene = Scene::new(|probes| probes.liveness = Some(probe(10)));
    for _ in 0..5 {
        assert_eq!(scene.pass(20, &failure()), []);
        assert_eq!(scene.pass(10, &Finding::Success), []);
    }
    assert_eq!(scene.pass(30, &failure()), [(170, failed(Kind::Liveness))]);
}

#[test]
fn a_success_threshold_of_two_takes_two_successes() {
    let mut scene = Scene::new(|probes| {
        let success_threshold = 2;
        probes.readiness = Some(Probe {
            success_threshold,
            ..probe(10)
        });
    });
    assert_eq!(scene.pass(30, &Finding::Success), [(10, Change::Ready)]);
}

#[test]
fn the_first_check_is_made_after_the_initial_delay() {
    let mut scene = Scene::new(|probes| {
        let initial_delay = 7 * SECOND;
        probes.readiness = Some(Probe {
            initial_delay,
            ..probe(10)
        });
    });
    scene.pass(40, &Finding::Success);
    let seconds: Vec<_> = scene.log.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [7, 17, 27, 37]);
}

#[test]
fn a_startup_probe_holds_back_the_others_and_ends_with_its_success() {
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
    assert!(scene.log.iter().all(|(_, kind)| *kind == Kind::Startup));
    assert_eq!(scene.log.len(), 5);
    let changes = scene.pass(20, &Finding::Success);
    assert_eq!(changes, [(5, Change::Started), (5, Change::Ready)]);
    let after: Vec<_> = scene.log[6..].to_vec();
    assert!(after.iter().all(|(_, kind)| *kind != Kind::Startup));
    assert_eq!(after.len(), 4, "{after:?}");
}

#[test]
fn a_failed_liveness_probe_kills_once_for_each_container() {
    let mut scene = Scene::new(|probes| {
        probes.liveness = Some(probe(1));
        probes.readiness = Some(probe(1));
    });
    let changes = scene.pass(100, &failure());
    assert_eq!(changes, [(2, failed(Kind::Liveness))]);
    assert!(scene.prober.health().failed(&"one".into()).is_some());
    let count = scene.log.len();
    assert!(count <= 6, "nothing is asked of what is being killed");
    // Another container: all begins anew.
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
    assert_eq!(scene.pass(9, &failure()), [(2, failed(Kind::Startup))]);
}

#[test]
fn a_check_that_could_not_be_made_counts_as_not_made() {
    let mut scene = Scene::new(|probes| probes.liveness = Some(probe(1)));
    scene.pass(2, &failure());
    let unknown = Finding::Unknown("unavailable".into());
    assert_eq!(scene.pass(100, &unknown), []);
    assert_eq!(scene.pass(1, &failure()), [(102, failed(Kind::Liveness))]);
}

#[test]
fn while_a_check_hangs_no_other_is_begun_and_late_ones_do_not_pile_up() {
    let mut scene = Scene::new(|probes| probes.liveness = Some(probe(1)));
    let check = scene.due().remove(0);
    for _ in 0..50 {
        scene.now += SECOND;
        assert!(scene.due().is_empty());
    }
    assert_eq!(scene.prober.wake_at(&scene.pod), None);
    scene.found(&check, Finding::Success);
    assert_eq!(scene.due().len(), 1);
    assert!(scene.due().is_empty());
}

#[test]
fn what_was_found_of_a_container_that_is_gone_counts_for_no_other() {
    let mut scene = Scene::new(|probes| probes.readiness = Some(probe(1)));
    let check = scene.due().remove(0);
    scene.id = "two".into();
    scene.due();
    assert_eq!(scene.found(&check, Finding::Success), None);
    assert!(!scene.is_ready());
}

#[test]
fn the_first_checks_of_containers_that_ran_before_are_spread_over_their_period() {
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
fn nothing_is_killed_for_its_probes_while_the_pod_ends() {
    let mut scene = Scene::new(|probes| {
        probes.liveness = Some(probe(1));
        probes.readiness = Some(probe(1));
    });
    scene.pass(2, &Finding::Success);
    scene.prober.end();
    let changes = scene.pass(10, &failure());
    assert_eq!(changes, [(4, Change::NotReady("refused".into()))]);
}
