//! A running guard, for the process that runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// A running guard. It ends when the last clone is dropped, or stopped.
#[derive(Clone, Debug)]
pub struct Handle {
    beats: Arc<AtomicU64>,
    /// Closed when its thread ends.
    running: watch::Receiver<()>,
    _stop: Arc<oneshot::Sender<()>>,
}

impl Handle {
    pub(crate) fn new(
        beats: Arc<AtomicU64>,
        running: watch::Receiver<()>,
        stop: oneshot::Sender<()>,
    ) -> Self {
        Self {
            beats,
            running,
            _stop: Arc::new(stop),
        }
    }

    /// How often the guard's thread has said that it turns: once a second.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Ends the guard: it saves what it knows. A disk that does not respond in time is not waited for.
    pub async fn stop(self, within: Duration) {
        let running = self.running.clone();
        drop(self);
        // After this time the process may end all the same.
        let _ = timeout(within, has_ended(running)).await;
    }

    /// When the guard's thread has ended, which it does not do by itself.
    pub async fn ended(&self) {
        has_ended(self.running.clone()).await;
    }
}

async fn has_ended(mut running: watch::Receiver<()>) {
    while running.changed().await.is_ok() {}
}
