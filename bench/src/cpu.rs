//! Measuring: CPU time, medians, and progress.

use std::hint::black_box;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Effort;

/// The CPU time of this thread, including wake-ups, timers and the kernel's work for it.
///
/// `/proc/thread-self/schedstat` shows the same sum, but up to a tick late, and a tick is as long as many
/// relists.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The median: a single disturbance does not change it.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() % 2 {
        0 => f64::midpoint(samples[middle - 1], samples[middle]),
        _ => samples[middle],
    }
}

/// Nanoseconds of CPU time that `work` takes: the median of several batches.
pub fn nanos<T>(effort: Effort, mut work: impl FnMut() -> T) -> f64 {
    let mut batch = |count: u32| {
        let before = used();
        for _ in 0..count {
            black_box(work());
        }
        (used() - before).as_nanos() as f64 / f64::from(count)
    };
    // Determine how many calls of `work` fill the time of a batch. This also warms the caches.
    let warm = Instant::now();
    let mut count = 0_u32;
    while warm.elapsed() < effort.batch {
        batch(1);
        count += 1;
    }
    median((0..effort.batches).map(|_| batch(count)).collect())
}

/// Shows on a terminal what is being measured. Writes nothing to a file or a log.
#[derive(Debug)]
pub struct Progress {
    is_terminal: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub fn show(&self, step: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K{step} …");
        }
    }

    pub fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
