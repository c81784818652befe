use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::grouping::Grouping;
use crate::model::listed::{ContainerState, ListedContainer, ListedSandbox, SandboxState};
use crate::model::status::PodStatus;
use crate::records::{Hint, Step, Ticket};

#[derive(Clone, Debug)]
enum Move {
    /// A container of a pod is listed in this state from now on, or not any more.
    List(u8, Option<ContainerState>),
    Relist,
    Plan,
    /// The oldest inspection ends, successfully or not.
    End(bool),
    Hint(u8),
    Reinspect(u8),
    /// The status of a single container is observed.
    Interval(u8, Option<ContainerState>),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let state = || {
        prop::option::of(prop::sample::select(vec![
            ContainerState::Running,
            ContainerState::Exited,
        ]))
    };
    let step = prop_oneof![
        4 => (0..12u8, state()).prop_map(|(pod, state)| Move::List(pod, state)),
        6 => Just(Move::Relist),
        4 => Just(Move::Plan),
        4 => any::<bool>().prop_map(Move::End),
        1 => (0..12u8).prop_map(Move::Hint),
        1 => (0..12u8).prop_map(Move::Reinspect),
        1 => (0..12u8, state()).prop_map(|(pod, state)| Move::Interval(pod, state)),
    ];
    prop::collection::vec(step, 0..80)
}

fn pod(number: u8) -> PodRef {
    PodRef {
        uid: format!("u{number}").into(),
        namespace: "n".into(),
        name: format!("p{number}").into(),
    }
}

fn row(number: u8, state: ContainerState) -> Arc<ListedContainer> {
    Arc::new(ListedContainer {
        id: format!("c{number}").into(),
        sandbox_id: "".into(),
        pod: Some(pod(number)),
        name: "c".into(),
        state,
        attempt: 0,
        created_at: None,
    })
}

/// Records with the inspections that they wanted, and the result of each.
#[derive(Default)]
struct Consumer {
    records: Records,
    inspections: Vec<(Ticket, Arc<ListedPod>)>,
    changes: Vec<String>,
}

impl Consumer {
    fn plan(&mut self, now: Instant) {
        for uid in self.records.unsettled() {
            match self.records.plan(&uid, now) {
                Step::Nothing => {}
                Step::Inspect { ticket, pod, .. } => self.inspections.push((ticket, pod)),
                Step::Removed(commit) => {
                    self.changes.push(format!("{uid}: {:?}", commit.changes));
                }
            }
        }
    }

    fn end(&mut self, well: bool, now: Instant) {
        if self.inspections.is_empty() {
            return;
        }
        let (ticket, pod) = self.inspections.remove(0);
        if !well {
            self.records.defer(&ticket);
            return;
        }
        self.records
            .inspected(&ticket, &PodStatus::from(&*pod), now, now);
        let commit = self.records.commit(&ticket);
        let changes = commit.map(|commit| commit.changes);
        self.changes.push(format!("{}: {changes:?}", ticket.uid));
    }

    fn known(&self) -> (Vec<PodUid>, Vec<&Arc<ListedPod>>, Vec<&Arc<ListedPod>>) {
        let Self { records, .. } = self;
        let (listed, committed) = (records.listed(), records.committed());
        (records.unsettled(), listed.collect(), committed.collect())
    }
}

/// Times and intervals, in milliseconds after the beginning.
struct Clock(Instant);

impl Clock {
    fn at(&self, millis: u64) -> Instant {
        self.0 + Duration::from_millis(millis)
    }

    fn interval(&self, begun: u64, ended: u64) -> Interval {
        Interval {
            begun: self.at(begun),
            ended: self.at(ended),
            source: Source::Sweep,
        }
    }
}

#[test]
fn a_container_requested_just_before_the_list_that_shows_its_pod_is_learned() {
    let clock = Clock(Instant::now());
    let sandbox = Arc::new(ListedSandbox {
        id: "s1".into(),
        pod: Some(pod(1)),
        state: SandboxState::Ready,
        attempt: 0,
        created_at: None,
    });
    let mut records = Records::default();
    records.observe_list(&[sandbox], clock.interval(1, 2));
    let container = ListedContainer::clone(&row(1, ContainerState::Exited));
    records.learn(&pod(1), container, clock.interval(0, 3));
    let uid = pod(1).uid;
    let listed = records.listed_as(&uid);
    assert!(listed.is_some_and(|listed| listed.names(&"c1".into())));
}

