//! The past states of the world, and what was reported about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pleg::model::event::EventType;
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::model::status::PodStatus;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use sim::Sim;
use tokio::time::Instant;

use super::node::Node;
use super::{FAILS_FOR_A_MOMENT, TICK};

/// The past states of the pods.
#[derive(Default)]
pub struct Past {
    states: Vec<(Instant, BTreeMap<String, Pod>)>,
    /// The containers that were cached as Exited.
    dead: BTreeSet<Id>,
}

/// The ids in a pod, each with its state; empty for a pod that does not exist.
type Pod = BTreeMap<Id, String>;

fn as_cached(status: &PodStatus) -> Pod {
    let sandboxes = status.sandboxes.iter();
    let sandboxes = sandboxes.map(|it| (it.id.clone(), format!("{:?}", it.state)));
    let containers = status.containers.iter();
    let containers = containers.map(|it| (it.id.clone(), format!("{:?}", it.state)));
    sandboxes.chain(containers).collect()
}

/// How many pods are yet to be inspected, according to the message.
fn yet_to_be_inspected(message: &str) -> usize {
    let split = message.split_once(" yet to be inspected");
    split.map_or(0, |(before, _)| {
        let number = before.rsplit(' ').nth(2);
        let number = number.expect("it reads `2 pods have` or `1 pod has`");
        number.parse().expect("that begins with a number")
    })
}

impl Past {
    pub fn note(&mut self, sim: &Sim) {
        let world = sim.world();
        let pods = world.pods.iter().map(|(name, pod)| {
            let sandboxes = pod.sandboxes.iter();
            let sandboxes = sandboxes.map(|it| (it.id.clone(), format!("{:?}", it.state)));
            let containers = pod.containers.iter();
            let containers = containers.map(|it| (it.id.clone(), format!("{:?}", it.state)));
            (name.clone(), sandboxes.chain(containers).collect())
        });
        self.states.push((Instant::now(), pods.collect()));
    }

    /// The states of a pod since `time`.
    fn since(&self, time: Instant, name: &str) -> Vec<Pod> {
        let then = self.states.iter().rposition(|(since, _)| *since <= time);
        let states = &self.states[then.unwrap_or_default()..];
        let pod = |(_, pods): &(_, BTreeMap<String, Pod>)| pods.get(name).cloned();
        states
            .iter()
            .map(|at| pod(at).unwrap_or_default())
            .collect()
    }

    /// Checks that no container that was cached as Exited runs again.
    pub fn check_the_dead(&mut self, node: &Node) {
        let seen = node.pleg.cache().all().into_iter();
        for entry in seen.filter(|entry| entry.as_of.is_some()) {
            for container in &entry.status.containers {
                match container.state {
                    ContainerState::Exited => {
                        self.dead.insert(container.id.clone());
                    }
                    ContainerState::Running => assert!(
                        !self.dead.contains(&container.id),
                        "{} was cached as Exited, and runs again",
                        container.id
                    ),
                    ContainerState::Created | ContainerState::Unknown => {}
                }
            }
        }
    }

    /// Checks that each entry shows a state that the pod has had at its `as of` time or later, and that
    /// every pod is known that existed when the node was last seen. New pods and containers may be
    /// missing if that is reported, and as many pods as are yet to be inspected.
    pub fn check_times(&self, node: &Node, report: &StatusReport) {
        let ago = |time: Instant| time.checked_sub(TICK).unwrap_or(time);
        let cached = node.pleg.cache().all().into_iter();
        let cached: BTreeMap<_, _> = cached
            .map(|entry| (entry.status.name.to_string(), entry))
            .collect();
        for (name, entry) in &cached {
            let Some(as_of) = entry.as_of else { continue };
            let pod = as_cached(&entry.status);
            let was = self.since(ago(as_of.instant), name);
            let mut ids: BTreeSet<&Id> = was.iter().flat_map(BTreeMap::keys).collect();
            ids.extend(pod.keys());
            for id in ids {
                let may_be_new = !pod.contains_key(id) && !report.blind.is_empty();
                let was_so = was.iter().any(|was| was.get(id) == pod.get(id));
                assert!(
                    may_be_new || was_so,
                    "as of {:?} ago, {id} is cached as {:?} with {:?}, while the pod was {was:?}; \
                     cached {pod:?}, complete as of {:?}; {:?}",
                    as_of.instant.elapsed(),
                    pod.get(id),
                    entry.error,
                    entry.complete_as_of.map(|time| time.elapsed()),
                    report.health,
                );
            }
        }
        let Some(seen) = report.health.last_seen else {
            return;
        };
        let seen = ago(Instant::now() - node.sim.now().since(seen));
        let now = self.states.last().into_iter().flat_map(|(_, pods)| pods);
        let missing = now.map(|(name, _)| name).filter(|name| {
            let was = self.since(seen, name);
            let was_there = was.iter().all(|pod| !pod.is_empty());
            let stuck = report.stuck.iter().filter_map(|call| call.pod.as_ref());
            let failing = report.failing.iter().filter_map(|call| call.pod.as_ref());
            let named = stuck.chain(failing).any(|pod| *pod.name == **name);
            was_there && !named && !cached.contains_key(*name)
        });
        let missing: Vec<_> = missing.collect();
        assert!(
            missing.len() <= yet_to_be_inspected(&report.health.message)
                || !report.blind.is_empty(),
            "last seen {:?} ago, and {missing:?} are not known: {:?}",
            seen.elapsed(),
            report.health
        );
    }

