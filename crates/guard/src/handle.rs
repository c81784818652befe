//! A running guard, for the process that runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// A running guard. It ends when the last clone is dropped or stopped.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) beats: Arc<AtomicU64>,
    /// Closed when the guard's thread ends.
    pub(crate) running: watch::Receiver<()>,
    /// Stops the guard when it is dropped.
    pub(crate) _stop: Arc<oneshot::Sender<()>>,
}

impl Handle {
    /// A counter that the event loop of the guard's thread increments once a second.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Stops the guard, if this is the last clone. The guard then saves its state. Waits for its
    /// end, at most for `within`.
    pub async fn stop(self, within: Duration) {
        let running = self.running.clone();
        drop(self);
        // After this time the process may exit anyway.
        let _ = timeout(within, has_ended(running)).await;
    }

    /// Returns when the guard's thread has ended, which happens only after an error.
    pub async fn ended(&self) {
        has_ended(self.running.clone()).await;
    }
}

async fn has_ended(mut running: watch::Receiver<()>) {
    while running.changed().await.is_ok() {}
}