#[test]
fn the_number_of_remembered_gone_pods_is_bounded_while_only_one_list_is_applied() {
    let clock = Clock(Instant::now());
    let sandbox = |number: u64| {
        Arc::new(ListedSandbox {
            id: format!("s{number}").into(),
            pod: Some(PodRef {
                uid: format!("u{number}").into(),
                namespace: "n".into(),
                name: format!("p{number}").into(),
            }),
            state: SandboxState::Ready,
            attempt: 0,
            created_at: None,
        })
    };
    let mut consumer = Consumer::default();
    for number in 0..3000 {
        let interval = clock.interval(10 * number + 10, 10 * number + 11);
        consumer.records.observe_list(&[sandbox(number)], interval);
        consumer.plan(interval.ended);
        consumer.end(true, interval.ended);
    }
    assert!(
        consumer.records.gone.len() < 2000,
        "{}",
        consumer.records.gone.len()
    );
    // A list that was requested before most of the pods were removed, and that shows a new pod.
    let held_up = [sandbox(600), sandbox(2999), sandbox(9999)];
    consumer.changes.clear();
    consumer
        .records
        .observe_list(&held_up, clock.interval(5_000, 30_020));
    consumer.plan(clock.at(30_020));
    assert_eq!(
        consumer.records.listed().count(),
        1,
        "those that are gone stay gone"
    );
    consumer
        .records
        .observe_list(&held_up[1..], clock.interval(30_030, 30_031));
    assert_eq!(
        consumer.records.listed().count(),
        2,
        "what is new is in the next list"
    );
}

#[test]
fn an_observation_of_an_id_that_contradicts_an_overlapping_list_requests_an_inspection() {
    let clock = Clock(Instant::now());
    let exited = || ListedContainer::clone(&row(1, ContainerState::Exited));
    let by_id = |records: &mut Records| {
        let state = Some(ContainerState::Exited);
        let (uid, id) = (pod(1).uid, "c1".into());
        records.observe_one::<ListedContainer>(&uid, &id, state, clock.interval(5, 12));
    };
    let by_sandbox =
        |records: &mut Records| records.learn(&pod(1), exited(), clock.interval(5, 12));
    let ways: [&dyn Fn(&mut Records); 2] = [&by_id, &by_sandbox];
    for observe in ways {
        let mut consumer = Consumer::default();
        let running = row(1, ContainerState::Running);
        consumer
            .records
            .observe_list(&[running], clock.interval(0, 10));
        consumer.plan(clock.at(11));
        consumer.end(true, clock.at(11));
        assert_eq!(consumer.records.unsettled(), []);
        observe(&mut consumer.records);
        assert_eq!(consumer.records.unsettled(), [pod(1).uid]);
    }
}

#[test]
fn an_older_fact_of_a_container_does_not_undo_a_newer_one_of_its_sandbox() {
    let clock = Clock(Instant::now());
    let mut consumer = Consumer::default();
    let exited = ListedContainer::clone(&row(1, ContainerState::Exited));
    consumer
        .records
        .learn(&pod(1), exited, clock.interval(5, 6));
    consumer.plan(clock.at(7));
    consumer.end(true, clock.at(7));

    let (uid, id) = (pod(1).uid, "c1".into());
    let runs = Some(ContainerState::Running);
    let interval = clock.interval(1, 9);
    consumer
        .records
        .observe_one::<ListedContainer>(&uid, &id, runs, interval);
    let listed = consumer.records.listed_as(&uid).expect("it was reported");
    assert_eq!(listed.containers[0].state, ContainerState::Exited);
    assert_eq!(
        consumer.records.unsettled(),
        [uid],
        "an inspection decides between the two"
    );
}

#[test]
fn a_container_that_an_overlapping_list_does_not_show_requests_an_inspection() {
    let clock = Clock(Instant::now());
    let mut consumer = Consumer::default();
    let running = row(1, ContainerState::Running);
    consumer
        .records
        .observe_list(&[running], clock.interval(0, 10));
    consumer.plan(clock.at(11));
    consumer.end(true, clock.at(11));
    let other = ListedContainer {
        id: "c2".into(),
        ..ListedContainer::clone(&row(1, ContainerState::Created))
    };
    consumer
        .records
        .learn(&pod(1), other, clock.interval(5, 12));
    assert_eq!(consumer.records.unsettled(), [pod(1).uid]);
}

#[test]
fn a_delayed_list_does_not_bring_back_an_exited_container() {
    let clock = Clock(Instant::now());
    let sandbox = || {
        Arc::new(ListedSandbox {
            id: "s1".into(),
            pod: Some(pod(1)),
            state: SandboxState::Ready,
            attempt: 0,
            created_at: None,
        })
    };
    let running = || [row(1, ContainerState::Running)];
    let mut consumer = Consumer::default();
    consumer
        .records
        .observe_list(&running(), clock.interval(0, 1));
    consumer.plan(clock.at(1));
    consumer.end(true, clock.at(1));

    consumer.records.request_reinspect(&pod(1).uid);
    consumer.plan(clock.at(10));
    let (ticket, listed) = consumer.inspections.remove(0);
    let mut exited = ListedPod::clone(&listed);
    exited.containers = vec![row(1, ContainerState::Exited)];
    let status = PodStatus::from(&exited);
    consumer
        .records
        .inspected(&ticket, &status, clock.at(10), clock.at(11));
    consumer.records.commit(&ticket);
    // A list of other ids, and a list that was requested before the inspection ended.
    consumer
        .records
        .observe_list(&[sandbox()], clock.interval(2, 20));
    consumer
        .records
        .observe_list(&running(), clock.interval(2, 30));
    let listed = consumer.records.listed_as(&pod(1).uid).unwrap();
    assert_eq!(listed.containers[0].state, ContainerState::Exited);
}

