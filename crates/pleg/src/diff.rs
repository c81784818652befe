//! From two listings of a pod to what happened in between: the kubelet's table.
//!
//! ```text
//!   old \ new      running   exited   unknown   gone
//!   not there      Started   Died     Changed   -
//!   running        -         Died     Changed   Died, Removed
//!   exited         Started   -        Changed   Removed
//!   unknown        Started   Died     -         Died, Removed
//! ```
//!
//! Created counts as unknown. Sandboxes are read by the same table as containers.
//! `Changed` is never told to anybody, but it makes the pod worth an inspection.
//! Source: `generateEvents` of `pkg/kubelet/pleg/generic.go`, Kubernetes 1.36.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::listed::{ContainerState, ListedPod, SandboxState};

/// A state as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The container runs, or the sandbox is ready.
    Running,
    /// It has ended.
    Exited,
    /// Created, or nobody knows.
    Unknown,
    /// It is not listed.
    Gone,
}

/// What happened to a container or sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Happening {
    /// It runs now.
    Started,
    /// It runs no more.
    Died,
    /// The runtime has forgotten it.
    Removed,
    /// Something unclear, worth an inspection and no event.
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
    /// To whom.
    pub id: Id,
    /// What that is.
    pub subject: Subject,
}

/// The table: what happened to something that was `old` and is `new`.
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
    // On a quiet node every pod comes through here each second, and equal rows are
    // shared with the last listing: this is a comparison of pointers.
    if old == new {
        return Vec::new();
    }
    let (before, after) = (states(old), states(new));
    let state_in = |states: &HashMap<&Id, State>, id: &Id| *states.get(id).unwrap_or(&State::Gone);
    let mut seen = HashSet::with_capacity(before.len() + after.len());
    let mut changes = Vec::new();
    for (id, subject, _) in entries(old).chain(entries(new)) {
        if seen.insert(id) {
            let happenings = happenings(state_in(&before, id), state_in(&after, id));
            changes.extend(happenings.iter().map(|&happening| Change {
                happening,
                id: id.clone(),
                subject,
            }));
        }
    }
    changes
}

/// Containers first, then sandboxes, as the kubelet goes through a pod.
fn entries(pod: Option<&ListedPod>) -> impl Iterator<Item = (&Id, Subject, State)> {
    pod.into_iter().flat_map(|pod| {
        let containers = pod
            .containers
            .iter()
            .map(|row| (&row.id, Subject::Container, row.state.into()));
        let sandboxes = pod
            .sandboxes
            .iter()
            .map(|row| (&row.id, Subject::Sandbox, row.state.into()));
        containers.chain(sandboxes)
    })
}

/// The state by id; where an id names both, the container's counts.
fn states(pod: Option<&ListedPod>) -> HashMap<&Id, State> {
    let mut states = HashMap::new();
    for (id, _, state) in entries(pod) {
        states.entry(id).or_insert(state);
    }
    states
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
