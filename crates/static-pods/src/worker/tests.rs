//! Complete runs in virtual time, which are killed at any time and started again: the source, the
//! sync loop, the workers and the PLEG on a simulated runtime whose calls take time, fail and lose
//! their answers.
//!
//! ```text
//!   manifests --> Manifests --> SyncLoop --> Workers --steps--> Machine --later--> Sim
//!                    ^                          ^                                   |
//!                    \---- leftovers -----------+-------------- Pleg <--------------/
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use pleg::model::id::{Id, PodRef, PodUid};
use pleg::runtime::{Condition, Conditions};
use pleg::{Config, Environment, NoObserver, Pleg, no_ids};
use sim::{Fault, Rpc};
use sync_loop::{Parts, Policy, SyncLoop};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::{Lines, Workers};
use crate::folder::{ALL_MISSING_FOR, Change, Folder};
use crate::pods::Pods;
use crate::source::Manifests;
use crate::spec::{PodSpec, RestartPolicy};
use crate::testing::{each_seed, pod_of as pod};

mod machine;

use machine::Machine;

/// The number of nodes, and how many times the run on each node is killed.
const NODES: u64 = 50;
const KILLS: usize = 20;
/// Seeds whose nodes once failed.
const FAILED: [u64; 0] = [];

/// Longer than the longest back-off and the time between two searches for leftovers.
const SETTLE_TIME: Duration = Duration::from_secs(15 * 60);

/// A run. Dropping this kills it.
struct Run {
    _sync_loop: SyncLoop,
    _pleg: Pleg,
    manifests: mpsc::Sender<Change>,
}

impl Run {
    async fn start(machine: &Machine, wanted: &BTreeMap<String, Arc<PodSpec>>) -> Self {
        let environment = Environment {
            endpoint: "sim".into(),
            clock: machine.sim.clock(),
            observer: Arc::new(NoObserver),
            ids: no_ids(),
            kernel: None,
        };
        let runtime = Arc::new(machine.sim.clone());
        let pleg = Pleg::start(runtime, Config::default(), environment);
        let (manifests, changes) = mpsc::channel(64);
        // The lines are not read.
        let (lines, _) = Lines::new();
        let pods = Arc::new(watch::Sender::new(Pods::default()));
        let host = machine.clone();
        let find = move || {
            let host = host.clone();
            async move {
                sleep(Duration::from_millis(20)).await;
                host.leftovers()
            }
        };
        let (folder, clock) = (Folder::from_changes(changes), machine.sim.clock());
        let source = Manifests::new(
            Some(folder),
            find,
            pods.clone(),
            lines.clone(),
            clock.clone(),
        );
        let performer = Arc::new(machine.clone());
        let workers = Workers::new(performer, pleg.clone(), pods, lines, clock.clone());
        let sync_loop = SyncLoop::start(Parts {
            source,
            sync_pod: Arc::new(workers),
            pleg: pleg.clone(),
            conditions: || async { Ok(ready_conditions()) },
            policy: Policy::Pod,
            clock,
            jitter: Rng::with_seed(1),
        });
        for spec in wanted.values() {
            set(&manifests, spec).await;
        }
        manifests.send(Change::Synced).await.unwrap();
        Self {
            _sync_loop: sync_loop,
            _pleg: pleg,
            manifests,
        }
    }
}

async fn set(manifests: &mpsc::Sender<Change>, spec: &Arc<PodSpec>) {
    let (spec, file) = (spec.clone(), spec.file.clone());
    manifests.send(Change::Set { spec, file }).await.unwrap();
}

fn ready_conditions() -> Conditions {
    let met = |kind: &str| Condition {
        kind: kind.to_owned(),
        met: true,
        ..Condition::default()
    };
    Conditions {
        conditions: vec![met("RuntimeReady"), met("NetworkReady")],
        ..Conditions::default()
    }
}

/// A pod with this name. The number is a part of its UID.
fn spec(name: &str, number: u32) -> Arc<PodSpec> {
    let containers: &[&str] = match name {
        "one" => &["app"],
        "two" => &["app", "log"],
        _ => &["s:mesh", "app"],
    };
    let spec = pod(RestartPolicy::Always, containers);
    Arc::new(PodSpec {
        pod: PodRef {
            uid: format!("{name}-{number}").into(),
            namespace: "default".into(),
            name: name.into(),
        },
        file: format!("{name}.yaml").into(),
        grace_period: Duration::ZERO,
        ..spec
    })
}

