//! How many containers and sandboxes are listed.

use std::collections::BTreeMap;

use pleg::model::listed::{ContainerState, SandboxState};
use pleg::out::pods::PodReport;

use crate::collect::bounded::bounded;
use crate::collect::observed::Observed;
use crate::facts::probes::Rows;

/// The number of rows in the lists. Pods that have not been inspected yet are counted, but not among the
/// dead sandboxes.
pub(super) fn rows(observed: &Observed) -> Option<Rows> {
    let status = &observed.status;
    if observed.pods.is_empty() && status.pods == 0 && status.relist.count == 0 {
        return None;
    }
    let mut rows = Rows::default();
    let mut dead: BTreeMap<String, usize> = BTreeMap::new();
    for PodReport { status: pod, .. } in &observed.pods {
        let not_ready = pod
            .sandboxes
            .iter()
            .filter(|it| it.state != SandboxState::Ready);
        let dead_sandboxes = not_ready.count();
        let exited = pod.containers.iter();
        let exited = exited
            .filter(|it| it.state == ContainerState::Exited)
            .count();
        rows.sandboxes += pod.sandboxes.len();
        rows.dead_sandboxes += dead_sandboxes;
        rows.containers += pod.containers.len();
        rows.exited += exited;
        if dead_sandboxes + exited > 0 {
            *dead.entry(bounded(&pod.namespace)).or_default() += dead_sandboxes + exited;
        }
    }
    let listed = &status.containers;
    let exited = listed.get(ContainerState::Exited.as_str());
    rows.sandboxes = rows.sandboxes.max(status.pods);
    rows.containers = rows.containers.max(listed.values().sum());
    rows.exited = rows.exited.max(exited.copied().unwrap_or_default());
    rows.most_dead = dead.into_iter().max_by_key(|(_, count)| *count);
    Some(rows)
}
