//! The thread that makes what was written survive a power cycle, which is the usual remedy for a stuck
//! node. It is not the thread that writes: a sync may take as long as the disk likes, and what is
//! recorded meanwhile must reach the kernel, where a kill of the process does not lose it.

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
    /// Starts the thread, which ends with this value.
    pub(super) fn start(sync: SyncFile) -> io::Result<Self> {
        let (requests, received) = channel();
        let thread = thread::Builder::new().name("history-sync".to_owned());
        thread.spawn(move || run(&received, &sync))?;
        Ok(Self(requests))
    }

    /// Requests that a segment is synced. Never waits: a segment that waits for its sync already is
    /// not queued again.
    pub(super) fn request(&self, segment: &Arc<Unsynced>) {
        if segment.enqueue() {
            // The thread ends by a panic alone, which the log has.
            let _ = self.0.send(segment.clone());
        }
    }
}

fn run(requests: &Receiver<Arc<Unsynced>>, sync: &SyncFile) {
    let mut is_failing = false;
    while let Ok(segment) = requests.recv() {
        let file = segment.dequeue();
        // Without its directory, a new file has no name after a power cycle.
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
