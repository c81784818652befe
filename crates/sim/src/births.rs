//! The simulated runtime's directory of tasks: one for each container and sandbox that runs, which a
//! simulated kernel watches.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::stream::unfold;
use pleg::kernel::{Birth, Births, UnwatchedBirths};
use pleg::model::id::Id;
use pleg::model::listed::{ContainerState, SandboxState};
use tokio::sync::Notify;

use crate::Sim;
use crate::world::World;

/// The directory, and what was reported of it.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Whether it is there, and may be watched.
    is_watched: bool,
    /// The ids that have one.
    ids: BTreeSet<Id>,
    news: VecDeque<Birth>,
}

/// It, and what wakes its reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskDirectory {
    directory: Arc<Mutex<Directory>>,
    changed: Arc<Notify>,
}

impl TaskDirectory {
    fn directory(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().expect("no panic while it is held")
    }

    /// The world has changed.
    pub(crate) fn follow(&self, world: &World) {
        let mut directory = self.directory();
        if !directory.is_watched {
            return;
        }
        let ids = ids(world);
        let appeared = ids.difference(&directory.ids).cloned();
        let appeared: Vec<_> = appeared.map(Birth::Appeared).collect();
        let gone = directory.ids.difference(&ids).cloned();
        let gone: Vec<_> = gone.map(Birth::Disappeared).collect();
        directory.news.extend(appeared);
        directory.news.extend(gone);
        directory.ids = ids;
        self.changed.notify_one();
    }

    /// Says whether it was watched.
    fn unwatch(&self, birth: Option<Birth>) -> bool {
        let mut directory = self.directory();
        directory.news.extend(birth);
        self.changed.notify_one();
        std::mem::replace(&mut directory.is_watched, false)
    }

    fn watch(&self, world: &World, birth: Birth) {
        let mut directory = self.directory();
        directory.is_watched = true;
        directory.ids = ids(world);
        directory.news.push_back(birth);
        self.changed.notify_one();
    }
}

/// What has a directory: all that has not ended.
fn ids(world: &World) -> BTreeSet<Id> {
    let sandboxes = world
        .sandboxes()
        .filter(|(_, it)| it.state == SandboxState::Ready);
    let containers = world
        .containers()
        .filter(|(_, it)| it.state != ContainerState::Exited);
    let sandboxes = sandboxes.map(|(_, it)| it.id.clone());
    sandboxes
        .chain(containers.map(|(_, it)| it.id.clone()))
        .collect()
}

impl Sim {
    /// From now on the kernel reports each container and sandbox that starts or ends, by its directory.
    pub fn watch_births(&self) {
        self.births.watch(&self.world(), Birth::Watched);
    }

    /// From now on it does not, for the directory is gone.
    pub fn unwatch_births(&self) {
        let why = UnwatchedBirths::Removed;
        self.births.unwatch(Some(Birth::Unwatched(why)));
    }

    /// More happens at once than the kernel keeps: what `happens` is not reported, and that is.
    pub fn lose_births(&self, happens: impl FnOnce(&Self)) {
        let was_watched = self.births.unwatch(None);
        happens(self);
        if was_watched {
            self.births.watch(&self.world(), Birth::Lost);
        }
    }

    pub(crate) fn read_births(&self) -> Births {
        Box::pin(unfold(self.births.clone(), |births| async {
            loop {
                let next = births.directory().news.pop_front();
                if let Some(birth) = next {
                    return Some((birth, births));
                }
                births.changed.notified().await;
            }
        }))
    }
}