    /// Checks that each pod is cached in a state that it has had since the node was last seen, or fails
    /// for a moment. As many pods as are yet to be inspected are exempt.
    pub fn check(&self, node: &Node, report: &StatusReport) {
        let seen = report.health.last_seen.expect("a healthy node was seen");
        let now = Instant::now();
        let ago = |time: Duration| now.checked_sub(time + TICK).unwrap_or(now);
        let seen = ago(node.sim.now().since(seen));
        let cached = node.pleg.cache().all().into_iter();
        let mut cached: BTreeMap<_, _> = cached
            .map(|entry| (entry.status.name.to_string(), entry))
            .collect();
        let now = self.states.last().into_iter().flat_map(|(_, pods)| pods);
        let mut names: BTreeSet<String> = now.map(|(name, _)| name.clone()).collect();
        names.extend(cached.keys().cloned());
        let mut wrong = Vec::new();
        for name in names {
            let entry = cached.remove(&name);
            let (status, error) = match &entry {
                Some(entry) => (Some(&entry.status), entry.error.as_ref()),
                None => (None, None),
            };
            let pod = status.map(|it| as_cached(it)).unwrap_or_default();
            let since = match error {
                None => seen,
                Some(_) => seen.min(ago(FAILS_FOR_A_MOMENT)),
            };
            let was = self.since(since, &name);
            let mut ids: BTreeSet<&Id> = was.iter().flat_map(BTreeMap::keys).collect();
            ids.extend(pod.keys());
            // A pod whose calls have failed for less than ten seconds is listed, and the node may
            // still be Healthy.
            let listed = report.failing.iter().filter_map(|it| it.pod.as_ref());
            if listed.into_iter().any(|pod| *pod.name == *name) {
                continue;
            }
            // Each pod alone: a hint is about known ids, and a list shows what is new.
            let is_wrong = |id: &&Id| !was.iter().any(|was| was.get(*id) == pod.get(*id));
            if let Some(id) = ids.into_iter().find(is_wrong) {
                wrong.push(format!(
                    "{id} is cached as {:?} with {error:?}, while the pod was {was:?}",
                    pod.get(id)
                ));
            }
        }
        assert!(
            wrong.len() <= yet_to_be_inspected(&report.health.message),
            "{}, last seen {:?} ago: {wrong:#?}; failing: {:?}",
            report.health.message,
            seen.elapsed(),
            report.failing,
        );
    }
}

/// Which containers were reported as started, and how often each was reported as dead.
#[derive(Default)]
pub struct Trace {
    pub started: Vec<Id>,
    pub deaths: BTreeMap<Id, usize>,
}

impl Trace {
    pub fn add(&mut self, record: &Record) {
        let Record::Event(event) = record else {
            return;
        };
        let (Some(id), Some(_)) = (&event.id, &event.container) else {
            return;
        };
        match event.event_type {
            EventType::ContainerStarted => self.started.push(id.clone()),
            EventType::ContainerDied => *self.deaths.entry(id.clone()).or_default() += 1,
            EventType::ContainerRemoved | EventType::PodSync => {}
        }
    }
}
