//! A clock that stands still while this machine does. A virtual machine may be paused for minutes while its
//! other clocks continue, and a test must not measure that time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);

/// The number of ticks since the first call. A pause of the machine makes one tick late, and skips none.
static TICKS: AtomicU32 = AtomicU32::new(0);

/// A time on this clock.
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

    /// How long the machine has run since this time.
    pub(crate) fn elapsed(&self) -> Duration {
        (TICKS.load(Ordering::Relaxed) - self.0) * TICK
    }
}
