//! A folder of manifests as a source of pods, by the rules of a kubelet's file source.
//!
//! ```text
//!   scan: names and stamps, each second --> state: which files to read, twice the same
//!                                             |  ^
//!   scan: a file's content <------------------+  |
//!          +-- manifest: parsed or refused ------+--> Set, Removed, Problem, Solved, Synced
//! ```
//!
//! **Files.** Each file in the folder is a manifest, whatever its name ends with, except those
//! that begin with a dot. Folders in it are not looked into. Symbolic links are followed, so that
//! a folder whose links lead through `..data`, which is swapped, changes as a whole. At most
//! [`MAX_FILE_SIZE`] of a file is read, and FIFOs and devices are not opened.
//!
//! **A change counts once two looks in a row show it**, 200 ms apart: a file that is being
//! written is not read, and one that an editor moves away for a moment is not missed.
//!
//! **A pod does not end because of a mistake.** While a file cannot be read or its manifest is
//! refused, the pod of its earlier content is wanted still; while the folder cannot be read, all
//! are. Only a file that is not there any more, in a folder that can be read, ends its pod; or
//! one whose new content is another pod. If all files are gone at once, the file system of the folder
//! may not be mounted: an empty folder of another device or inode ends no pod, and otherwise they
//! must be gone for 30 s, unless it was a single file.
//!
//! **One pod, one file.** Where several files define a pod of the same namespace and name, the
//! one that did so first is used, and at the same time the first by name. When it goes, the next
//! one is used.
//!
//! **Looks, not inotify.** A thousand files are listed in a few milliseconds, a folder has ten;
//! and looks work on network file systems and through swapped links, on a folder that is made
//! later, and need no second way for when the kernel's queue overflows. A kubelet uses inotify
//! because its looks are 20 s apart.

mod scan;
mod state;

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pleg::model::id::PodRef;
use tokio::sync::mpsc;

use crate::manifest::Refused;
use crate::spec::PodSpec;
pub use scan::MAX_FILE_SIZE;
use state::State;

/// How many changes wait for the reader before the next look waits, too.
const MAX_WAITING: usize = 64;

/// How long all files must be gone before that counts, if they went at once.
pub(crate) const ALL_GONE_FOR: Duration = Duration::from_secs(30);

/// How often the folder is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From one look to the next.
    pub calm: Duration,
    /// From a look that shows something new to the one that confirms it.
    pub unsettled: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            calm: Duration::from_secs(1),
            unsettled: Duration::from_millis(200),
        }
    }
}

/// A change of what is wanted, or of what is known to be wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// This pod is wanted from now on, in place of any other of its namespace and name.
    Set {
        /// The pod.
        spec: Arc<PodSpec>,
        /// The name of its file.
        file: Arc<str>,
    },
    /// This pod, which was [set](Change::Set), is not wanted any more.
    Removed {
        /// The pod.
        pod: PodRef,
        /// The name of its file.
        file: Arc<str>,
    },
    /// Something is wrong: reported once, and again when something else is wrong with the same.
    Problem {
        /// With what.
        subject: Subject,
        /// What.
        trouble: Trouble,
        /// The pod of the file's earlier content, which is wanted still.
        kept: Option<PodRef>,
    },
    /// Nothing is wrong any more.
    Solved {
        /// With what.
        subject: Subject,
    },
    /// All files were looked at, and what is wanted is complete. Reported once.
    Synced,
}

/// With what something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The folder.
    Folder(PathBuf),
    /// A file in it, by its name.
    File(Arc<str>),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::File(name) => f.write_str(name),
        }
    }
}

