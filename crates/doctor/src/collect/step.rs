//! A step of collecting, in a separate thread, which is waited for until its deadline.

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

/// The step took too long, or its thread failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {0:?}")]
pub(super) struct Overdue(Duration);

impl From<&Overdue> for Missing {
    fn from(Overdue(limit): &Overdue) -> Self {
        Self::overdue(*limit)
    }
}

impl<T: Send + 'static> Step<T> {
    /// Starts it.
    pub(super) fn start(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, result) = channel();
        // If the thread cannot be started, the sender is dropped, which counts as overdue.
        let _ = thread::Builder::new()
            .name("collect".to_owned())
            .spawn(move || sender.send(work()));
        Self {
            result,
            start: Instant::now(),
            limit,
        }
    }

    /// Waits for it until its deadline, which counts from its start.
    pub(super) fn finish(self) -> Result<T, Overdue> {
        let left = self.limit.saturating_sub(self.start.elapsed());
        self.result
            .recv_timeout(left)
            .map_err(|_| Overdue(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_does_not_return_is_left_behind() {
        let (_keep, never) = channel::<()>();
        let limit = Duration::from_millis(20);
        let step = Step::start(limit, move || never.recv().ok());
        assert_eq!(step.finish(), Err(Overdue(limit)));
        assert_eq!(Step::start(Duration::from_secs(5), || 3).finish(), Ok(3));
    }
}
