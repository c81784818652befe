//! What the guard adds to the calls that pass at once: from a request's end to its way to the runtime,
//! and from the answer's end to its way back.

use std::time::{Duration, Instant};

use prometheus::{Histogram, HistogramOpts};

/// From ten microseconds to what a caller begins to feel.
const BUCKETS: &[f64] = &[
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1,
];

/// The histogram, of which nothing is measured yet.
pub(super) fn histogram() -> prometheus::Result<Histogram> {
    let help = "What the guard added to a call that it passed to the runtime at once.";
    let options = HistogramOpts::new("pleg_guard_added_seconds", help);
    Histogram::with_opts(options.buckets(BUCKETS.to_vec()))
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
    pub(super) fn ended(&self, answered: Instant, added: &Histogram) {
        if let Some(sent) = self.sent {
            added.observe((sent + answered.elapsed()).as_secs_f64());
        }
    }
}
