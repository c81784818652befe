//! The thread that writes. A disk may block it for any length of time.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pleg::model::backoff::Backoff;
use pleg::model::wall_time::WallClock;

use super::Shared;
use super::queue::{Batch, Queued};
use super::sync::Syncer;
use crate::store::{Framer, Limits, Now, Store, WriteError};
use crate::{Entry, Loss, Recorded};

/// The maximum size of one write.
const MAX_CHUNK_BYTES: usize = 256 << 10;

/// The intervals between attempts to write, while writing fails.
const RETRY_PAUSES: Backoff = Backoff::new(Duration::from_secs(1), 2, Duration::from_secs(60));

pub(super) struct Writer {
    folder: PathBuf,
    limits: Limits,
    write_interval: Duration,
    clock: WallClock,
    started: Instant,
    framer: Framer,
    syncer: Syncer,
    shared: Arc<Shared>,
    /// `None` before the first attempt and after each error.
    store: Option<Store>,
    /// The intervals of the retries while writing fails.
    failing: Option<Backoff>,
}

/// Frames that are written with one system call.
#[derive(Default)]
struct Chunk {
    frames: Vec<u8>,
    entries: u64,
    /// The size of the entries in the queue.
    queued: usize,
}

/// The queue was closed while nothing could be written.
struct Closed;

impl Writer {
    pub(super) fn new(
        folder: PathBuf,
        limits: Limits,
        write_interval: Duration,
        clock: WallClock,
        syncer: Syncer,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            folder,
            limits,
            write_interval,
            clock,
            started: Instant::now(),
            framer: Framer::default(),
            syncer,
            shared,
            store: None,
            failing: None,
        }
    }

    /// Writes until the queue is closed and empty, or closed while nothing can be written.
    pub(super) fn run(mut self) {
        while let Some(batch) = self.shared.queue.take() {
            if self.write_batch(batch).is_err() {
                return;
            }
            self.shared.queue.gather(self.write_interval);
        }
    }

    /// Writes a batch. Losses are written after the entries that were queued when they happened.
    fn write_batch(&mut self, batch: Batch) -> Result<(), Closed> {
        let Batch {
            mut entries,
            lost,
            is_urgent,
        } = batch;
        while !entries.is_empty() {
            let chunk = self.chunk(&mut entries);
            self.write(&chunk)?;
            if is_urgent && let Some(segment) = self.store.as_ref().and_then(Store::current) {
                self.syncer.request(segment);
            }
            self.shared.queue.release(chunk.queued);
        }
        for lost in lost {
            // Exits during this time are not reported again, so all pods are recorded.
            if lost.why != Loss::TooLarge {
                self.shared.needs_pods.store(true, Ordering::Relaxed);
            }
            let (time, what) = ((self.clock)(), Recorded::Lost(lost));
            let json = serde_json::to_vec(&Entry { time, what }).unwrap_or_default();
            let mut chunk = Chunk::default();
            if let Ok(frame) = self.framer.frame(time, &json) {
                chunk.add(&frame);
            }
            self.write(&chunk)?;
        }
        Ok(())
    }

    /// Takes the first entries, as many as one write may have, and makes their frames.
    fn chunk(&mut self, entries: &mut VecDeque<Queued>) -> Chunk {
        let mut chunk = Chunk::default();
        while chunk.frames.len() < MAX_CHUNK_BYTES
            && let Some(entry) = entries.pop_front()
        {
            chunk.queued += entry.bytes();
            match self.framer.frame(entry.time, &entry.json) {
                Ok(frame) => chunk.add(&frame),
                Err(why) => self.shared.lose(entry.time, why),
            }
        }
        chunk
    }

    /// Writes the frames; retries until that succeeds.
    fn write(&mut self, chunk: &Chunk) -> Result<(), Closed> {
        if chunk.frames.is_empty() {
            return Ok(());
        }
        while let Err(error) = self.append(&chunk.frames) {
            let pause = self.failed(&error);
            if self.shared.queue.pause(pause) {
                return Err(Closed);
            }
        }
        self.succeeded(chunk.entries);
        Ok(())
    }

    fn append(&mut self, frames: &[u8]) -> Result<(), WriteError> {
        let now = Now {
            elapsed: self.started.elapsed(),
            wall: (self.clock)(),
        };
        let mut store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.folder, self.limits, now)?,
        };
        if store.append(frames, now)? {
            self.shared.needs_pods.store(true, Ordering::Relaxed);
        }
        let bytes = &self.shared.counters.bytes;
        bytes.store(store.bytes(), Ordering::Relaxed);
        self.store = Some(store);
        Ok(())
    }

    fn succeeded(&mut self, entries: u64) {
        let written = &self.shared.counters.written;
        written.fetch_add(entries, Ordering::Relaxed);
        if self.failing.take().is_some() {
            self.shared.queue.set_fault(None);
            let lost = self.shared.counters.lost.load(Ordering::Relaxed);
            tracing::info!("history is recorded again; {lost} entries were lost since the start");
        }
    }

    /// Records a failure, and returns how long to wait before the next attempt.
    fn failed(&mut self, error: &WriteError) -> Duration {
        // The next attempt creates the directory.
        if self.failing.is_none() && matches!(error, WriteError::Removed) {
            self.failing = Some(RETRY_PAUSES);
            return Duration::ZERO;
        }
        if self.failing.is_none() {
            let folder = self.folder.display();
            tracing::warn!("history cannot be recorded in {folder}: {error}");
        }
        self.shared.queue.set_fault(Some(loss(error)));
        self.failing.get_or_insert(RETRY_PAUSES).next()
    }
}

impl Chunk {
    fn add(&mut self, frame: &[u8]) {
        self.frames.extend_from_slice(frame);
        self.entries += 1;
    }
}

fn loss(error: &WriteError) -> Loss {
    match error {
        WriteError::Io(error) => match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Loss::FullDisk,
            _ => Loss::WriteError,
        },
        WriteError::InUse | WriteError::Removed => Loss::WriteError,
    }
}
