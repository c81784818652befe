//! Records the entries of a daemon, which must not wait for a disk.
//!
//! ```text
//!   record(entry) --> queue: 4 MB of JSON --> thread: frames, events gathered --> Store
//!        |  full                                 |  error                        |  no event
//!        v                                       v                               v
//!     lost: counted, recorded later        back-off, 1 s to 1 min,         thread: fsync
//!                                          with a new segment
//! ```
//!
//! While writing fails, the queue keeps the oldest entries, and drops what does not fit.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pleg::model::wall_time::{WallClock, WallTime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::store::Limits;
use crate::{Entry, Loss};

mod queue;
mod sync;
mod thread;

use queue::Queue;
pub use sync::SyncFile;
use sync::Syncer;
use thread::Writer;

/// Events within this time after a write are gathered and then written together, because a write
/// costs more than all other work for an entry. So `kill -9` loses at most the events of this time.
/// Every other entry is written at once and then synced: above all a change of health, and the
/// status that belongs to it.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a stop waits for the last entries. A daemon stops within a second.
const STOP_TIMEOUT: Duration = Duration::from_millis(300);

/// Records entries until it is dropped.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    ended: oneshot::Receiver<()>,
}

/// The state that the recorder and its thread share.
#[derive(Debug, Default)]
struct Shared {
    queue: Queue,
    counters: Counters,
    /// Whether all pods must be recorded, because a segment was begun or events were lost.
    needs_pods: AtomicBool,
}

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    written: AtomicU64,
    lost: AtomicU64,
}

/// How much was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The size of all segments on the disk.
    pub bytes: u64,
    /// The number of entries that were written.
    pub written: u64,
    /// The number of entries that were lost.
    pub lost: u64,
}

impl Recorder {
    /// Starts a thread that writes to this folder. Events are written at the latest when
    /// `write_interval` has passed since the last write. An error of the disk is not returned: the
    /// thread logs it and retries.
    pub fn start(
        folder: PathBuf,
        limits: Limits,
        write_interval: Duration,
        clock: WallClock,
    ) -> std::io::Result<Self> {
        let sync = Box::new(File::sync_all);
        Self::start_with(folder, limits, write_interval, clock, sync)
    }

    /// Like [`start`](Self::start), with another way to sync files.
    pub fn start_with(
        folder: PathBuf,
        limits: Limits,
        write_interval: Duration,
        clock: WallClock,
        sync: SyncFile,
    ) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (end, ended) = oneshot::channel();
        let syncer = Syncer::start(sync)?;
        let writer = Writer::new(
            folder,
            limits,
            write_interval,
            clock,
            syncer,
            shared.clone(),
        );
        let thread = std::thread::Builder::new().name("history".to_owned());
        thread.spawn(move || {
            writer.run();
            // The receiver may be gone; ignore the error.
            let _ = end.send(());
        })?;
        Ok(Self { shared, ended })
    }

    /// Records an entry. Never waits for the disk.
    pub fn record(&self, entry: &Entry) {
        let Ok(json) = serde_json::to_vec(entry) else {
            // This never happens, because all keys of an entry are text.
            self.shared.lose(entry.time, Loss::WriteError);
            return;
        };
        // Events are not urgent, because there may be many.
        let is_urgent = entry.as_event().is_none();
        if let Err(why) = self.shared.queue.push(entry.time, json, is_urgent) {
            self.shared.lose(entry.time, why);
        }
    }

    /// Whether an entry with all pods is due, because a segment was begun or events were lost.
    /// Returns true once.
    pub fn take_pods_request(&self) -> bool {
        self.shared.needs_pods.swap(false, Ordering::Relaxed)
    }

    /// How much was recorded.
    pub fn written(&self) -> Written {
        let counters = &self.shared.counters;
        Written {
            bytes: counters.bytes.load(Ordering::Relaxed),
            written: counters.written.load(Ordering::Relaxed),
            lost: counters.lost.load(Ordering::Relaxed),
        }
    }

    /// Stops the recorder. Writes what is in the queue if the disk responds within a short time.
    pub async fn stop(mut self) {
        self.shared.queue.close();
        if timeout(STOP_TIMEOUT, &mut self.ended).await.is_err() {
            tracing::warn!("the end of the history was not written: the disk does not respond");
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Shared {
    fn lose(&self, time: WallTime, why: Loss) {
        self.counters.lost.fetch_add(1, Ordering::Relaxed);
        self.queue.lose(time, why);
    }
}
