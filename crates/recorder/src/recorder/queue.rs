//! The queue between the daemon and the thread that writes: bounded in bytes, and its lock is never
//! held while anything waits for a disk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pleg::model::wall_time::WallTime;

use crate::{Loss, Lost};

/// The maximum number of queued bytes. A quiet node takes more than an hour to fill the queue.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// When this many bytes are queued, they are written without delay.
const WRITE_EARLY_BYTES: usize = MAX_BYTES / 8;

/// The memory of an entry in addition to its JSON.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// An entry that is to be written.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) time: WallTime,
    pub(super) json: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// Signals that entries are to be written, or that the queue is closed.
    changed: Condvar,
    /// Signals that the queue is closed, or that an entry is to be written at once.
    urgent: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<Queued>,
    /// The size of the queued entries, and of those that were taken and are not written yet.
    bytes: usize,
    /// Losses that are not recorded yet: at most one for each reason.
    lost: Vec<Lost>,
    /// Whether the queued entries are to be written at once.
    is_urgent: bool,
    /// Why nothing can be written now.
    fault: Option<Loss>,
    is_closed: bool,
}

/// The entries that are to be written next.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) entries: VecDeque<Queued>,
    pub(super) lost: Vec<Lost>,
    /// Whether the entries were to be written at once, and therefore are to be synced.
    pub(super) is_urgent: bool,
}

impl Queued {
    /// The memory that the entry takes.
    pub(super) fn bytes(&self) -> usize {
        self.json.len() + ENTRY_OVERHEAD_BYTES
    }
}

impl Queue {
    /// Adds an entry, unless it does not fit.
    pub(super) fn push(&self, time: WallTime, json: Vec<u8>, is_urgent: bool) -> Result<(), Loss> {
        let queued = Queued { time, json };
        let mut inner = self.lock();
        if inner.bytes + queued.bytes() > MAX_BYTES {
            return Err(inner.fault.unwrap_or(Loss::SlowDisk));
        }
        inner.bytes += queued.bytes();
        inner.entries.push_back(queued);
        inner.is_urgent |= is_urgent || inner.bytes >= WRITE_EARLY_BYTES;
        let is_urgent = inner.is_urgent;
        drop(inner);
        self.changed.notify_one();
        if is_urgent {
            self.urgent.notify_one();
        }
        Ok(())
    }

    /// Counts a lost entry, to be recorded later.
    pub(super) fn lose(&self, since: WallTime, why: Loss) {
        let lost = &mut self.lock().lost;
        match lost.iter_mut().find(|lost| lost.why == why) {
            Some(lost) => lost.entries += 1,
            None => lost.push(Lost {
                entries: 1,
                since,
                why,
            }),
        }
    }

    /// Waits for entries, and takes all that are queued; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Batch> {
        let inner = self.lock();
        let waiting = self.changed.wait_while(inner, |inner| {
            inner.entries.is_empty() && inner.lost.is_empty() && !inner.is_closed
        });
        let mut inner = waiting.unwrap_or_else(PoisonError::into_inner);
        let batch = Batch {
            is_urgent: std::mem::take(&mut inner.is_urgent),
            entries: std::mem::take(&mut inner.entries),
            lost: std::mem::take(&mut inner.lost),
        };
        (!batch.entries.is_empty() || !batch.lost.is_empty()).then_some(batch)
    }

    /// Releases the memory of entries that were taken.
    pub(super) fn release(&self, bytes: usize) {
        self.lock().bytes -= bytes;
    }

    /// Sets why nothing can be written from now on, or that writing is possible again.
    pub(super) fn set_fault(&self, fault: Option<Loss>) {
        self.lock().fault = fault;
    }

    /// Waits for `pause`, or until the queue is closed. Returns whether it is closed.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        self.wait(pause, |inner| !inner.is_closed)
    }

    /// Waits for `pause`, so that more entries are written together. Ends early if an entry is to
    /// be written at once.
    pub(super) fn gather(&self, pause: Duration) {
        self.wait(pause, |inner| !inner.is_closed && !inner.is_urgent);
    }

    /// Waits while the condition holds, at most for `pause`. Returns whether the queue is closed.
    fn wait(&self, pause: Duration, condition: impl Fn(&Inner) -> bool) -> bool {
        let waited = self
            .urgent
            .wait_timeout_while(self.lock(), pause, |inner| condition(inner));
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.is_closed
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
        self.urgent.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
