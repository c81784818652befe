//! Writes segments. Any error ends a [`Store`]; the next one begins a new segment, because the
//! last frame of the old one may be torn.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pleg::model::wall_time::WallTime;

use super::Limits;
use super::clock::{Now, Steadiness};
use super::segment::{self, HEADER_BYTES};

/// The name of the file on which the writer of a folder holds a lock.
const LOCK: &str = "lock";

/// The interval at which old segments are removed, in addition to the beginning of each segment.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

/// Why nothing can be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// Another process writes in this folder.
    #[error("another agent records in this directory")]
    InUse,
    /// The folder was removed.
    #[error("the directory was removed")]
    Removed,
    /// The disk returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A folder of segments, and the current segment.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    limits: Limits,
    /// Dropping the file releases the lock.
    _lock: File,
    /// The sequence number of the next segment.
    next: u64,
    current: Option<Current>,
    /// The size of all segments but the current one.
    older_bytes: u64,
    /// When old segments were last removed.
    pruned: Now,
    steadiness: Steadiness,
}

/// A segment for the thread that syncs it.
#[derive(Debug)]
pub(crate) struct Unsynced {
    pub(crate) path: PathBuf,
    file: File,
    is_queued: AtomicBool,
}

impl Unsynced {
    /// Marks the segment as waiting for a sync; false if it was marked already.
    pub(crate) fn enqueue(&self) -> bool {
        !self.is_queued.swap(true, Ordering::AcqRel)
    }

    /// Takes the file that is to be synced now. What is written after this call needs another sync.
    pub(crate) fn dequeue(&self) -> &File {
        self.is_queued.store(false, Ordering::Release);
        &self.file
    }
}

/// The current segment.
#[derive(Debug)]
struct Current {
    segment: Arc<Unsynced>,
    bytes: u64,
    begun: Now,
}

impl Store {
    /// Opens the folder, which is created if it does not exist. Existing segments are not appended
    /// to.
    pub(crate) fn open(folder: &Path, limits: Limits, now: Now) -> Result<Self, WriteError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        let lock = lock(folder)?;
        let last = segment::list(folder)?.last().map_or(0, |it| it.sequence);
        let mut store = Self {
            folder: folder.to_owned(),
            limits,
            _lock: lock,
            next: last.saturating_add(1),
            current: None,
            older_bytes: 0,
            pruned: now,
            steadiness: Steadiness::new(now),
        };
        store.prune(0, now)?;
        Ok(store)
    }

    /// Appends all or none of these whole frames. Returns whether they are the first of a segment.
    pub(crate) fn append(&mut self, frames: &[u8], now: Now) -> Result<bool, WriteError> {
        self.steadiness.observe(now);
        let length = frames.len() as u64;
        if self.needs_new_segment(length, now) {
            self.current = None;
            self.prune(self.limits.segment_bytes().max(length), now)?;
        } else if now.elapsed >= self.pruned.elapsed + PRUNE_INTERVAL {
            self.prune(0, now)?;
        }
        let is_new = self.current.is_none();
        let current = match &mut self.current {
            Some(current) => current,
            none => none.insert(Current::begin(&self.folder, self.next, now)?),
        };
        if is_new {
            self.next = self.next.saturating_add(1);
        }
        current.append(frames)?;
        Ok(is_new)
    }

    /// The current segment.
    pub(crate) fn current(&self) -> Option<&Arc<Unsynced>> {
        self.current.as_ref().map(|current| &current.segment)
    }

    /// The size of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.older_bytes + self.current.as_ref().map_or(0, |current| current.bytes)
    }

    fn needs_new_segment(&self, more: u64, now: Now) -> bool {
        self.current.as_ref().is_some_and(|current| {
            let is_full = current.bytes + more > self.limits.segment_bytes();
            is_full || now.elapsed >= current.begun.elapsed + self.limits.segment_age()
        })
    }

    /// Removes old segments until `more` bytes can be written, and counts the size of the others.
    fn prune(&mut self, more: u64, now: Now) -> io::Result<()> {
        self.pruned = now;
        let written = self.current().map(|segment| &segment.path);
        let mut older = Vec::new();
        for segment in segment::list(&self.folder)? {
            // Another process may remove it at any time.
            let Ok(metadata) = fs::symlink_metadata(&segment.path) else {
                continue;
            };
            if Some(&segment.path) == written || !metadata.is_file() {
                continue;
            }
            let nanos = metadata.mtime().saturating_mul(1_000_000_000);
            let age = WallTime::from_unix_nanos(nanos).map(|written| now.wall.since(written));
            let age = age.filter(|_| self.steadiness.is_steady(now));
            older.push((segment.path, (metadata.len(), age)));
        }
        let sizes: Vec<_> = older.iter().map(|(_, size)| *size).collect();
        let current = self.current.as_ref().map_or(0, |current| current.bytes);
        let surplus = self.limits.surplus(&sizes, more + current);
        for (path, _) in &older[..surplus] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.older_bytes = sizes[surplus..].iter().map(|(bytes, _)| bytes).sum();
        Ok(())
    }
}

impl Current {
    fn begin(folder: &Path, sequence: u64, now: Now) -> io::Result<Self> {
        let path = folder.join(segment::name(sequence, now.wall));
        let mut file = segment::create(&path)?;
        if let Err(error) = file.write_all(&segment::header()) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let segment = Unsynced {
            path,
            file,
            is_queued: AtomicBool::new(false),
        };
        Ok(Self {
            segment: Arc::new(segment),
            bytes: HEADER_BYTES as u64,
            begun: now,
        })
    }

    fn append(&mut self, frames: &[u8]) -> Result<(), WriteError> {
        // What is written to a removed file cannot be read.
        let mut file = &self.segment.file;
        if file.metadata()?.nlink() == 0 {
            return Err(WriteError::Removed);
        }
        if let Err(error) = file.write_all(frames) {
            self.undo();
            return Err(error.into());
        }
        self.bytes += frames.len() as u64;
        Ok(())
    }

    /// Removes a partly written frame, or the file if no other frame is in it. If that fails too,
    /// readers skip the frame.
    fn undo(&self) {
        let _ = match self.bytes > HEADER_BYTES as u64 {
            true => self.segment.file.set_len(self.bytes),
            false => fs::remove_file(&self.segment.path),
        };
    }
}

/// Whether an agent records in this folder now: it holds the lock. An agent that starts during this
/// check finds the lock taken, and retries a second later.
pub fn is_being_recorded(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn lock(folder: &Path) -> Result<File, WriteError> {
    let mut options = File::options();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(WriteError::InUse),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}
