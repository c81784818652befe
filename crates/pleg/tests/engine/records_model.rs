//! Records against a naive model: in whatever order containers are listed, fail and vanish, the
//! reported changes of an id lead step by step to its present state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pleg::model::event::Source;
use pleg::model::id::{Id, PodRef, PodUid};
use pleg::model::listed::{ContainerState, ListedContainer};
use pleg::model::snapshot::Snapshot;
use pleg::model::status::{ContainerStatus, PodStatus};
use pleg::records::diff::{Happening, State, happenings};
use pleg::records::{Commit, Hint, NamedId, Records, Step, Ticket};
use proptest::prelude::*;
use tokio::time::Instant;

/// The states of each pod's containers. A pod that is not in the map does not exist.
type World = BTreeMap<u8, BTreeMap<u8, ContainerState>>;

#[derive(Clone, Debug)]
enum Move {
    /// The runtime lists this.
    List(World),
    /// The runtime lists the same as before.
    ListAgain,
    /// Inspections of the pods that differ begin.
    Plan,
    /// The oldest inspection succeeds or fails.
    End { well: bool },
    /// A caller requests an inspection of a pod.
    Reinspect(u8),
    /// The runtime's state changes to this, and no list shows the change.
    Change(World),
    /// A hint about a pod, known or not, and about one of its containers arrives.
    Hint(u8, u8),
}

fn any_world() -> impl Strategy<Value = World> {
    let state = prop::sample::select(vec![
        ContainerState::Created,
        ContainerState::Running,
        ContainerState::Exited,
    ]);
    let pod = prop::collection::btree_map(0..3u8, state, 0..4);
    prop::collection::btree_map(0..3u8, pod, 0..4)
}

fn any_steps() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        3 => any_world().prop_map(Move::List),
        1 => Just(Move::ListAgain),
        4 => Just(Move::Plan),
        4 => any::<bool>().prop_map(|well| Move::End { well }),
        1 => (0..3u8).prop_map(Move::Reinspect),
        2 => any_world().prop_map(Move::Change),
        3 => (0..3u8, 0..3u8).prop_map(|(pod, container)| Move::Hint(pod, container)),
    ];
    prop::collection::vec(step, 0..60)
}

fn snapshot(world: &World, taken: Instant) -> Snapshot {
    let container = |pod: u8, name: u8, state| {
        Arc::new(ListedContainer {
            id: format!("{pod}/{name}").into(),
            sandbox_id: "".into(),
            pod: Some(PodRef {
                uid: uid(pod),
                namespace: "n".into(),
                name: "p".into(),
            }),
            name: "c".into(),
            state,
            attempt: 0,
            created_at: None,
        })
    };
    let rows: Vec<_> = world
        .iter()
        .flat_map(|(&pod, containers)| {
            let row = move |(&name, &state)| container(pod, name, state);
            containers.iter().map(row)
        })
        .collect();
    Snapshot::new(taken, &[], &rows)
}

fn uid(pod: u8) -> PodUid {
    format!("{pod}").into()
}

/// What a consumer concludes about each id from what was reported.
#[derive(Default)]
struct Consumer {
    running: BTreeMap<Id, bool>,
}

impl Consumer {
    fn apply(&mut self, commit: &Commit) {
        for change in &commit.changes {
            let running = self.running.get(&change.id).copied();
            match change.happening {
                Happening::Started => {
                    assert_ne!(running, Some(true), "{:?} started twice", change.id);
                    self.running.insert(change.id.clone(), true);
                }
                // A container that ran and whose state is unclear now no longer runs. That causes no
                // event.
                Happening::Died | Happening::Changed => {
                    self.running.insert(change.id.clone(), false);
                }
                Happening::Removed => {
                    assert_ne!(running, Some(true), "{:?} removed alive", change.id);
                    self.running.remove(&change.id);
                }
            }
        }
    }
}

struct Run {
    records: Records,
    now: Instant,
    world: World,
    last: Option<Snapshot>,
    inspections: Vec<Ticket>,
    reported: Consumer,
    exited: BTreeSet<(u8, u8)>,
}

impl Run {
    fn new() -> Self {
        Self {
            records: Records::default(),
            now: Instant::now(),
            world: World::new(),
            last: None,
            inspections: Vec::new(),
            reported: Consumer::default(),
            exited: BTreeSet::new(),
        }
    }

    /// The world as CRI has it: what has exited does not run again, and no id is used twice.
    fn lived(&mut self, mut world: World) -> World {
        for (pod, containers) in &mut world {
            for (container, state) in containers {
                let key = (*pod, *container);
                if *state == ContainerState::Exited {
                    self.exited.insert(key);
                } else if self.exited.contains(&key) {
                    *state = ContainerState::Exited;
                }
            }
        }
        world
    }

