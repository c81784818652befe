//! Measures the latency that the guard adds to calls that it passes on at once: from the end of the
//! request until it is sent to the runtime, and from the end of the answer until it is sent back.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The upper bounds of the buckets, in seconds.
const BUCKET_BOUNDS: [f64; 13] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1,
];

/// A histogram of the added latency, for one thread.
#[derive(Debug, Default)]
pub(super) struct Added {
    /// The number of calls in each bucket, and above the last bound.
    counts: [Cell<u64>; BUCKET_BOUNDS.len() + 1],
    sum: Cell<f64>,
}

impl Added {
    fn observe(&self, seconds: f64) {
        let bucket = BUCKET_BOUNDS.partition_point(|bound| *bound < seconds);
        let count = &self.counts[bucket];
        count.set(count.get() + 1);
        self.sum.set(self.sum.get() + seconds);
    }

    /// The histogram as the guard's service reports it.
    pub(super) fn shown(&self) -> guard_api::Added {
        guard_api::Added {
            bounds: BUCKET_BOUNDS.to_vec(),
            counts: self.counts.iter().map(Cell::get).collect(),
            sum: self.sum.get(),
        }
    }
}

/// The measurement of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    began: Instant,
    /// How long it took to send the call; `None` until it is sent.
    sent: Option<Duration>,
}

impl Passage {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            sent: None,
        }
    }

    /// Records that the call was sent to the runtime.
    pub(super) fn sent(&mut self) {
        self.sent = Some(self.began.elapsed());
    }

    /// Ends the measurement: the answer, which was complete at `answered`, is sent back. A call that
    /// was never sent is not counted.
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
    fn each_call_is_in_the_bucket_of_its_duration() {
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
