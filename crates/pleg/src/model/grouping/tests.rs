use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

use crate::model::id::{Id, PodRef};
use crate::model::listed::{ContainerState, SandboxState};
use crate::model::wall_time::WallTime;

/// Sandboxes, containers, and their changes from one pair of lists to the next.
type Listings = (Vec<Row>, Vec<Row>, Vec<Vec<(bool, Move)>>);

/// What happens to a row of a list.
#[derive(Clone, Debug)]
enum Move {
    Add(Index, Row),
    /// The row is decoded again, with the same values.
    Renew(Index),
    Replace(Index, Row),
    Remove(Index),
    Swap(Index, Index),
    /// The row is listed twice.
    Repeat(Index),
}

/// A row of either list, with few ids, pods and states, so that they collide.
#[derive(Clone, Debug)]
struct Row {
    id: u8,
    sandbox: u8,
    pod: Option<(u8, u8)>,
    state: bool,
    age: u8,
}

fn pod_ref((uid, name): (u8, u8)) -> PodRef {
    PodRef {
        uid: format!("u{uid}").into(),
        namespace: "n".into(),
        name: format!("p{name}").into(),
    }
}

fn id(kind: &str, number: u8) -> Id {
    match number {
        0 => "".into(),
        number => format!("{kind}{number}").into(),
    }
}

impl Row {
    fn sandbox(&self) -> ListedSandbox {
        ListedSandbox {
            id: id("s", self.id),
            pod: self.pod.map(pod_ref),
            state: match self.state {
                true => SandboxState::Ready,
                false => SandboxState::NotReady,
            },
            attempt: 0,
            created_at: WallTime::from_unix_nanos(self.age.into()),
        }
    }

    fn container(&self) -> ListedContainer {
        ListedContainer {
            id: id("c", self.id),
            sandbox_id: id("s", self.sandbox),
            pod: self.pod.map(pod_ref),
            name: "c".into(),
            state: match self.state {
                true => ContainerState::Running,
                false => ContainerState::Exited,
            },
            attempt: 0,
            created_at: WallTime::from_unix_nanos(self.age.into()),
        }
    }
}

/// Rows like real ones: each id is listed once, and belongs to the pod in its labels.
fn plain_row() -> BoxedStrategy<Row> {
    let row = (1..40u8, any::<bool>(), 1..3u8).prop_map(|(id, state, age)| Row {
        id,
        sandbox: id % 8 + 1,
        pod: Some((id % 8, id % 8)),
        state,
        age,
    });
    row.boxed()
}

/// Rows with arbitrary values.
fn any_row() -> BoxedStrategy<Row> {
    let pod = prop::option::weighted(0.9, (0..4u8, 0..2u8));
    let row = (0..30u8, 0..9u8, pod, any::<bool>(), 1..3u8);
    let row = row.prop_map(|(id, sandbox, pod, state, age)| Row {
        id,
        sandbox,
        pod,
        state,
        age,
    });
    row.boxed()
}

fn moves(row: BoxedStrategy<Row>) -> impl Strategy<Value = Move> {
    let index = any::<Index>;
    prop_oneof![
        4 => (index(), row.clone()).prop_map(|(at, row)| Move::Add(at, row)),
        2 => index().prop_map(Move::Renew),
        4 => (index(), row).prop_map(|(at, row)| Move::Replace(at, row)),
        3 => index().prop_map(Move::Remove),
        1 => (index(), index()).prop_map(|(a, b)| Move::Swap(a, b)),
        1 => index().prop_map(Move::Repeat),
    ]
}

/// Lists, each derived from the previous one by a few moves.
fn lists(row: BoxedStrategy<Row>) -> impl Strategy<Value = Listings> {
    let list = || prop::collection::vec(row.clone(), 0..30);
    let some = prop::collection::vec((any::<bool>(), moves(row.clone())), 0..4);
    (list(), list(), prop::collection::vec(some, 1..12))
}

fn perform<T>(rows: &mut Vec<Arc<T>>, what: Move, make: fn(&Row) -> T, copy: fn(&T) -> T) {
    let length = rows.len();
    match what {
        Move::Add(at, row) => rows.insert(at.index(length + 1), make(&row).into()),
        _ if length == 0 => {}
        Move::Renew(at) => {
            let at = at.index(length);
            rows[at] = copy(&rows[at]).into();
        }
        Move::Replace(at, row) => rows[at.index(length)] = make(&row).into(),
        Move::Remove(at) => drop(rows.remove(at.index(length))),
        Move::Swap(a, b) => rows.swap(a.index(length), b.index(length)),
        Move::Repeat(at) => rows.push(rows[at.index(length)].clone()),
    }
}

fn without_repeats<T>(rows: &mut Vec<Arc<T>>, id: fn(&T) -> &Id) {
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(id(row).clone()));
}

/// Checks that each update equals the grouping of all rows, and that unchanged pods are not copied.
fn check((sandboxes, containers, steps): Listings, plain: bool) -> Result<(), TestCaseError> {
    let now = Instant::now();
    let mut sandboxes: Vec<_> = sandboxes.iter().map(|row| row.sandbox().into()).collect();
    let mut containers: Vec<_> = containers
        .iter()
        .map(|row| row.container().into())
        .collect();
    let mut grouping = Grouping::new(now, Arc::new([]), Arc::new([]));
    let mut last = grouping.snapshot().clone();
    for step in std::iter::once(Vec::new()).chain(steps) {
        for (of_sandboxes, what) in step {
            match of_sandboxes {
                true => perform(&mut sandboxes, what, Row::sandbox, Clone::clone),
                false => perform(&mut containers, what, Row::container, Clone::clone),
            }
        }
        if plain {
            without_repeats(&mut sandboxes, |row| &row.id);
            without_repeats(&mut containers, |row| &row.id);
        }
        let lists = (sandboxes.clone().into(), containers.clone().into());
        let updated = grouping.update(now, &lists.0, &lists.1);
        let whole = Snapshot::new(now, &sandboxes, &containers);
        prop_assert_eq!(&updated.pods, &whole.pods);
        prop_assert_eq!(updated.counts, whole.counts);
        prop_assert_eq!(updated.orphaned, whole.orphaned);
        for (uid, pod) in &*updated.pods {
            let known = last.pods.get(uid).filter(|known| *known == pod);
            prop_assert!(
                known.is_none_or(|known| Arc::ptr_eq(known, pod)),
                "{uid} was copied"
            );
        }
        last = updated;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_next_lists_are_grouped_like_the_first_ones(lists in lists(any_row())) {
        check(lists, false)?;
    }

    #[test]
    fn the_next_lists_of_a_plain_node_are_grouped_like_the_first_ones(lists in lists(plain_row())) {
        check(lists, true)?;
    }
}
