//! Who performs a step when: so many at once. A hundred pods that begin together are not made any
//! faster by a hundred calls side by side, and these would take most of the memory. Nobody waits for
//! a call that hangs: whoever takes long gives up his place, and goes on.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many steps are performed side by side.
const AT_ONCE: usize = 8;

/// A step that takes longer counts no more: more than each of so many takes on a node of two cores.
const PROMPT: Duration = Duration::from_secs(2);

/// The places of those who perform a step.
pub(super) struct Turns(Semaphore);

impl Turns {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }

    /// Does what `begin` gives, once there is a place. Only then is anything made of it.
    pub(super) async fn perform<T, F: Future<Output = T>>(&self, begin: impl FnOnce() -> F) -> T {
        let place = self.0.acquire().await.expect("it is never closed");
        let mut work = Box::pin(begin());
        if let Ok(done) = timeout(PROMPT, &mut work).await {
            return done;
        }
        drop(place);
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_at_once_and_whoever_hangs_holds_up_nobody() {
        let turns = Arc::new(Turns::new());
        for _ in 0..AT_ONCE {
            let turns = turns.clone();
            tokio::spawn(async move { turns.perform(pending::<()>).await });
        }
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let began = Instant::now();
        let steps = (0..10 * AT_ONCE).map(|_| {
            let (turns, busy, most) = (turns.clone(), busy.clone(), most.clone());
            tokio::spawn(async move {
                let work = || async {
                    most.fetch_max(busy.fetch_add(1, Relaxed) + 1, Relaxed);
                    sleep(Duration::from_millis(100)).await;
                    busy.fetch_sub(1, Relaxed);
                };
                turns.perform(work).await;
            })
        });
        for step in steps.collect::<Vec<_>>() {
            step.await.unwrap();
        }
        assert_eq!(most.load(Relaxed), AT_ONCE);
        let took = began.elapsed() - PROMPT;
        assert!(took < Duration::from_millis(1100), "{took:?}");
    }
}
