//! The simulated runtime's directory of tasks, which the simulated kernel watches. It has one entry for
//! each ready sandbox and for each container that has not exited.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::stream::unfold;
use pleg::kernel::{Birth, Births, UnwatchedBirths};
use pleg::model::id::Id;
use pleg::model::listed::{ContainerState, SandboxState};
use tokio::sync::Notify;

use crate::Sim;
use crate::world::World;

/// The content of the directory.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Whether the directory exists and is watched.
    is_watched: bool,
    /// The ids that have an entry.
    ids: BTreeSet<Id>,
    /// Births that the reader has not received yet.
    unread: VecDeque<Birth>,
}

/// The directory, and the notification of its reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskDirectory {
    directory: Arc<Mutex<Directory>>,
    changed: Arc<Notify>,
}

impl TaskDirectory {
    fn directory(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().expect("no panic while it is held")
    }

    /// Updates the entries after a change of the world, and reports what appeared and disappeared.
    /// Does nothing if the directory is not watched.
    pub(crate) fn update(&self, world: &World) {
        let mut directory = self.directory();
        if !directory.is_watched {
            return;
        }
        let ids = ids(world);
        let appeared = ids.difference(&directory.ids).cloned();
        let appeared: Vec<_> = appeared.map(Birth::Appeared).collect();
        let gone = directory.ids.difference(&ids).cloned();
        let gone: Vec<_> = gone.map(Birth::Disappeared).collect();
        directory.unread.extend(appeared);
        directory.unread.extend(gone);
        directory.ids = ids;
        self.changed.notify_one();
    }

    /// Stops watching, and reports `birth`. Returns whether the directory was watched.
    fn unwatch(&self, birth: Option<Birth>) -> bool {
        let mut directory = self.directory();
        directory.unread.extend(birth);
        self.changed.notify_one();
        std::mem::replace(&mut directory.is_watched, false)
    }

    fn watch(&self, world: &World, birth: Birth) {
        let mut directory = self.directory();
        directory.is_watched = true;
        directory.ids = ids(world);
        directory.unread.push_back(birth);
        self.changed.notify_one();
    }
}

/// The ids that have an entry: those of all ready sandboxes and of all containers that have not
/// exited.
fn ids(world: &World) -> BTreeSet<Id> {
    let sandboxes = world.sandboxes().map(|(_, it)| it);
    let sandboxes = sandboxes.filter(|it| it.state == SandboxState::Ready);
    let containers = world.containers().map(|(_, it)| it);
    let containers = containers.filter(|it| it.state != ContainerState::Exited);
    let ids = sandboxes
        .map(|it| &it.id)
        .chain(containers.map(|it| &it.id));
    ids.cloned().collect()
}

impl Sim {
    /// Starts watching: the kernel reports each container and sandbox that starts or ends.
    pub fn watch_births(&self) {
        self.births.watch(&self.world(), Birth::Watched);
    }

    /// Stops watching, because the directory was removed.
    pub fn unwatch_births(&self) {
        let why = UnwatchedBirths::Removed;
        self.births.unwatch(Some(Birth::Unwatched(why)));
    }

    /// Overflows the kernel's queue: the births during `act` are lost, and the loss is reported.
    pub fn lose_births(&self, act: impl FnOnce(&Self)) {
        let was_watched = self.births.unwatch(None);
        act(self);
        if was_watched {
            self.births.watch(&self.world(), Birth::Lost);
        }
    }

    pub(crate) fn read_births(&self) -> Births {
        Box::pin(unfold(self.births.clone(), |births| async {
            loop {
                let next = births.directory().unread.pop_front();
                if let Some(birth) = next {
                    return Some((birth, births));
                }
                births.changed.notified().await;
            }
        }))
    }
}