/// The pod of a sandbox, from its id.
fn spec_of(sandbox: &Id) -> Arc<PodSpec> {
    let parts = sandbox.as_str().split_once('.');
    let parts = parts.and_then(|(uid, _)| uid.split_once('-'));
    let (name, number) = parts.expect("the id contains the UID of the pod");
    spec(name, number.parse().unwrap())
}

/// Plays a node whose run is killed repeatedly, while manifests are added, changed and removed.
async fn play(seed: u64) {
    let machine = Machine::new(seed);
    let mut wanted = BTreeMap::from([("one".to_owned(), spec("one", 0))]);
    let mut number = 0;
    for _ in 0..KILLS {
        let run = Run::start(&machine, &wanted).await;
        for _ in 0..machine.random(|random| random.u32(..8)) {
            let pause = machine.random(|random| random.u64(..3000));
            sleep(Duration::from_millis(pause)).await;
            let name = ["one", "two", "three"][machine.random(|random| random.usize(..3))];
            match machine.random(|random| random.u32(..6)) {
                0 => {
                    if let Some(old) = wanted.remove(name) {
                        let (pod, file) = (old.pod.clone(), old.file.clone());
                        let removed = Change::Removed { pod, file };
                        run.manifests.send(removed).await.unwrap();
                    }
                }
                1 => {
                    number += 1;
                    let new = spec(name, number);
                    set(&run.manifests, &new).await;
                    wanted.insert(name.to_owned(), new);
                }
                2 => machine.sim.fault(Rpc::ListContainers, None, Fault::Hang),
                3 => machine.sim.lift_all(),
                _ => machine.exit_container(),
            }
            machine.check();
        }
        let pause = machine.random(|random| random.u64(..1500));
        sleep(Duration::from_millis(pause)).await;
        drop(run);
        // The next run starts later, or while calls of this one are outstanding.
        if machine.random(|random| random.bool()) {
            sleep(Duration::from_millis(
                machine.random(|random| random.u64(..500)),
            ))
            .await;
        }
        // A manifest may be removed between two runs.
        if machine.random(|random| random.u32(..3) == 0) {
            wanted.pop_first();
        }
    }
    let run = Run::start(&machine, &wanted).await;
    *machine.has_faults.lock().unwrap() = false;
    machine.sim.lift_all();
    sleep(SETTLE_TIME).await;
    machine.check();
    let mut expected = BTreeMap::new();
    for spec in wanted.values() {
        let names = spec.containers.iter().map(|it| it.name.clone());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        expected.insert(spec.pod.uid.to_string(), names);
    }
    let mut running = machine.running();
    for names in running.values_mut() {
        names.sort_unstable();
    }
    assert_eq!(running, expected);
    let noted: Vec<_> = machine.noted.lock().unwrap().keys().cloned().collect();
    let expected: Vec<PodUid> = expected.keys().map(|uid| uid.as_str().into()).collect();
    assert_eq!(noted, expected, "notes on the host");
    drop(run);
}

#[test]
fn runs_that_are_killed_at_a_thousand_times_create_nothing_twice_and_lose_nothing() {
    each_seed(&FAILED, NODES, |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(play(seed));
    });
}

/// For example, the file system of the manifests is not mounted yet.
#[tokio::test(start_paused = true)]
async fn a_run_that_starts_without_manifests_ends_pods_only_after_a_delay() {
    let machine = Machine::new(1);
    *machine.has_faults.lock().unwrap() = false;
    let wanted = BTreeMap::from([("one".to_owned(), spec("one", 0))]);
    let run = Run::start(&machine, &wanted).await;
    sleep(Duration::from_secs(70)).await;
    let running = machine.running();
    assert_eq!(running.len(), 1);
    drop(run);

    let run = Run::start(&machine, &BTreeMap::new()).await;
    sleep(ALL_MISSING_FOR * 2 / 3).await;
    assert_eq!(machine.running(), running);
    set(&run.manifests, &wanted["one"]).await;
    sleep(ALL_MISSING_FOR * 2).await;
    assert_eq!(machine.running(), running, "it was mounted in time");
    drop(run);

    let run = Run::start(&machine, &BTreeMap::new()).await;
    sleep(ALL_MISSING_FOR * 2).await;
    assert!(machine.running().is_empty());
    drop(run);
}
