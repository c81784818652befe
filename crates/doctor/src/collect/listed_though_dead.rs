//! Containers that the runtime lists as running although their process has exited. After each
//! exit this is so for a moment; if the conmon or shim is stopped or gone, it stays so.

use std::collections::{BTreeMap, BTreeSet};

use pleg::model::id::Id;
use pleg::model::listed::{ContainerState, SandboxState};
use tokio::time::{Instant, timeout};

use super::observed::Observed;
use super::task_folder::TaskFolder;
use crate::limits::{EXIT_NOTICED_WITHIN, FIRST_PROCESSES};

/// Looks for them twice.
pub(super) struct ListedThoughDead {
    folder: TaskFolder,
    first: Option<First>,
}

/// Those whose process had exited at first, with its PID if that is recorded.
struct First {
    inits: BTreeMap<Id, Option<u32>>,
    at: Instant,
}

impl ListedThoughDead {
    pub fn new(folder: TaskFolder) -> Self {
        Self {
            folder,
            first: None,
        }
    }

    /// Whether they were looked for.
    pub fn is_checked(&self) -> bool {
        self.first.is_some()
    }

    /// Looks for them among the containers that run according to the engine; `runtime` is the
    /// runtime's process.
    pub async fn check(&mut self, observed: &Observed, runtime: Option<u32>) {
        let at = Instant::now();
        let running = running(observed);
        let folder = self.folder.clone();
        let read = tokio::task::spawn_blocking(move || {
            match runtime.is_some_and(|runtime| folder.has_our_pids(runtime)) {
                true => folder.ended(&running),
                false => BTreeMap::new(),
            }
        });
        let inits = timeout(FIRST_PROCESSES, read).await;
        let inits = inits.ok().and_then(Result::ok).unwrap_or_default();
        self.first = Some(First { inits, at });
    }

    /// Whether nothing more can be learned: none had exited that is still listed as running, or the
    /// pods were observed after a healthy runtime would have noticed.
    pub fn is_decided(&self, observed: &Observed) -> bool {
        let Some(first) = &self.first else {
            return true;
        };
        let running = running(observed);
        let is_listed = first.inits.keys().any(|id| running.contains(id));
        !is_listed || first.is_older_than(observed)
    }

    /// Which of them are still listed as running; `Err` with their number if that is not known.
    pub async fn end(self, observed: &Observed) -> Result<BTreeSet<Id>, usize> {
        let mut running = running(observed);
        let Some(First { inits, .. }) = &self.first else {
            return Ok(BTreeSet::new());
        };
        running.retain(|id| inits.contains_key(id));
        let count = running.len();
        let first = self.first.filter(|first| first.is_older_than(observed));
        let Some(First { inits, .. }) = first.filter(|_| count > 0) else {
            return match count {
                0 => Ok(BTreeSet::new()),
                count => Err(count),
            };
        };
        let folder = self.folder;
        let read = tokio::task::spawn_blocking(move || {
            let mut again = folder.ended(&running);
            // If it was restarted under the same id, another process has exited since.
            again.retain(|id, init| {
                let before = inits.get(id);
                before.is_some_and(|before| init.is_none() || init == before)
            });
            again.into_keys().collect()
        });
        let still = timeout(FIRST_PROCESSES, read).await;
        still.ok().and_then(Result::ok).ok_or(count)
    }
}

impl First {
    /// Whether the newest look at all pods began after a healthy runtime would have noticed.
    fn is_older_than(&self, observed: &Observed) -> bool {
        observed.is_newer_than(self.at + EXIT_NOTICED_WITHIN)
    }
}

/// The containers and sandboxes that run according to the engine.
fn running(observed: &Observed) -> BTreeSet<Id> {
    let ids = observed.pods.iter().flat_map(|pod| {
        let sandboxes = pod.status.sandboxes.iter();
        let ready = sandboxes.filter(|it| it.state == SandboxState::Ready);
        let containers = pod.status.containers.iter();
        let running = containers.filter(|it| it.state == ContainerState::Running);
        let running = running.map(|it| it.id.clone());
        ready.map(|it| it.id.clone()).chain(running)
    });
    ids.collect()
}
