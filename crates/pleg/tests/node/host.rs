//! The ids that the directories of the host show.

use std::sync::Arc;

use pleg::IdSource;
use pleg::model::id::{HostId, Id, Owner, PodRef};
use sim::Sim;

/// What the directories of a real runtime would show.
pub(super) fn ids(sim: &Sim) -> IdSource {
    let sim = sim.clone();
    Arc::new(move || {
        let world = sim.world();
        let known = |id: &Id, pod: &PodRef, container| HostId {
            id: id.clone(),
            owner: Some(Owner {
                pod: pod.clone(),
                container,
            }),
        };
        let sandboxes = world
            .sandboxes()
            .map(|(of, it)| known(&it.id, &of.pod, None));
        let containers = world.containers().map(|(of, it)| {
            let name = Some(it.name.as_str().into());
            known(&it.id, &of.pod, name)
        });
        let ids: Vec<HostId> = sandboxes.chain(containers).collect();
        Box::pin(async move { Some(ids) })
    })
}

/// These ids, and those that the directories of a real runtime would show.
pub(super) fn ids_and(more: &[&str]) -> impl FnOnce(&Sim) -> IdSource {
    let more: Vec<HostId> = more.iter().map(|id| Id::from(*id).into()).collect();
    move |sim| {
        let known = ids(sim);
        Arc::new(move || {
            let (known, more) = (known(), more.clone());
            Box::pin(async move { Some(known.await?.into_iter().chain(more).collect()) })
        })
    }
}
