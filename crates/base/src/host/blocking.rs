//! Reads of the host that may block for ever: `/proc/PID/cgroup` takes `cgroup_mutex` on kernels before
//! 6.8, and a directory may be on an unreachable disk.
//!
//! Each read runs in a thread of its own, with a deadline. A read that does not return is left alone.
//! While [`MAX_BLOCKED_READS`] reads do not return, no other one begins.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How many reads may be under way at once, including those that never return.
const MAX_BLOCKED_READS: usize = 8;

/// Runs reads that may block.
#[derive(Clone, Debug)]
pub struct Blocking {
    places: Arc<Semaphore>,
}

impl Default for Blocking {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_BLOCKED_READS)),
        }
    }
}

impl Blocking {
    /// An instance that begins nothing while an earlier read or write has not returned.
    pub fn one_at_a_time() -> Self {
        Self {
            places: Arc::new(Semaphore::new(1)),
        }
    }

    /// Runs `read` in a thread and returns its result; `None` if it did not return, or could not begin,
    /// within `deadline`.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let answered = async {
            let place = self.places.clone().acquire_owned().await.ok()?;
            let (answer, answered) = oneshot::channel();
            // Not a thread of tokio's pool: tokio waits for those at shutdown.
            let spawned = thread::Builder::new()
                .name("blocking".to_owned())
                .spawn(move || {
                    // After the deadline the receiver is gone; ignore the error.
                    let _ = answer.send(read());
                    drop(place);
                });
            spawned.ok()?;
            answered.await.ok()
        };
        timeout(deadline, answered).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn what_never_returns_is_left_alone_and_so_many_at_most() {
        let blocking = Blocking::default();
        let (release, never) = mpsc::channel::<()>();
        let never = Arc::new(std::sync::Mutex::new(never));
        for _ in 0..MAX_BLOCKED_READS {
            let never = never.clone();
            let read = move || never.lock().map(|never| never.recv().is_ok()).ok();
            assert!(blocking.run(SOON, read).await.is_none());
        }
        assert_eq!(blocking.run(SOON, || 1).await, None, "all threads hang");
        drop(release);
        assert_eq!(blocking.run(SOON * 100, || 1).await, Some(1));
    }
}
