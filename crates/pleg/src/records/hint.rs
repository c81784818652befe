//! Hints: something may have happened in this pod, so look at it now.
//!
//! ```text
//!   hint(pod) --> plan(pod) --> Inspect, what is known and what was met --> looked(PodStatus)
//!                                                                             |
//!                    what the inspection found is the listing now: commit <---/
//! ```
//!
//! A look is an inspection that did not wait for a list: its result is the newer listing
//! and the status of it in one. Hints about a pod that is being inspected already are one
//! more look after that.

use std::sync::Arc;

use tokio::time::Instant;

use super::look::Look;
use super::record::Record;
use super::{Records, Ticket, note};
use crate::event::Source;
use crate::id::{Id, PodRef};
use crate::listed::{ContainerState, ListedContainer, ListedPod, ListedSandbox, SandboxState};
use crate::status::PodStatus;
use crate::wall_time::WallTime;

/// Something may have happened in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Who gave it.
    pub source: Source,
    /// When it came.
    pub at: Instant,
    /// When the runtime made the event that it came from.
    pub announced: Option<WallTime>,
    /// Ids that it named, known or not.
    pub met: Vec<Met>,
}

/// An id that a hint named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Met {
    /// A sandbox.
    Sandbox(Id),
    /// A container.
    Container {
        /// Its id.
        id: Id,
        /// The sandbox that it runs in.
        sandbox: Id,
    },
}

impl Hint {
    /// Two hints are one look. The newer one says when.
    fn join(&mut self, newer: Self) {
        for met in newer.met {
            if !self.met.contains(&met) {
                self.met.push(met);
            }
        }
        self.source = newer.source;
        self.at = newer.at;
        self.announced = newer.announced;
    }

    /// The pod with a row for each id that is not known, of which the status will tell
    /// the rest.
    pub(super) fn extend(&self, listed: &Arc<ListedPod>) -> Arc<ListedPod> {
        let mut pod = ListedPod::clone(listed);
        for met in &self.met {
            match met {
                Met::Sandbox(id) | Met::Container { id, .. } if pod.names(id) => {}
                Met::Sandbox(id) => pod.sandboxes.push(Arc::new(ListedSandbox {
                    id: id.clone(),
                    pod: Some(pod.pod.clone()),
                    state: SandboxState::Unknown,
                    attempt: 0,
                    created_at: None,
                })),
                Met::Container { id, sandbox } => pod.containers.push(Arc::new(ListedContainer {
                    id: id.clone(),
                    sandbox_id: sandbox.clone(),
                    pod: Some(pod.pod.clone()),
                    name: "".into(),
                    state: ContainerState::Unknown,
                    attempt: 0,
                    created_at: None,
                })),
            }
        }
        Arc::new(pod)
    }
}

impl Records {
    /// Takes in a hint; [`Self::plan`] then says to look at the pod, known or not.
    pub fn hint(&mut self, pod: &PodRef, hint: Hint) {
        let now = Look {
            begun: hint.at,
            ended: hint.at,
            source: hint.source,
        };
        if !self.pods.contains_key(&pod.uid) {
            self.amended();
        }
        let record = self.pods.entry(pod.uid.clone());
        let record = record.or_insert_with(|| Record {
            listed: Some(Arc::new(ListedPod::empty(pod.clone()))),
            ..Record::new(now)
        });
        match &mut record.hint {
            Some(known) => known.join(hint),
            none => *none = Some(hint),
        }
        note(&mut self.unsettled, &pod.uid, record);
    }

    /// The pod in which the id is listed.
    pub fn pod_of(&self, id: &Id) -> Option<PodRef> {
        let pod = self.listed().find(|pod| pod.names(id))?;
        Some(pod.pod.clone())
    }

    /// The inspection that followed a hint was good: what it found is the newer listing.
    /// Then it can be committed; unless something newer is known, or nothing is left of
    /// the pod, which makes the ticket void. For any other inspection nothing happens.
    pub fn looked(&mut self, ticket: &Ticket, found: &PodStatus, ended: Instant) {
        self.amended();
        let Some(record) = self.pods.get_mut(&ticket.uid) else {
            return;
        };
        let inspecting = record.inspecting.as_mut();
        let Some(inspecting) = inspecting.filter(|it| it.ticket == ticket.number) else {
            return;
        };
        let Some(hint) = inspecting.hint.clone() else {
            return;
        };
        let look = Look {
            begun: inspecting.begun,
            ended,
            source: hint.source,
        };
        if record.sandboxes.admits_all(look) && record.containers.admits_all(look) {
            let seen = seen(&inspecting.version, found);
            record.sandboxes.all(look);
            record.containers.all(look);
            let seen = (!seen.is_empty()).then(|| Arc::new(seen));
            match &seen {
                Some(seen) => inspecting.version = seen.clone(),
                None => record.inspecting = None,
            }
            record.list(seen, look.source);
        } else {
            // Something was seen meanwhile, and which of both is newer nobody knows.
            record.inspecting = None;
            record.failed = true;
            if record.sandboxes.list.min(record.containers.list) < hint.at {
                record.hint.get_or_insert(hint);
            }
        }
        if record.inspecting.is_none() {
            self.inspecting.remove(&ticket.uid);
        }
        note(&mut self.unsettled, &ticket.uid, record);
    }
}

/// The pod as an inspection found it: rows that were not found are gone.
fn seen(version: &ListedPod, found: &PodStatus) -> ListedPod {
    let sandboxes = version.sandboxes.iter().filter_map(|row| {
        let status = found.sandboxes.iter().find(|status| status.id == row.id)?;
        Some(Arc::new(ListedSandbox {
            state: status.state,
            attempt: status.attempt,
            created_at: status.created_at,
            ..ListedSandbox::clone(row)
        }))
    });
    let containers = version.containers.iter().filter_map(|row| {
        let status = found.container(&row.id)?;
        Some(Arc::new(ListedContainer {
            name: status.name.clone(),
            state: status.state,
            attempt: status.attempt,
            created_at: status.created_at,
            ..ListedContainer::clone(row)
        }))
    });
    let mut pod = ListedPod {
        pod: version.pod.clone(),
        sandboxes: sandboxes.collect(),
        containers: containers.collect(),
    };
    pod.sort();
    pod
}