/// What is wrong with the folder, or with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot be read, and why.
    Unreadable(String),
    /// Another folder, which is empty, is in its place, as where a file system was unmounted.
    Replaced,
    /// All its files are gone at once, for less than 30 s.
    AllGone,
    /// It is a FIFO, a socket or a device.
    NotAFile,
    /// It is larger than [`MAX_FILE_SIZE`].
    TooLarge,
    /// It was another one at each look, so that it was never read.
    NeverTheSame,
    /// Its manifest is not used.
    Refused(Refused),
    /// Another file defines the pod already.
    Taken {
        /// The pod.
        pod: PodRef,
        /// The name of the other file.
        by: Arc<str>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, trouble, kept) = match self {
            Self::Set { spec, file } => return write!(f, "{file}: pod {} is wanted", spec.pod),
            Self::Removed { pod, file } => {
                return write!(f, "{file}: pod {pod} is not wanted any more");
            }
            Self::Solved { subject } => return write!(f, "{subject}: problem solved"),
            Self::Synced => return f.write_str("all manifests are read"),
            Self::Problem {
                subject,
                trouble,
                kept,
            } => (subject, trouble, kept),
        };
        match trouble {
            Trouble::Unreadable(why) => write!(f, "{subject}: cannot be read: {why}")?,
            Trouble::Replaced => write!(
                f,
                "{subject}: another directory is in its place, which is empty: \
                 mount its file system, or put a manifest into it"
            )?,
            Trouble::AllGone => write!(
                f,
                "{subject}: all manifests are gone at once: their pods end if none is back within {} s",
                ALL_GONE_FOR.as_secs()
            )?,
            Trouble::NotAFile => write!(f, "{subject}: not a regular file")?,
            Trouble::TooLarge => write!(f, "{subject}: larger than {MAX_FILE_SIZE} bytes")?,
            Trouble::NeverTheSame => {
                write!(f, "{subject}: not read yet, because it keeps changing")?;
            }
            // Each of its lines begins with the file's name.
            Trouble::Refused(refused) => write!(f, "{refused}")?,
            Trouble::Taken { pod, by } => {
                write!(f, "{subject}: pod {pod} is already defined by {by}")?;
            }
        }
        match (kept, subject) {
            (Some(pod), _) => write!(f, "\n{subject}: pod {pod} is kept as it was"),
            (None, Subject::Folder(_)) => write!(f, "\n{subject}: all pods are kept"),
            (None, Subject::File(_)) => Ok(()),
        }
    }
}

/// A folder that is watched.
#[derive(Debug)]
pub struct Folder {
    changes: mpsc::Receiver<Change>,
    /// Never sent on: when it is dropped, the thread ends.
    _stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Folder {
    /// Begins to watch a folder, whose pods are for this node. The folder need not exist yet.
    pub fn open(path: impl Into<PathBuf>, node: &str) -> io::Result<Self> {
        Self::open_with(path, node, Pace::default())
    }

    /// The same, at another pace.
    pub fn open_with(path: impl Into<PathBuf>, node: &str, pace: Pace) -> io::Result<Self> {
        let (path, state) = (path.into(), State::new(node));
        let (sender, changes) = mpsc::channel(MAX_WAITING);
        let (stop, stopped) = channel();
        // The folder may lie on a disk that is gone, and then no look ever returns.
        let thread = thread::Builder::new()
            .name("manifests".to_owned())
            .spawn(move || watch(&path, state, pace, &sender, &stopped))?;
        Ok(Self {
            changes,
            _stop: stop,
            thread: Some(thread),
        })
    }

    /// One whose changes are told by a test.
    #[cfg(test)]
    pub(crate) fn told(changes: mpsc::Receiver<Change>) -> Self {
        Self {
            changes,
            _stop: channel().0,
            thread: None,
        }
    }

    /// Waits for the next change. Nothing is lost if this is cancelled.
    pub async fn next(&mut self) -> Change {
        if let Some(change) = self.changes.recv().await {
            return change;
        }
        // The thread ends before its reader only by a panic, which is everybody's.
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        std::future::pending().await
    }
}

fn watch(
    path: &Path,
    mut state: State,
    pace: Pace,
    changes: &mpsc::Sender<Change>,
    stopped: &Receiver<()>,
) {
    loop {
        for name in state.look(scan::list(path), Instant::now()) {
            let content = scan::read(path, &name);
            state.take(&name, content);
        }
        for change in state.changes(path) {
            if changes.blocking_send(change).is_err() {
                return;
            }
        }
        let pause = match state.is_settled() {
            true => pace.calm,
            false => pace.unsettled,
        };
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
