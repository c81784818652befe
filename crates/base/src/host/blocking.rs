//! Reads of the host that may block forever: `/proc/PID/cgroup` takes `cgroup_mutex` on kernels before 6.8,
//! and a directory may be on an unreachable disk.
//!
//! Each read has a deadline and, while it runs, a thread of its own. A read that does not return is
//! abandoned, but its thread stays. While [`MAX_BLOCKED_READS`] reads have not returned, no other read
//! begins.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How many reads may run at once, including those that never return.
const MAX_BLOCKED_READS: usize = 8;

type Read = Box<dyn FnOnce() + Send>;

/// Runs reads that may block.
#[derive(Clone, Debug)]
pub struct Blocking {
    places: Arc<Semaphore>,
    /// The thread of the read that returned last, which waits for the next read. It ends when this sender is
    /// dropped. A new thread would cost more than most reads, and a PID.
    idle: Arc<Mutex<Option<mpsc::Sender<Read>>>>,
}

impl Default for Blocking {
    fn default() -> Self {
        Self::with_places(MAX_BLOCKED_READS)
    }
}

impl Blocking {
    /// Creates an instance that begins no read or write until the previous one has returned.
    pub fn one_at_a_time() -> Self {
        Self::with_places(1)
    }

    fn with_places(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            idle: Arc::default(),
        }
    }

    /// Runs `read` in another thread, and returns its result; `None` if it panicked, or if it did not begin
    /// and return within `deadline`.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let answered = async {
            let place = self.places.clone().acquire_owned().await.ok()?;
            let (answer, answered) = oneshot::channel();
            let thread = self.thread()?;
            let (idle, this) = (self.idle.clone(), thread.clone());
            let read = move || {
                let result = read();
                if let Ok(mut idle) = idle.lock() {
                    *idle = Some(this);
                }
                drop(place);
                // After the deadline the receiver is gone; ignore the error.
                let _ = answer.send(result);
            };
            thread.send(Box::new(read)).ok()?;
            answered.await.ok()
        };
        timeout(deadline, answered).await.ok().flatten()
    }

    /// The idle thread, or a new one.
    fn thread(&self) -> Option<mpsc::Sender<Read>> {
        let idle = self.idle.lock().ok()?.take();
        idle.or_else(|| {
            let (thread, reads) = mpsc::channel::<Read>();
            // Not a thread of tokio's pool: tokio waits for those at shutdown.
            let builder = thread::Builder::new().name("blocking".to_owned());
            let spawned = builder.spawn(move || reads.into_iter().for_each(|read| read()));
            spawned.ok().map(|_| thread)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn reads_that_never_return_are_abandoned_and_their_number_is_limited() {
        let blocking = Blocking::default();
        let (release, never) = mpsc::channel::<()>();
        let never = Arc::new(Mutex::new(never));
        for _ in 0..MAX_BLOCKED_READS {
            let never = never.clone();
            let read = move || never.lock().map(|never| never.recv().is_ok()).ok();
            assert!(blocking.run(SOON, read).await.is_none());
        }
        assert_eq!(blocking.run(SOON, || 1).await, None, "all threads hang");
        drop(release);
        assert_eq!(blocking.run(SOON * 100, || 1).await, Some(1));
    }

    #[tokio::test]
    async fn successive_reads_use_one_thread_and_a_panic_ends_only_that_thread() {
        let blocking = Blocking::default();
        let this = || blocking.run(SOON * 100, || thread::current().id());
        let first = this().await;
        assert_eq!(this().await, first);
        let panicked: Option<()> = blocking.run(SOON * 100, || panic!("as a bug would")).await;
        assert_eq!(panicked, None);
        assert!(this().await.is_some_and(|id| Some(id) != first));
    }
}
