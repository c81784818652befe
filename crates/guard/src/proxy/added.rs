//! What the guard adds to the calls that pass at once: from a request's end to its way to the runtime,
//! and from the answer's end to its way back.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// From ten microseconds to what a caller begins to feel, in seconds.
const BOUNDS: [f64; 13] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1,
];

/// A histogram, for one thread.
#[derive(Debug, Default)]
pub(super) struct Added {
    /// How many calls are in each bucket, and in none.
    counts: [Cell<u64>; BOUNDS.len() + 1],
    sum: Cell<f64>,
}

impl Added {
    fn observe(&self, seconds: f64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        let count = &self.counts[bucket];
        count.set(count.get() + 1);
        self.sum.set(self.sum.get() + seconds);
    }

    /// What was measured until now.
    pub(super) fn shown(&self) -> guard_api::Added {
        guard_api::Added {
            bounds: BOUNDS.to_vec(),
            counts: self.counts.iter().map(Cell::get).collect(),
            sum: self.sum.get(),
        }
    }
}

/// A call on its way through the guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    began: Instant,
    /// How long it took until it was sent, once it was.
    sent: Option<Duration>,
}

impl Passage {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            sent: None,
        }
    }

    /// It is on its way to the runtime.
    pub(super) fn sent(&mut self) {
        self.sent = Some(self.began.elapsed());
    }

    /// The answer, which was complete at this time, is on its way back. What was never sent was
    /// not passed.
    pub(super) fn ended(&self, answered: Instant, added: &Added) {
        if let Some(sent) = self.sent {
            added.observe((sent + answered.elapsed()).as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_in_the_bucket_that_bounds_it() {
        let added = Added::default();
        for seconds in [1e-5, 2e-5, 0.09, 7.0] {
            added.observe(seconds);
        }
        let shown = added.shown();
        assert_eq!(shown.counts[..3], [1, 1, 0]);
        assert_eq!(shown.counts[12..], [1, 1]);
        assert!((shown.sum - 7.09003).abs() < 1e-9, "{}", shown.sum);
    }
}