    fn list(&mut self, world: World) {
        let world = self.lived(world);
        self.now += Duration::from_secs(1);
        let snapshot = snapshot(&world, self.now);
        self.records.observe(&snapshot, self.now, Source::Relist);
        (self.world, self.last) = (world, Some(snapshot));
    }

    fn list_again(&mut self) {
        self.now += Duration::from_secs(1);
        if let Some(last) = &mut self.last {
            last.taken = self.now;
            self.records.observe(last, self.now, Source::Relist);
        }
    }

    fn plan(&mut self) {
        for uid in self.records.unsettled() {
            match self.records.plan(&uid, self.now) {
                Step::Nothing => {}
                Step::Inspect { ticket, .. } => self.inspections.push(ticket),
                Step::Removed(commit) => self.reported.apply(&commit),
            }
        }
    }

    fn end(&mut self, well: bool) {
        if self.inspections.is_empty() {
            return;
        }
        let ticket = self.inspections.remove(0);
        let begun = self.now;
        self.now += Duration::from_millis(1);
        let found = self.status(&ticket.uid);
        if !well {
            self.records.defer(&ticket);
            return;
        }
        self.records.inspected(&ticket, &found, begun, self.now);
        if let Some(commit) = self.records.commit(&ticket) {
            self.reported.apply(&commit);
        }
    }

    /// The result of an inspection now.
    fn status(&self, uid: &PodUid) -> PodStatus {
        let mut found = PodStatus::unknown(uid.clone());
        let pods = self.world.iter();
        for (pod, containers) in pods.filter(|(pod, _)| self::uid(**pod) == *uid) {
            let containers = containers.iter().map(|(name, state)| ContainerStatus {
                state: *state,
                ..ContainerStatus::unknown(format!("{pod}/{name}").into(), "c".into())
            });
            found.containers.extend(containers);
        }
        found
    }

    fn hint(&mut self, pod: u8, container: u8) {
        let hint = Hint {
            source: Source::Stream,
            at: self.now,
            announced: None,
            named: vec![NamedId::Container {
                id: format!("{pod}/{container}").into(),
                sandbox: "".into(),
            }],
            removed: Vec::new(),
        };
        let pod = PodRef {
            uid: uid(pod),
            namespace: "n".into(),
            name: "p".into(),
        };
        self.records.hint(&pod, hint);
    }

    /// Inspects until nothing differs, without further changes and failures.
    fn settle(&mut self) {
        while !(self.inspections.is_empty() && self.records.unsettled().is_empty()) {
            self.plan();
            while !self.inspections.is_empty() {
                self.end(true);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_reported_events_lead_to_the_present_state(steps in any_steps()) {
        let mut run = Run::new();
        for step in steps {
            match step {
                Move::List(world) => run.list(world),
                Move::ListAgain => run.list_again(),
                Move::Plan => run.plan(),
                Move::End { well } => run.end(well),
                Move::Reinspect(pod) => run.records.request_reinspect(&uid(pod)),
                Move::Change(world) => {
                    (run.world, run.last) = (run.lived(world), None);
                }
                Move::Hint(pod, container) => run.hint(pod, container),
            }
        }
        run.list(run.world.clone());
        run.settle();
        let running = run.world.iter().flat_map(|(pod, containers)| {
            let running = containers.iter().filter(|(_, state)| **state == ContainerState::Running);
            running.map(move |(name, _)| Id::from(format!("{pod}/{name}")))
        });
        let reported = run.reported.running.iter().filter(|(_, running)| **running);
        let reported: Vec<Id> = reported.map(|(id, _)| id.clone()).collect();
        prop_assert_eq!(running.collect::<Vec<_>>(), reported);
        prop_assert!(run.records.inspecting().is_empty());
        let listed: Vec<_> = run.records.listed().cloned().collect();
        let committed: Vec<_> = run.records.committed().cloned().collect();
        prop_assert_eq!(listed, committed);
    }
}

#[test]
fn a_void_ticket_does_nothing() {
    let mut run = Run::new();
    let pod = World::from([(0, BTreeMap::from([(0, ContainerState::Running)]))]);
    run.list(pod.clone());
    run.plan();
    run.list(World::new());
    run.plan();
    run.list(pod);
    let void = run.inspections[0].clone();
    assert!(run.records.commit(&void).is_none());
    assert_eq!(run.records.defer(&void), None);
    assert_eq!(happenings(State::Gone, State::Gone), &[]);
}

#[test]
fn an_older_observation_does_not_override_a_newer_one() {
    let mut run = Run::new();
    let world = |state| World::from([(0, BTreeMap::from([(0, state)]))]);
    let older = snapshot(&world(ContainerState::Running), run.now);
    run.list(world(ContainerState::Exited));
    run.settle();
    run.records.observe(&older, run.now, Source::Relist);
    assert!(run.records.unsettled().is_empty());
}
