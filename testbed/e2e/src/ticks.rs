//! How long this machine has run. A virtual machine may stand still for minutes, while its clocks go on:
//! that time is not of what a test measures.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);

/// Since the first call. A tick may be late, but two are never one.
static TICKS: AtomicU32 = AtomicU32::new(0);

/// A moment in the time in which the machine runs.
pub(crate) struct Ticks(u32);

impl Ticks {
    pub(crate) fn now() -> Self {
        static CLOCK: OnceLock<()> = OnceLock::new();
        CLOCK.get_or_init(|| {
            thread::spawn(|| {
                loop {
                    thread::sleep(TICK);
                    TICKS.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        Self(TICKS.load(Ordering::Relaxed))
    }

    /// How long the machine has run since.
    pub(crate) fn elapsed(&self) -> Duration {
        (TICKS.load(Ordering::Relaxed) - self.0) * TICK
    }
}
