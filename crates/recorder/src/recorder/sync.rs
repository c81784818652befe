//! The thread that makes written entries survive a power cycle, which is the usual remedy for a
//! stuck node. It is not the thread that writes: a sync may take any time, and entries that are
//! recorded meanwhile must reach the kernel, so that a kill of the process does not lose them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::store::Unsynced;

/// How a file or a directory is synced: `File::sync_all`, except in tests.
pub type SyncFile = Box<dyn Fn(&File) -> io::Result<()> + Send>;

/// Requests syncs.
pub(super) struct Syncer(Sender<Arc<Unsynced>>);

impl Syncer {
    /// Starts the thread, which ends when this value is dropped.
    pub(super) fn start(sync: SyncFile) -> io::Result<Self> {
        let (requests, received) = channel();
        let thread = thread::Builder::new().name("history-sync".to_owned());
        thread.spawn(move || run(&received, &sync))?;
        Ok(Self(requests))
    }

    /// Requests a sync of a segment. Never waits: a segment that already waits for its sync is not
    /// queued again.
    pub(super) fn request(&self, segment: &Arc<Unsynced>) {
        if segment.enqueue() {
            // The thread ends only by a panic, which is in the log.
            let _ = self.0.send(segment.clone());
        }
    }
}

fn run(requests: &Receiver<Arc<Unsynced>>, sync: &SyncFile) {
    let mut is_failing = false;
    while let Ok(segment) = requests.recv() {
        let file = segment.dequeue();
        // Unless its directory is synced, a new file has no name after a power cycle.
        let folder = segment.path.parent().unwrap_or(Path::new("."));
        let synced = sync(file).and_then(|()| sync(&File::open(folder)?));
        if let Err(error) = &synced
            && !is_failing
        {
            let path = segment.path.display();
            tracing::warn!(
                "history may not survive a power cycle: {path} cannot be synced: {error}"
            );
        }
        is_failing = synced.is_err();
    }
}
