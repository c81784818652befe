//! Taking in looks: at everything, at one of the lists, at a single id.

use std::sync::Arc;

use tokio::time::Instant;

use super::look::{Freshness, Look};
use super::record::Record;
use super::{Records, note};
use crate::event::Source;
use crate::id::{Id, PodRef, PodUid};
use crate::listed::{ContainerState, ListedContainer, ListedPod, ListedSandbox, SandboxState};
use crate::snapshot::Snapshot;

/// Which part of a record a look is at.
type Part = fn(&mut Record) -> &mut Freshness;

impl Records {
    /// Takes in what is listed now; `ended` is when the lists had come. A pod that was
    /// looked at after the snapshot was begun is left as it is known.
    pub fn observe(&mut self, snapshot: &Snapshot, ended: Instant, source: Source) {
        let taken = snapshot.taken;
        let look = Look {
            begun: taken,
            ended,
            source,
        };
        if let Some((pods, looked)) = &mut self.as_of
            && Arc::ptr_eq(pods, &snapshot.pods)
        {
            *looked = look;
            return;
        }
        let mut all = true;
        for uid in snapshot.pods.keys() {
            if self.is_gone(uid, taken) {
                all = false;
            } else if !self.pods.contains_key(uid) {
                self.pods.insert(uid.clone(), Record::new(look));
            }
        }
        self.gone.retain(|_, begun| *begun > taken);
        for (uid, record) in &mut self.pods {
            all &= record.look(snapshot.pods.get(uid), look);
            note(&mut self.unsettled, uid, record);
        }
        self.as_of = all.then(|| (snapshot.pods.clone(), look));
    }

    /// Takes in all sandboxes while the containers cannot be listed.
    pub fn observe_sandboxes(&mut self, rows: &[Arc<ListedSandbox>], look: Look) {
        let listed = Snapshot::new(look.begun, rows, &[]);
        self.observe_part(
            &listed,
            look,
            |record| &mut record.sandboxes,
            |pod, listed| {
                pod.sandboxes = listed
                    .map(|listed| listed.sandboxes.clone())
                    .unwrap_or_default();
            },
        );
    }

    /// Takes in all containers while the sandboxes cannot be listed.
    pub fn observe_containers(&mut self, rows: &[Arc<ListedContainer>], look: Look) {
        let known = self.listed().flat_map(|pod| pod.sandboxes.iter().cloned());
        let known: Vec<_> = known.collect();
        let listed = Snapshot::new(look.begun, &known, rows);
        self.observe_part(
            &listed,
            look,
            |record| &mut record.containers,
            |pod, listed| {
                pod.containers = listed
                    .map(|listed| listed.containers.clone())
                    .unwrap_or_default();
            },
        );
    }

    fn observe_part(
        &mut self,
        listed: &Snapshot,
        look: Look,
        part: Part,
        take: impl Fn(&mut ListedPod, Option<&ListedPod>),
    ) {
        self.amended();
        for (uid, pod) in &*listed.pods {
            if self.is_gone(uid, listed.taken) {
                continue;
            }
            let record = self.pods.entry(uid.clone());
            let record = record.or_insert_with(|| Record::new(look));
            if record.listed.is_none() {
                record.listed = Some(Arc::new(ListedPod::empty(pod.pod.clone())));
            }
        }
        for (uid, record) in &mut self.pods {
            let freshness = part(record);
            if freshness.admits_list(look) {
                *freshness = Freshness::of(look);
                record.amend(look.source, |pod| {
                    take(pod, listed.pods.get(uid).map(AsRef::as_ref))
                });
            }
            note(&mut self.unsettled, uid, record);
        }
    }

    /// Takes in a look at one container, by its id; `None` says that it is gone.
    pub fn observe_container(
        &mut self,
        uid: &PodUid,
        id: &Id,
        state: Option<ContainerState>,
        look: Look,
    ) {
        let part: Part = |record| &mut record.containers;
        self.observe_one(uid, look, part, |pod| match state {
            None => pod.containers.retain(|row| row.id != *id),
            Some(state) => {
                for row in pod.containers.iter_mut().filter(|row| row.id == *id) {
                    Arc::make_mut(row).state = state;
                }
            }
        });
    }

    /// Takes in a look at one sandbox, by its id; `None` says that it is gone.
    pub fn observe_sandbox(
        &mut self,
        uid: &PodUid,
        id: &Id,
        state: Option<SandboxState>,
        look: Look,
    ) {
        let part: Part = |record| &mut record.sandboxes;
        self.observe_one(uid, look, part, |pod| match state {
            None => pod.sandboxes.retain(|row| row.id != *id),
            Some(state) => {
                for row in pod.sandboxes.iter_mut().filter(|row| row.id == *id) {
                    Arc::make_mut(row).state = state;
                }
            }
        });
    }

    /// Takes in a container that was not known, met by its id.
    pub fn learn_container(&mut self, pod: &PodRef, row: ListedContainer, look: Look) {
        self.learn(
            pod,
            look,
            |record| &mut record.containers,
            |listed| {
                if listed.container_name(&row.id).is_none() {
                    listed.containers.push(Arc::new(row));
                }
            },
        );
    }

    /// Takes in a sandbox that was not known, met by its id.
    pub fn learn_sandbox(&mut self, pod: &PodRef, row: ListedSandbox, look: Look) {
        self.learn(
            pod,
            look,
            |record| &mut record.sandboxes,
            |listed| {
                if listed.sandboxes.iter().all(|known| known.id != row.id) {
                    listed.sandboxes.push(Arc::new(row));
                }
            },
        );
    }

    fn learn(&mut self, pod: &PodRef, look: Look, part: Part, take: impl FnOnce(&mut ListedPod)) {
        if self.is_gone(&pod.uid, look.begun) {
            return;
        }
        self.amended();
        let record = self.pods.entry(pod.uid.clone());
        let record = record.or_insert_with(|| Record::new(look));
        if record.listed.is_none() {
            record.listed = Some(Arc::new(ListedPod::empty(pod.clone())));
        }
        part(record).one(look);
        record.amend(look.source, |listed| {
            take(listed);
            listed.sort();
        });
        note(&mut self.unsettled, &pod.uid, record);
    }

    fn observe_one(
        &mut self,
        uid: &PodUid,
        look: Look,
        part: Part,
        take: impl FnOnce(&mut ListedPod),
    ) {
        self.amended();
        let Some(record) = self.pods.get_mut(uid) else {
            return;
        };
        let freshness = part(record);
        if freshness.admits_one(look) {
            freshness.one(look);
            record.amend(look.source, take);
        }
        note(&mut self.unsettled, uid, record);
    }

    /// Whether a look newer than this one found the pod gone.
    fn is_gone(&self, uid: &PodUid, looked: Instant) -> bool {
        self.gone.get(uid).is_some_and(|begun| *begun > looked)
    }

    /// The records are no longer those of one snapshot.
    pub(super) fn amended(&mut self) {
        if let Some((_, looked)) = self.as_of.take() {
            for record in self.pods.values_mut() {
                record.sandboxes.confirmed(looked);
                record.containers.confirmed(looked);
            }
        }
    }
}
