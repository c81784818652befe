//! The checks of the invariants: of each status report, and of the end of a world.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{TICK, World};
use crate::node::Node;
use crate::past::Trace;
use pleg::model::id::{Id, PodUid};
use pleg::model::listed::ContainerState;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::runtime::Rpc;
use sim::Outstanding;
use tokio::time::{Instant, sleep};

/// How long the bystander's death may remain unreported: until a list is overdue, a period, a sweep
/// of a small node, and an inspection with slow calls.
const LONGEST_WAIT: f64 = 2.0 + 1.0 + 1.0 + 1.5;

/// How long lists wait for a `Version` that is stuck after a restart.
const VERSION_IS_WAITED_FOR: f64 = 2.0;

/// The ceiling of the relist period.
const LONGEST_PERIOD: f64 = 30.0;

/// A call that has not been answered for this long makes the node Degraded.
const DEGRADED_AFTER: Duration = Duration::from_millis(4050);

/// A call that has been outstanding for less than this is not reported as stuck.
const SUSPECT_AFTER: Duration = Duration::from_millis(990);

/// How many calls may be outstanding beside those that are known to be stuck. `MAX_OUTSTANDING` is
/// the limit of all calls.
const WINDOW: usize = 64;

const MAX_OUTSTANDING: usize = 256;

/// How long a runtime that is back may be reported as unreachable: until the next relist (1 s), while
/// `Version` hangs (2 s), and then a list (4 s), while a relapse is likely (3 s), and until a pass by slow
/// lists ends (2 s).
const KNOWN_TO_BE_BACK: Duration = Duration::from_millis(12_050);

/// How long a culprit may be reported after the whole runtime has stopped: until the stop is known.
const KNOWN_FOR: Duration = Duration::from_secs(6);

/// The pods that have an error in the cache.
fn failing(node: &Node) -> BTreeSet<PodUid> {
    let cached = node.pleg.cache().all().into_iter();
    let failing = cached.filter(|entry| entry.error.is_some());
    failing.map(|entry| entry.status.uid.clone()).collect()
}

impl World {
    pub(super) fn note_held(&mut self, outstanding: &[Outstanding]) {
        let held = outstanding.iter().filter(|call| call.has_own_fault);
        for call in held {
            let key = (call.rpc, call.id.clone());
            self.held.insert(key, Instant::now());
        }
    }

    /// Checks that the present status report is true.
    pub(super) async fn check_report(&mut self, node: &Node) {
        // A fault that ends at this moment was in force a moment ago.
        let mut held = node.sim.outstanding();
        sleep(TICK).await;
        let failed = failing(node);
        let status = node.status().await;
        let outstanding = node.sim.outstanding();
        let (health, stuck) = (&status.health, &status.stuck);
        let age = |call: &Outstanding| call.since.elapsed();
        assert!(health.last_seen >= self.last_seen, "it goes back");
        self.last_seen = health.last_seen;
        let world = node.sim.world().clone();
        self.past.check_the_dead(node);
        self.past.check_times(node, &status);
        if health.reason == Reason::RuntimeUnreachable && self.odd.is_none() {
            let back = self.away.map(|until| until.elapsed());
            assert!(back < Some(KNOWN_TO_BE_BACK), "it is back since {back:?}");
            assert!(back.is_some(), "it was never away");
        }

        let without_culprit = health.reason == Reason::ContainerStuck
            && stuck.is_empty()
            && !health.message.contains(" yet to be inspected")
            // While the whole runtime is stopped, nothing shows that there is no culprit any more.
            && self.stopped.is_none();
        let since = self.without_culprit.filter(|_| without_culprit);
        self.without_culprit = since.or(without_culprit.then(Instant::now));

        if health.state == HealthState::Healthy {
            assert_eq!(status.blind, [], "Healthy");
            let there = |id: &Id| {
                let id = id.as_str();
                world.container_by_id(id).is_some() || world.sandbox_by_id(id).is_some()
            };
            let hangs = outstanding.iter().find(|call| {
                let is_unary = call.rpc != Rpc::GetContainerEvents;
                let there = call.id.as_ref().is_none_or(there);
                is_unary && there && age(call) >= DEGRADED_AFTER
            });
            assert_eq!(hangs, None, "Healthy, and that has not been answered");
            self.past.check(node, &status);
        }

        // No pod has an error while no problem is reported.
        let nothing_wrong = health.message == "all pods are up to date"
            || health.message.starts_with("recovering: no problem found");
        if nothing_wrong {
            // What failed since the status was made is not in it.
            let failed: Vec<_> = failed.intersection(&failing(node)).cloned().collect();
            assert!(failed.is_empty(), "{failed:?}: {}", health.message);
        }

        if self.odd.is_some() {
            return;
        }
        self.note_held(&outstanding);
        held.extend(outstanding.iter().cloned());
        let is_held: BTreeSet<(Rpc, Option<Id>)> = held
            .into_iter()
            .filter(|call| call.has_own_fault && age(call) >= SUSPECT_AFTER)
            .map(|call| (call.rpc, call.id))
            .collect();
        for call in stuck.iter().filter(|call| call.id.is_some()) {
            let key = (call.call, call.id.clone());
            // While the whole runtime is stopped, the end of a fault cannot be known.
            let held = self.held.get(&key).filter(|_| self.stopped.is_some());
            let was_held = held.is_some_and(|at| at.elapsed() < KNOWN_FOR);
            assert!(
                was_held || is_held.contains(&key),
                "{call:?} is not held up"
            );
        }

        let calls = outstanding.len();
        // While the runtime is unresponsive, no call is reported as stuck, so only the limit of all
        // calls applies.
        let is_unresponsive = health.reason == Reason::RuntimeSilent;
        assert!(
            calls
                <= if is_unresponsive {
                    MAX_OUTSTANDING
                } else {
                    WINDOW + stuck.len()
                },
            "{calls} calls, {} stuck",
            stuck.len()
        );
    }

