//! Reads of the host that may block for ever: `/proc/PID/cgroup` takes `cgroup_mutex` on
//! kernels before 6.8, a folder may lie on a disk that is gone.
//!
//! Each is done in a thread of its own and waited for so long at most; one that does not
//! return is left alone, and while [`MOST`] of them do not, no further one is begun.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How many reads may be under way at once, those that never return included.
const MOST: usize = 8;

/// Does what may block.
#[derive(Clone, Debug)]
pub struct Blocking {
    places: Arc<Semaphore>,
}

impl Default for Blocking {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MOST)),
        }
    }
}

impl Blocking {
    /// One that begins nothing while an earlier read, or write, has not returned.
    pub fn one_at_a_time() -> Self {
        Self {
            places: Arc::new(Semaphore::new(1)),
        }
    }

    /// Runs `read` in a thread, and gives what it returned; `None` if it has not after
    /// `deadline`, or could not be begun until then.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let answered = async {
            let place = self.places.clone().acquire_owned().await.ok()?;
            let (answer, answered) = oneshot::channel();
            // A thread of its own, and not one of tokio's: those are waited for at the end.
            let spawned = thread::Builder::new()
                .name("blocking".to_owned())
                .spawn(move || {
                    // Nobody listens any more after the deadline.
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
        for _ in 0..MOST {
            let never = never.clone();
            let read = move || never.lock().map(|never| never.recv().is_ok()).ok();
            assert!(blocking.run(SOON, read).await.is_none());
        }
        assert_eq!(blocking.run(SOON, || 1).await, None, "all threads hang");
        drop(release);
        assert_eq!(blocking.run(SOON * 100, || 1).await, Some(1));
    }
}