#[test]
fn a_container_that_an_inspection_did_not_find_is_not_added_again_by_an_overlapping_list() {
    let clock = Clock(Instant::now());
    let uid = pod(1).uid;
    let mut other = ListedContainer::clone(&row(1, ContainerState::Running));
    other.id = "other".into();
    let both = [row(1, ContainerState::Running), Arc::new(other)];
    let mut records = Records::default();
    records.observe_list(&both, clock.interval(0, 1));
    let mut consumer = Consumer {
        records,
        ..Consumer::default()
    };
    consumer.plan(clock.at(1));
    consumer.end(true, clock.at(2));
    let hint = Hint {
        removed: vec!["c1".into()],
        ..Hint::of_kernel(clock.at(3))
    };
    consumer.records.hint(&pod(1), hint);
    consumer.plan(clock.at(3));
    let (ticket, version) = consumer.inspections.remove(0);
    let mut found = PodStatus::from(&*version);
    found
        .containers
        .retain(|container| container.id.as_str() == "other");
    consumer
        .records
        .inspected(&ticket, &found, clock.at(3), clock.at(5));
    consumer.records.commit(&ticket).unwrap();
    assert!(!consumer.records.is_listed(&uid, &"c1".into()));
    consumer.records.observe_list(&both, clock.interval(4, 6));
    assert!(!consumer.records.is_listed(&uid, &"c1".into()));
}

#[test]
fn a_container_that_was_not_found_is_not_learned_again_from_an_overlapping_status() {
    let clock = Clock(Instant::now());
    let (uid, id) = (pod(1).uid, Id::from("c1"));
    let container = row(1, ContainerState::Running);
    let mut other = ListedContainer::clone(&container);
    other.id = "other".into();
    let mut records = Records::default();
    records.observe_list(&[container.clone(), other.into()], clock.interval(0, 1));
    records.observe_one::<ListedContainer>(&uid, &id, None, clock.interval(2, 4));
    records.learn(
        &pod(1),
        ListedContainer::clone(&container),
        clock.interval(3, 5),
    );
    assert!(!records.is_listed(&uid, &id));
}

#[test]
fn a_pod_that_is_inspected_again_after_unchanged_lists_is_known_as_of_them() {
    let clock = Clock(Instant::now());
    let snapshot = Snapshot::new(clock.at(0), &[], &[row(1, ContainerState::Running)]);
    let mut consumer = Consumer::default();
    consumer
        .records
        .observe(&snapshot, clock.at(1), Source::Relist);
    consumer.plan(clock.at(1));
    consumer.end(false, clock.at(2));
    let later = Snapshot {
        taken: clock.at(10),
        ..snapshot
    };
    consumer
        .records
        .observe(&later, clock.at(11), Source::Relist);
    let Step::Inspect { begun, .. } = consumer.records.plan(&pod(1).uid, clock.at(12)) else {
        panic!("the failed inspection is repeated");
    };
    assert_eq!(begun, clock.at(10));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_unchanged_snapshot_says_the_same_as_a_new_one(moves in moves()) {
        let mut now = Instant::now();
        let mut rows: Vec<_> = (0..12).map(|pod| row(pod, ContainerState::Running)).collect();
        let mut grouping = Grouping::new(now, Arc::new([]), Arc::new([]));
        let (mut same, mut new) = (Consumer::default(), Consumer::default());
        for what in moves {
            now += Duration::from_millis(1);
            for consumer in [&mut same, &mut new] {
                match &what {
                    Move::List(..) | Move::Relist => {}
                    Move::Plan => consumer.plan(now),
                    Move::End(well) => consumer.end(*well, now),
                    Move::Hint(number) => {
                        let hint = Hint {
                            source: Source::Stream,
                            at: now,
                            announced: None,
                            named: Vec::new(),
                            removed: Vec::new(),
                        };
                        consumer.records.hint(&pod(*number), hint);
                    }
                    Move::Reinspect(number) => {
                        consumer.records.request_reinspect(&pod(*number).uid);
                    }
                    Move::Interval(number, state) => {
                        let (begun, ended) = (now, now);
                        let interval = Interval { begun, ended, source: Source::Sweep };
                        let (uid, id) = (pod(*number).uid, format!("c{number}").into());
                        consumer.records.observe_one::<ListedContainer>(&uid, &id, *state, interval);
                    }
                }
            }
            match what {
                Move::List(number, state) => {
                    let id: Id = format!("c{number}").into();
                    rows.retain(|row| row.id != id);
                    rows.extend(state.map(|state| row(number, state)));
                }
                Move::Relist => {
                    let lists = (Arc::new([]) as Arc<[_]>, rows.clone().into());
                    let snapshot = grouping.update(now, &lists.0, &lists.1);
                    same.records.observe(&snapshot, now, Source::Relist);
                    let snapshot = Snapshot::new(now, &[], &rows);
                    new.records.observe(&snapshot, now, Source::Relist);
                }
                _ => {}
            }
            prop_assert_eq!(same.known(), new.known());
            prop_assert_eq!(&same.changes, &new.changes);
        }
    }
}
