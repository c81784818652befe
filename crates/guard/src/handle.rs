//! A running guard, for the process that runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{oneshot, watch};

/// A running guard. It ends when the last clone is dropped.
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

    /// When the guard's thread has ended, which it does not do by itself.
    pub async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }
}
