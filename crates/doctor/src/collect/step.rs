//! A step of collecting in a thread of its own, with a deadline.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::facts::Missing;

/// A running step.
pub(super) struct Step<T> {
    result: Receiver<T>,
    start: Instant,
    limit: Duration,
}

impl<T: Send + 'static> Step<T> {
    /// Starts `work` in a thread.
    pub(super) fn start(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, result) = channel();
        // If the thread cannot be started, the sender is dropped.
        let _ = thread::Builder::new()
            .name("collect".to_owned())
            .spawn(move || sender.send(work()));
        Self {
            result,
            start: Instant::now(),
            limit,
        }
    }

    /// Waits for the result until the deadline, which is `limit` after the start. A step whose thread
    /// failed counts as overdue.
    pub(super) fn finish(self) -> Result<T, Missing> {
        let left = self.limit.saturating_sub(self.start.elapsed());
        let result = self.result.recv_timeout(left);
        result.map_err(|_| Missing::overdue(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_does_not_return_is_overdue() {
        let (_keep, never) = channel::<()>();
        let limit = Duration::from_millis(20);
        let step = Step::start(limit, move || never.recv().ok());
        assert_eq!(step.finish(), Err(Missing::overdue(limit)));
        assert_eq!(Step::start(Duration::from_secs(5), || 3).finish(), Ok(3));
    }
}
