//! Births of containers and sandboxes: the runtime creates a directory for each one before it starts,
//! and removes it after its process has exited.
//!
//! ```text
//!   watch the directories (inotify) --> Watched --> Appeared(id), Disappeared(id), Lost
//!      ^          |                                              |
//!      |          v                                              v
//!      |   Unwatched: none exists, no permission, a limit    Unwatched: one of them was removed
//!      |          |                                              |
//!      \----------+---- a pause of 1 s, which doubles up to 30 s --/
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use rustix::fs::inotify::{CreateFlags, Event, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

use super::readable::readable;
use super::{Blocking, is_id};
use crate::model::id::Id;

/// The deadline for watching the directories.
const DEADLINE: Duration = Duration::from_secs(5);

/// The first pause before directories that could not be watched are tried again; it doubles.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// How many bytes are read at once: about thirty events that name an id.
const BUFFER: usize = 4096;

/// The changes in the runtime's task directories. The stream does not end.
pub type Births = Pin<Box<dyn Stream<Item = Birth> + Send>>;

/// A change in the runtime's task directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Birth {
    /// From now on each change is reported.
    Watched,
    /// From now on no change is reported, for this reason.
    Unwatched(UnwatchedBirths),
    /// A directory with this id appeared: a container or sandbox is about to start.
    Appeared(Id),
    /// The directory with this id was removed: the process of a container or sandbox has exited.
    Disappeared(Id),
    /// Changes were lost.
    Lost,
}

/// Why births are not watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwatchedBirths {
    /// There is no such directory, or none is known for this runtime.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// The kernel refuses to watch a directory.
    #[error("{path} cannot be watched: {why}")]
    Refused {
        /// Which directory.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The limit of inotify instances is reached.
    #[error("no inotify instance can be made: {0}")]
    NoInstance(String),
    /// The watched directory was removed.
    #[error("the runtime's directory of tasks was removed")]
    Removed,
    /// The kernel does not answer.
    #[error("the kernel does not answer when the runtime's directory of tasks is to be watched")]
    Silent,
    /// This kernel cannot watch directories.
    #[error("this system does not watch directories")]
    Unsupported,
}

/// Watches those of these directories that exist. They may be created and removed at any time.
pub(super) fn births(directories: Vec<PathBuf>, blocking: Blocking) -> Births {
    let watcher = Watcher {
        directories,
        blocking,
        open: None,
        unreported: VecDeque::new(),
        why: None,
        pause: Duration::ZERO,
    };
    Box::pin(unfold(watcher, |mut watcher| async {
        Some((watcher.next().await, watcher))
    }))
}

struct Watcher {
    directories: Vec<PathBuf>,
    blocking: Blocking,
    open: Option<AsyncFd<OwnedFd>>,
    /// Births that were read and are not reported yet.
    unreported: VecDeque<Birth>,
    /// The reported reason why births are not watched.
    why: Option<UnwatchedBirths>,
    /// How long to wait before the directories are tried again.
    pause: Duration,
}

impl Watcher {
    async fn next(&mut self) -> Birth {
        loop {
            if let Some(birth) = self.unreported.pop_front() {
                return birth;
            }
            match self.open.take() {
                Some(open) => self.read(open).await,
                None => self.watch().await,
            }
        }
    }

    async fn watch(&mut self) {
        sleep(self.pause).await;
        let directories = self.directories.clone();
        let watching = self.blocking.run(DEADLINE, move || watch(&directories));
        let watched = watching.await.unwrap_or(Err(UnwatchedBirths::Silent));
        match watched.and_then(|descriptor| readable(descriptor).map_err(no_instance)) {
            Ok(open) => {
                self.open = Some(open);
                self.why = None;
                self.pause = RETRY;
                self.unreported.push_back(Birth::Watched);
            }
            Err(why) => {
                self.pause = (self.pause * 2).clamp(RETRY, MAX_RETRY_PAUSE);
                self.report_unwatched(why);
            }
        }
    }

    /// Reports why births are not watched, once.
    fn report_unwatched(&mut self, why: UnwatchedBirths) {
        if self.why.as_ref() != Some(&why) {
            self.why = Some(why.clone());
            self.unreported.push_back(Birth::Unwatched(why));
        }
    }

    async fn read(&mut self, open: AsyncFd<OwnedFd>) {
        // An error means that the tokio runtime ends, and this task with it.
        let Ok(mut ready) = open.readable().await else {
            return;
        };
        match read(open.as_fd(), &mut self.unreported) {
            Ok(()) => {
                ready.clear_ready();
                drop(ready);
                self.open = Some(open);
            }
            Err(why) => self.report_unwatched(why),
        }
    }
}

/// An inotify descriptor for these directories. May block.
fn watch(directories: &[PathBuf]) -> Result<OwnedFd, UnwatchedBirths> {
    let descriptor =
        init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| match error {
            Errno::MFILE => no_instance("the limit fs.inotify.max_user_instances is reached"),
            error => no_instance(error),
        })?;
    let changes = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    let mut watched = 0;
    for path in directories {
        match add_watch(&descriptor, path, changes) {
            Ok(_) => watched += 1,
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => {
                let why = match error {
                    Errno::NOSPC => "the limit fs.inotify.max_user_watches is reached".to_owned(),
                    error => error.to_string(),
                };
                let path = path.clone();
                return Err(UnwatchedBirths::Refused { path, why });
            }
        }
    }
    if watched == 0 {
        let first = directories.first().cloned();
        return Err(UnwatchedBirths::Missing(first.unwrap_or_default()));
    }
    Ok(descriptor)
}

fn no_instance(why: impl ToString) -> UnwatchedBirths {
    UnwatchedBirths::NoInstance(why.to_string())
}

/// Reads all pending changes. Fails if a directory is no longer watched.
fn read(descriptor: BorrowedFd<'_>, births: &mut VecDeque<Birth>) -> Result<(), UnwatchedBirths> {
    let mut buffer = [std::mem::MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(descriptor, &mut buffer);
    loop {
        match reader.next() {
            Ok(event) => births.extend(birth(&event)?),
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(no_instance(error)),
        }
    }
}

fn birth(event: &Event<'_>) -> Result<Option<Birth>, UnwatchedBirths> {
    let happened = event.events();
    let ended =
        ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
    if happened.intersects(ended) {
        return Err(UnwatchedBirths::Removed);
    }
    if happened.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Ok(Some(Birth::Lost));
    }
    let name = event.file_name().and_then(|name| name.to_str().ok());
    let id = name.filter(|name| is_id(name)).map(Id::from);
    let appeared = happened.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
    Ok(id.map(|id| match appeared {
        true => Birth::Appeared(id),
        false => Birth::Disappeared(id),
    }))
}

#[cfg(test)]
mod tests;
