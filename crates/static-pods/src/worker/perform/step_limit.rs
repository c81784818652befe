//! Limits the number of steps that are performed at once. A hundred parallel calls do not start a
//! hundred pods faster, but need most of the memory. A slow step gives up its place and continues,
//! so that a stuck call delays no other step.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many steps are performed at once.
const MAX_CONCURRENT_STEPS: usize = 8;

/// The time after which a step no longer counts. It is longer than a step takes while
/// [`MAX_CONCURRENT_STEPS`] run on two cores.
const SLOW_STEP_AFTER: Duration = Duration::from_secs(2);

/// The free places for steps.
pub(super) struct StepLimit(Semaphore);

impl StepLimit {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(MAX_CONCURRENT_STEPS))
    }

    /// Waits for a free place, and then calls `start` and runs its future.
    pub(super) async fn perform<T, F: Future<Output = T>>(&self, start: impl FnOnce() -> F) -> T {
        let place = self.0.acquire().await.expect("it is never closed");
        let mut work = Box::pin(start());
        if let Ok(done) = timeout(SLOW_STEP_AFTER, &mut work).await {
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
    async fn the_number_of_concurrent_steps_is_limited_and_stuck_steps_do_not_count() {
        let step_limit = Arc::new(StepLimit::new());
        for _ in 0..MAX_CONCURRENT_STEPS {
            let step_limit = step_limit.clone();
            tokio::spawn(async move { step_limit.perform(pending::<()>).await });
        }
        let (busy, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let start = Instant::now();
        let steps = (0..10 * MAX_CONCURRENT_STEPS).map(|_| {
            let (step_limit, busy, max) = (step_limit.clone(), busy.clone(), max.clone());
            tokio::spawn(async move {
                let work = || async {
                    max.fetch_max(busy.fetch_add(1, Relaxed) + 1, Relaxed);
                    sleep(Duration::from_millis(100)).await;
                    busy.fetch_sub(1, Relaxed);
                };
                step_limit.perform(work).await;
            })
        });
        for step in steps.collect::<Vec<_>>() {
            step.await.unwrap();
        }
        assert_eq!(max.load(Relaxed), MAX_CONCURRENT_STEPS);
        let elapsed = start.elapsed() - SLOW_STEP_AFTER;
        assert!(elapsed < Duration::from_millis(1100), "{elapsed:?}");
    }
}
