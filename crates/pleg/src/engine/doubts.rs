//! Inspections whose result cannot be all: an exit code is not known yet, or the status
//! contradicts the list. Nothing about such a pod differs, so no relist would look again.
//!
//! ```text
//!   inspected --lacks an exit code--> again after 0.5 s, 1 s ... five times
//!       \------contradicts the list--> again after 0.5 s ... 8 s, until it does not; a failure
//!                                      if lists that were asked for since say the same
//! ```
//!
//! What came with CRI-O and cri-dockerd: an exit code of -1 until the exit file is there, a
//! list and a status that are written one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::id::{Id, PodUid};
use crate::model::listed::{ContainerState, ListedPod, SandboxState};
use crate::model::status::{ContainerStatus, PodStatus};
use crate::out::coverage::Failing;
use crate::out::failure::InspectError;
use crate::runtime::Rpc;

/// The first pause before it is asked again; each further one is twice as long, up to this.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How often an exit code that the runtime does not know yet is asked for again.
const EXIT_CODE_TRIES: u32 = 5;

/// The pods that are to be inspected again.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    pods: BTreeMap<PodUid, Doubt>,
}

#[derive(Debug)]
struct Doubt {
    /// When it is asked again; not while that is under way, and not for ever.
    again: Option<Instant>,
    /// When it was first found so, and how often since.
    first: Instant,
    found: u32,
    /// What the runtime contradicts itself in, since it is believed to.
    failing: Option<Failing>,
}

impl Doubts {
    /// An inspection of what was `listed` found this; gives the failure that it amounts to.
    /// `is_listed_since` says whether that is of lists that were asked for after a time: a
    /// list is older than a status, so one contradiction is none yet.
    pub(crate) fn inspected(
        &mut self,
        status: &PodStatus,
        listed: Option<&ListedPod>,
        is_listed_since: impl Fn(Instant) -> bool,
        now: Instant,
    ) -> Option<InspectError> {
        let contradiction = listed.and_then(|listed| contradiction(status, listed));
        let known = self.pods.get(&status.uid);
        let first = known.map_or(now, |doubt| doubt.first);
        let found = known.map_or(0, |doubt| doubt.found) + 1;
        if contradiction.is_none() && (!lacks_exit_code(status) || found > EXIT_CODE_TRIES) {
            match self.pods.get_mut(&status.uid) {
                // It stays known how often an exit code was asked for.
                Some(doubt) if lacks_exit_code(status) => {
                    doubt.again = None;
                    doubt.failing = None;
                }
                _ => self.forget(&status.uid),
            }
            return None;
        }
        let known = self.pods.remove(&status.uid);
        let known = known.and_then(|doubt| doubt.failing);
        let failing = contradiction.filter(|_| is_listed_since(first));
        let failing = failing.map(|(call, id)| {
            let container = status.container(&id);
            let since = known.map_or(now, |known| known.since);
            Failing {
                call,
                container: container.map(|container| container.name.clone()),
                pod: Some(status.pod()),
                error: InspectError::Disagrees {
                    call,
                    id: id.clone(),
                },
                id,
                since,
                unseen_since: since,
            }
        });
        let error = failing.as_ref().map(|failing| failing.error.clone());
        let pause = PAUSE * 2u32.pow((found - 1).min(8));
        let doubt = Doubt {
            again: Some(now + pause.min(LONGEST_PAUSE)),
            first,
            found,
            failing,
        };
        self.pods.insert(status.uid.clone(), doubt);
        error
    }

    /// A container was found to have exited, by a look at it alone.
    pub(crate) fn exited(&mut self, status: &PodStatus, now: Instant) {
        if lacks_exit_code(status) && !self.pods.contains_key(&status.uid) {
            self.inspected(status, None, |_| false, now);
        }
    }

    /// The pod is gone, or nothing about it is in doubt.
    pub(crate) fn forget(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
    }

    /// The pods that are to be asked for again now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<PodUid> {
        let mut due = Vec::new();
        for (uid, doubt) in &mut self.pods {
            if doubt.again.take_if(|again| now >= *again).is_some() {
                due.push(uid.clone());
            }
        }
        due
    }

    /// When the next one is.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.pods.values().filter_map(|doubt| doubt.again).min()
    }

    /// The statuses that contradict the list.
    pub(crate) fn failing(&self) -> impl Iterator<Item = Failing> {
        self.pods.values().filter_map(|doubt| doubt.failing.clone())
    }
}

fn lacks_exit_code(status: &PodStatus) -> bool {
    let mut containers = status.containers.iter();
    containers.any(ContainerStatus::lacks_exit_code)
}

/// The first row that the status does not have, or that has ended while the status runs.
fn contradiction(status: &PodStatus, listed: &ListedPod) -> Option<(Rpc, Id)> {
    let sandbox = listed.sandboxes.iter().find(|row| {
        let mut found = status.sandboxes.iter();
        let found = found.find(|found| found.id == row.id);
        found.is_none_or(|found| {
            row.state == SandboxState::NotReady && found.state == SandboxState::Ready
        })
    });
    let container = || {
        listed.containers.iter().find(|row| {
            let found = status.container(&row.id);
            found.is_none_or(|found| {
                row.state == ContainerState::Exited && found.state == ContainerState::Running
            })
        })
    };
    match sandbox {
        Some(row) => Some((Rpc::PodSandboxStatus, row.id.clone())),
        None => container().map(|row| (Rpc::ContainerStatus, row.id.clone())),
    }
}
