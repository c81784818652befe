//! A folder of manifests as a source of pods, by the rules of a kubelet's file source.
//!
//! ```text
//!   scan: list files, each second --> state: which files to read
//!                                       |  ^
//!   scan: read a file <-----------------+  |
//!     \--- manifest: parse or refuse ------+--> Set, Removed, Problem, Solved, Synced
//! ```
//!
//! **Files.** Each file in the folder is a manifest, whatever its extension, unless its name begins
//! with a dot. Subfolders are ignored. Symbolic links are followed, so if they lead through a
//! `..data` link, swapping that link changes the folder as a whole. At most [`MAX_FILE_SIZE`] of a
//! file is read, and FIFOs and devices are not opened.
//!
//! **A change counts when two scans in a row show it**, 200 ms apart. So a file is rarely read
//! while it is being written, and a file that an editor renames for a moment does not count as
//! removed.
//!
//! **A mistake ends no pod.** While a file cannot be read or its manifest is refused, the pod of
//! its previous content is kept. While the folder cannot be read, all pods are kept. A pod ends
//! only if the folder can be read and the file is missing or defines another pod. If all files are
//! missing at once, the file system of the folder may be unmounted. So an empty folder with another
//! device or inode ends no pod. Otherwise the files must be missing for 30 s, unless the same folder
//! contained a single file.
//!
//! **One pod, one file.** If several files define a pod with one namespace and name, the file that
//! did so first is used, or, if they appeared in one scan, the first by name. If that file is
//! removed, the next one is used.
//!
//! **Scans instead of inotify.** A scan of a thousand files takes a few milliseconds. Scans work on
//! network file systems, through swapped links and before the folder exists, and need no second
//! method for an overflow of the kernel's queue. A kubelet needs inotify because its scans are 20 s
//! apart.

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

/// How many changes are queued before the next scan waits for the receiver.
const MAX_QUEUED_CHANGES: usize = 64;

/// How long all files must be missing before their pods end, if the files disappeared at once.
pub(crate) const ALL_MISSING_FOR: Duration = Duration::from_secs(30);

/// The intervals between scans of the folder.
#[derive(Clone, Copy, Debug)]
pub struct ScanIntervals {
    /// The interval after a scan without a new change.
    pub settled: Duration,
    /// The interval after a scan with a change that the next scan must confirm.
    pub unsettled: Duration,
}

impl Default for ScanIntervals {
    fn default() -> Self {
        Self {
            settled: Duration::from_secs(1),
            unsettled: Duration::from_millis(200),
        }
    }
}

/// A change of the wanted pods or of the problems.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// This pod is wanted now, in place of any other with its namespace and name.
    Set {
        /// The pod.
        spec: Arc<PodSpec>,
        /// The name of its file.
        file: Arc<str>,
    },
    /// This pod, which was [set](Change::Set), is no longer wanted.
    Removed {
        /// The pod.
        pod: PodRef,
        /// The name of its file.
        file: Arc<str>,
    },
    /// A file or the folder has a problem. Reported once, and again if the problem changes.
    Problem {
        /// What has the problem.
        subject: Subject,
        /// The problem.
        problem: ProblemKind,
        /// The pod that the file defined before, which is kept.
        kept: Option<PodRef>,
    },
    /// A file or the folder has no problem any more.
    Solved {
        /// What had the problem.
        subject: Subject,
    },
    /// All files were read, and the wanted pods are complete. Reported once.
    Synced,
}

/// What has a problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The folder.
    Folder(PathBuf),
    /// A file in the folder, by its name.
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

