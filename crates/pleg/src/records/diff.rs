//! From two listings of a pod to what happened in between: the kubelet's table.
//!
//! ```text
//!   old \ new      running   exited   unknown   gone
//!   gone           Started   Died     Changed   -
//!   running        -         Died     Changed   Died, Removed
//!   exited         Started   -        Changed   Removed
//!   unknown        Started   Died     -         Died, Removed
//! ```
//!
//! Created counts as unknown. The table applies to sandboxes and containers alike. A row that differs in
//! anything but its state is also `Changed`, where a kubelet would keep the old row. `Changed` is never
//! reported; it only causes an inspection.
//! Source: `generateEvents` of `pkg/kubelet/pleg/generic.go`, Kubernetes 1.36.
//!
//! ```
//! use pleg::records::diff::{Happening, State, happenings};
//!
//! assert_eq!(happenings(State::Gone, State::Running), [Happening::Started]);
//! assert_eq!(
//!     happenings(State::Running, State::Gone),
//!     [Happening::Died, Happening::Removed]
//! );
//! ```

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::model::id::Id;
use crate::model::listed::{
    ContainerState, ListedContainer, ListedPod, ListedSandbox, SandboxState,
};

/// A state in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The container runs, or the sandbox is ready.
    Running,
    /// The container has exited, or the sandbox is not ready.
    Exited,
    /// Created, or unknown to the runtime.
    Unknown,
    /// The container or sandbox is not listed.
    Gone,
}

/// What happened to a container or sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Happening {
    /// The container runs now, or the sandbox is ready.
    Started,
    /// The container has exited, or the sandbox is no longer ready.
    Died,
    /// The runtime does not list the container or sandbox any more.
    Removed,
    /// Something changed that causes an inspection but no event.
    Changed,
}

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Subject {
    /// A container.
    Container,
    /// A sandbox.
    Sandbox,
}

/// One thing that happened between two listings of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub happening: Happening,
    /// The container or sandbox.
    pub id: Id,
    /// Whether `id` names a container or a sandbox.
    pub subject: Subject,
}

/// The table: what happened to a container or sandbox between `old` and `new`.
pub fn happenings(old: State, new: State) -> &'static [Happening] {
    use Happening::{Changed, Died, Removed, Started};
    match (old, new) {
        (State::Running, State::Running)
        | (State::Exited, State::Exited)
        | (State::Unknown, State::Unknown)
        | (State::Gone, State::Gone) => &[],
        (_, State::Running) => &[Started],
        (_, State::Exited) => &[Died],
        (_, State::Unknown) => &[Changed],
        (State::Exited, State::Gone) => &[Removed],
        (State::Running | State::Unknown, State::Gone) => &[Died, Removed],
    }
}

/// What happened between two listings of one pod; `None` is a pod that is not listed.
///
/// In the kubelet's order: the old listing's containers, then its sandboxes, then what
/// only the new listing has; `Died` before `Removed`.
pub fn diff(old: Option<&ListedPod>, new: Option<&ListedPod>) -> Vec<Change> {
    // On a quiet node this is called for every pod each second. Equal rows are shared with the last
    // listing, so this is a comparison of pointers.
    if old == new {
        return Vec::new();
    }
    let (before, after) = (rows(old), rows(new));
    let state = |row: Option<&ListedRow<'_>>| row.map_or(State::Gone, ListedRow::state);
    let mut seen = HashSet::with_capacity(before.len() + after.len());
    let mut changes = Vec::new();
    for row in entries(old).chain(entries(new)) {
        let (id, subject) = (row.id(), row.subject());
        if seen.insert(id) {
            let (before, after) = (before.get(id), after.get(id));
            let happenings = match happenings(state(before), state(after)) {
                [] if before != after => &[Happening::Changed],
                happenings => happenings,
            };
            changes.extend(happenings.iter().map(|&happening| Change {
                happening,
                id: id.clone(),
                subject,
            }));
        }
    }
    changes
}

/// A row of either list.
#[derive(PartialEq)]
enum ListedRow<'a> {
    Container(&'a ListedContainer),
    Sandbox(&'a ListedSandbox),
}

impl<'a> ListedRow<'a> {
    fn id(&self) -> &'a Id {
        match self {
            Self::Container(row) => &row.id,
            Self::Sandbox(row) => &row.id,
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Container(_) => Subject::Container,
            Self::Sandbox(_) => Subject::Sandbox,
        }
    }

    fn state(&self) -> State {
        match self {
            Self::Container(row) => row.state.into(),
            Self::Sandbox(row) => row.state.into(),
        }
    }
}

/// Containers first, then sandboxes: the kubelet's order.
fn entries(pod: Option<&ListedPod>) -> impl Iterator<Item = ListedRow<'_>> {
    pod.into_iter().flat_map(|pod| {
        let containers = pod.containers.iter();
        let sandboxes = pod.sandboxes.iter();
        containers
            .map(|row| ListedRow::Container(row))
            .chain(sandboxes.map(|row| ListedRow::Sandbox(row)))
    })
}

/// The rows by id. If an id names a container and a sandbox, the container's row counts.
fn rows(pod: Option<&ListedPod>) -> HashMap<&Id, ListedRow<'_>> {
    let mut rows = HashMap::new();
    for row in entries(pod) {
        rows.entry(row.id()).or_insert(row);
    }
    rows
}

impl From<ContainerState> for State {
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Running => Self::Running,
            ContainerState::Exited => Self::Exited,
            ContainerState::Created | ContainerState::Unknown => Self::Unknown,
        }
    }
}

