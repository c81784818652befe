//! Moments on the monotonic clock and as a time of day. No decision depends on the time of day, so
//! setting the machine's clock changes no event. Code that needs the time of day takes a [`WallClock`].
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::model::wall_time::{Moment, system_clock};
//! use tokio::time::Instant;
//!
//! let clock = system_clock();
//! let now = Moment { instant: Instant::now(), wall: clock() };
//! let later = Moment { instant: now.instant + Duration::from_secs(5), ..now };
//! assert_eq!(now.wall.since(later.back_at(now.instant).wall), Duration::from_secs(5));
//! ```

use std::sync::Arc;

pub use pleg_text::WallTime;
use tokio::time::Instant;

/// One moment on both clocks. Decisions use `instant`; `wall` is for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time on the monotonic clock.
    pub instant: Instant,
    /// The time of day.
    pub wall: WallTime,
}

impl Moment {
    /// The moment at `instant` of the monotonic clock, computed from this one.
    pub fn back_at(self, instant: Instant) -> Self {
        let ago = self.instant.saturating_duration_since(instant);
        Self {
            instant,
            wall: self.wall.before(ago),
        }
    }
}

/// Returns the time of day.
pub type WallClock = Arc<dyn Fn() -> WallTime + Send + Sync>;

/// The machine's clock.
pub fn system_clock() -> WallClock {
    Arc::new(WallTime::now)
}