    /// A culprit that was reported in between restarts the time.
    pub(super) fn note_blame(&mut self, record: &Record) {
        if let Record::Health(health) = record
            && !health.stuck.is_empty()
        {
            self.without_culprit = self.without_culprit.map(|_| Instant::now());
        }
    }

    pub(super) fn check_bystander(&mut self, trace: &Trace) {
        if self.stopped.is_some() || self.odd.is_some() {
            return;
        }
        if let Some((died, id)) = &self.bystander {
            let waited = died.elapsed().as_secs_f64();
            let reported = trace.deaths.contains_key(id);
            let longest = match self.mutes {
                true => LONGEST_WAIT + LONGEST_PERIOD,
                false => LONGEST_WAIT,
            };
            let longest = match self.hides_version && self.restarts {
                true => longest + VERSION_IS_WAITED_FOR,
                false => longest,
            };
            // Passes are at most two seconds apart; that much is allowed.
            assert!(
                reported || waited < longest,
                "{id} died {waited} s ago and no exit was reported"
            );
        }
    }

    pub(super) async fn check_end(&self, node: &Node, trace: &Trace) {
        assert!(node.sim.max_outstanding_per_id() <= 1);
        let most = node.sim.max_outstanding();
        assert!(most <= MAX_OUTSTANDING, "{most} calls");
        let status = node.status().await;
        assert_eq!(status.health.state, HealthState::Healthy, "{status:?}");
        assert!(status.stuck.is_empty() && status.failing.is_empty());
        for (id, deaths) in &trace.deaths {
            assert_eq!(*deaths, 1, "deaths of {id} in\n{}", node.reported());
        }
        let world = node.sim.world().clone();
        let cached = node.pleg.cache().all();
        let names = cached.iter().map(|entry| entry.status.name.to_string());
        let there: Vec<String> = world.pods.keys().cloned().collect();
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, there);
        for entry in cached {
            assert_eq!(entry.error, None, "{}", entry.status.name);
            let pod = &world.pods[&*entry.status.name];
            let states = |id: &Id| {
                let mut containers = pod.containers.iter();
                containers.find(|it| it.id == *id).map(|it| it.state)
            };
            let (seen, there) = (entry.status.containers.len(), pod.containers.len());
            assert_eq!(seen, there, "of {pod:?}, {entry:?} in\n{}", node.reported());
            for container in &entry.status.containers {
                assert_eq!(
                    states(&container.id),
                    Some(container.state),
                    "{}",
                    container.id
                );
            }
            for container in &pod.containers {
                let died = trace.deaths.contains_key(&container.id);
                let ended = container.state == ContainerState::Exited;
                assert_eq!(died, ended, "{} {:?}", container.id, container.state);
            }
        }
        // A container that was reported as started and is removed was reported as dead.
        for id in &trace.started {
            let mut containers = world.pods.values().flat_map(|pod| &pod.containers);
            let runs = containers.any(|it| it.id == *id && it.state == ContainerState::Running);
            assert!(
                runs || trace.deaths.contains_key(id),
                "{id} is gone and no exit was reported"
            );
        }
    }
}