/// A problem of the folder or of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// The folder or file cannot be read, for this reason.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// An empty folder is in place of the earlier one, for example because its file system was
    /// unmounted.
    #[error("an empty directory is in its place: mount its file system, or put a manifest into it")]
    Replaced,
    /// All files of the folder disappeared at once, less than 30 s ago.
    #[error(
        "all manifests disappeared at once: their pods end in {} s unless a manifest is back",
        ALL_MISSING_FOR.as_secs()
    )]
    AllMissing,
    /// The file is a FIFO, a socket or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file is larger than [`MAX_FILE_SIZE`].
    #[error("larger than {MAX_FILE_SIZE} bytes")]
    TooLarge,
    /// The file changed between every two scans, so it has not been read yet.
    #[error("not read yet, because it keeps changing")]
    KeepsChanging,
    /// The manifest is refused. Each line of the message begins with the file's name.
    #[error("{0}")]
    Refused(Refused),
    /// Another file already defines the pod.
    #[error("pod {pod} is already defined by {by}")]
    Taken {
        /// The pod.
        pod: PodRef,
        /// The name of the other file.
        by: Arc<str>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, problem, kept) = match self {
            Self::Set { spec, file } => return write!(f, "{file}: pod {} is wanted", spec.pod),
            Self::Removed { pod, file } => {
                return write!(f, "{file}: pod {pod} is no longer wanted");
            }
            Self::Solved { subject } => return write!(f, "{subject}: problem solved"),
            Self::Synced => return f.write_str("all manifests are read"),
            Self::Problem {
                subject,
                problem,
                kept,
            } => (subject, problem, kept),
        };
        match problem {
            ProblemKind::Refused(refused) => write!(f, "{refused}")?,
            problem => write!(f, "{subject}: {problem}")?,
        }
        match (kept, subject) {
            (Some(pod), _) => write!(f, "\n{subject}: pod {pod} is kept as it was"),
            (None, Subject::Folder(_)) => write!(f, "\n{subject}: all pods are kept"),
            (None, Subject::File(_)) => Ok(()),
        }
    }
}

/// A folder of manifests that a thread scans.
#[derive(Debug)]
pub struct Folder {
    changes: mpsc::Receiver<Change>,
    /// Dropping this ends the thread.
    _stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Folder {
    /// Starts to scan a folder for the node `node`. The folder need not exist yet.
    pub fn open(path: impl Into<PathBuf>, node: &str) -> io::Result<Self> {
        Self::open_with(path, node, ScanIntervals::default())
    }

    /// Like [`Self::open`], with other intervals.
    pub fn open_with(
        path: impl Into<PathBuf>,
        node: &str,
        intervals: ScanIntervals,
    ) -> io::Result<Self> {
        let (path, state) = (path.into(), State::new(node));
        let (sender, changes) = mpsc::channel(MAX_QUEUED_CHANGES);
        let (stop, stopped) = channel();
        // A thread of its own, because a scan of a folder on a failed disk may never return.
        let thread = thread::Builder::new()
            .name("manifests".to_owned())
            .spawn(move || watch(&path, state, intervals, &sender, &stopped))?;
        Ok(Self {
            changes,
            _stop: stop,
            thread: Some(thread),
        })
    }

    /// A folder whose changes a test sends.
    #[cfg(test)]
    pub(crate) fn from_changes(changes: mpsc::Receiver<Change>) -> Self {
        Self {
            changes,
            _stop: channel().0,
            thread: None,
        }
    }

    /// Waits for the next change. Dropping the future loses no change.
    pub async fn next(&mut self) -> Change {
        if let Some(change) = self.changes.recv().await {
            return change;
        }
        // The thread ends before its receiver only if it panics. The panic is passed on.
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        std::future::pending().await
    }
}

fn watch(
    path: &Path,
    mut state: State,
    intervals: ScanIntervals,
    changes: &mpsc::Sender<Change>,
    stopped: &Receiver<()>,
) {
    loop {
        for name in state.scanned(scan::list(path), Instant::now()) {
            let content = scan::read(path, &name);
            state.read(&name, content);
        }
        for change in state.changes(path) {
            if changes.blocking_send(change).is_err() {
                return;
            }
        }
        let pause = match state.is_settled() {
            true => intervals.settled,
            false => intervals.unsettled,
        };
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