impl From<SandboxState> for State {
    fn from(state: SandboxState) -> Self {
        match state {
            SandboxState::Ready => Self::Running,
            SandboxState::NotReady => Self::Exited,
            SandboxState::Unknown => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::model::id::PodRef;
    use crate::model::listed::{ListedContainer, ListedSandbox};

    const STATES: [State; 4] = [State::Running, State::Exited, State::Unknown, State::Gone];

    #[test]
    fn all_sixteen_cells_are_the_kubelets() {
        use Happening::{Changed, Died, Removed, Started};
        let table: [[&[Happening]; 4]; 4] = [
            // from running
            [&[], &[Died], &[Changed], &[Died, Removed]],
            // from exited
            [&[Started], &[], &[Changed], &[Removed]],
            // from unknown
            [&[Started], &[Died], &[], &[Died, Removed]],
            // from nothing
            [&[Started], &[Died], &[Changed], &[]],
        ];
        for (old, row) in STATES.into_iter().zip(table) {
            for (new, cell) in STATES.into_iter().zip(row) {
                assert_eq!(happenings(old, new), cell, "{old:?} -> {new:?}");
            }
        }
    }

    fn pod(containers: &[(&str, ContainerState)], sandboxes: &[(&str, SandboxState)]) -> ListedPod {
        let container = |&(id, state): &(&str, ContainerState)| {
            Arc::new(ListedContainer {
                id: id.into(),
                sandbox_id: "s".into(),
                pod: None,
                name: "app".into(),
                state,
                attempt: 0,
                created_at: None,
            })
        };
        let sandbox = |&(id, state): &(&str, SandboxState)| {
            Arc::new(ListedSandbox {
                id: id.into(),
                pod: None,
                state,
                attempt: 0,
                created_at: None,
            })
        };
        ListedPod {
            pod: PodRef {
                uid: "u".into(),
                namespace: "n".into(),
                name: "p".into(),
            },
            sandboxes: sandboxes.iter().map(sandbox).collect(),
            containers: containers.iter().map(container).collect(),
        }
    }

    fn texts(changes: &[Change]) -> Vec<String> {
        let line = |change: &Change| format!("{:?} {}", change.happening, change.id);
        changes.iter().map(line).collect()
    }

    #[test]
    fn containers_come_before_sandboxes_and_the_old_listing_before_the_new() {
        let old = pod(
            &[
                ("b", ContainerState::Running),
                ("a", ContainerState::Exited),
            ],
            &[("s", SandboxState::Ready)],
        );
        let new = pod(
            &[
                ("c", ContainerState::Running),
                ("a", ContainerState::Running),
            ],
            &[("t", SandboxState::Ready)],
        );
        assert_eq!(
            texts(&diff(Some(&old), Some(&new))),
            [
                "Died b",
                "Removed b",
                "Started a",
                "Died s",
                "Removed s",
                "Started c",
                "Started t"
            ]
        );
    }

    #[test]
    fn a_row_that_differs_in_anything_but_its_state_causes_an_inspection_and_no_event() {
        let old = pod(
            &[("a", ContainerState::Running)],
            &[("s", SandboxState::Ready)],
        );
        let mut new = old.clone();
        Arc::make_mut(&mut new.containers[0]).attempt = 1;
        assert_eq!(texts(&diff(Some(&old), Some(&new))), ["Changed a"]);
        Arc::make_mut(&mut new.sandboxes[0]).attempt = 1;
        assert_eq!(
            texts(&diff(Some(&old), Some(&new))),
            ["Changed a", "Changed s"]
        );
    }

    #[test]
    fn an_id_that_names_a_container_and_a_sandbox_is_read_as_the_container() {
        let both = pod(
            &[("x", ContainerState::Running)],
            &[("x", SandboxState::NotReady)],
        );
        assert_eq!(texts(&diff(None, Some(&both))), ["Started x"]);
        assert_eq!(texts(&diff(Some(&both), None)), ["Died x", "Removed x"]);
    }

    fn any_pod() -> impl Strategy<Value = ListedPod> {
        let state = prop::sample::select(vec![
            ContainerState::Created,
            ContainerState::Running,
            ContainerState::Exited,
            ContainerState::Unknown,
        ]);
        prop::collection::btree_map("[a-d]", state, 0..5).prop_map(|containers| {
            let rows: Vec<_> = containers
                .iter()
                .map(|(id, state)| (&**id, *state))
                .collect();
            pod(&rows, &[])
        })
    }

    proptest! {
        #[test]
        fn every_pair_of_listings_gives_the_cell_of_each_id(old in any_pod(), new in any_pod()) {
            let changes = diff(Some(&old), Some(&new));
            let row = |pod: &ListedPod, id: &str| {
                pod.containers.iter().find(|row| row.id.as_str() == id).cloned()
            };
            let state = |row: &Option<Arc<ListedContainer>>| {
                row.as_ref().map_or(State::Gone, |row| row.state.into())
            };
            for id in ["a", "b", "c", "d"] {
                let of_id = changes.iter().filter(|change| change.id.as_str() == id);
                let seen: Vec<Happening> = of_id.map(|change| change.happening).collect();
                let (before, after) = (row(&old, id), row(&new, id));
                let expected = match happenings(state(&before), state(&after)) {
                    // From created to unknown.
                    [] if before != after => &[Happening::Changed],
                    cell => cell,
                };
                prop_assert_eq!(&seen[..], expected);
            }
            prop_assert_eq!(diff(Some(&old), Some(&old)), vec![]);
        }
    }
}
