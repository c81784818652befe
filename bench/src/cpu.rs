//! Measuring: time on the CPU, medians, and where we are.

use std::hint::black_box;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Effort;

/// How long this thread was on a CPU: wake-ups, timers and the kernel's work for it
/// included.
///
/// The sum that `/proc/thread-self/schedstat` shows, but up to now; there it lags behind
/// by up to a tick, which is many relists.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The middle one; a machine that was disturbed once does not move it.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() % 2 {
        0 => f64::midpoint(samples[middle - 1], samples[middle]),
        _ => samples[middle],
    }
}

/// Nanoseconds that `work` takes, by this thread's time on the CPU: the median of several
/// batches.
pub fn nanos<T>(effort: Effort, mut work: impl FnMut() -> T) -> f64 {
    let mut batch = |count: u32| {
        let before = used();
        for _ in 0..count {
            black_box(work());
        }
        (used() - before).as_nanos() as f64 / f64::from(count)
    };
    // As many as fill the time of a batch; measuring that warms up as well.
    let warm = Instant::now();
    let mut count = 0_u32;
    while warm.elapsed() < effort.batch {
        batch(1);
        count += 1;
    }
    median((0..effort.batches).map(|_| batch(count)).collect())
}

/// Says on a terminal what is being measured; nothing into a file or a log.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
        }
    }

    pub fn say(&self, what: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{what} …");
        }
    }

    pub fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}
