//! Both clocks: nothing here is decided by the time of day, so a step of it changes no event.
//! Whoever needs the time of day takes a [`WallClock`].

use std::sync::Arc;

pub use times::WallTime;
use tokio::time::Instant;

/// One moment on both clocks: decisions go by `instant`, `wall` is only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// On the monotonic clock.
    pub instant: Instant,
    /// The time of day.
    pub wall: WallTime,
}

impl Moment {
    /// The moment at which the monotonic clock showed `instant`, by the clocks of now.
    pub fn back_at(self, instant: Instant) -> Self {
        let ago = self.instant.saturating_duration_since(instant);
        Self {
            instant,
            wall: self.wall.before(ago),
        }
    }
}

/// Tells the time of day.
pub type WallClock = Arc<dyn Fn() -> WallTime + Send + Sync>;

/// The machine's clock.
pub fn system_clock() -> WallClock {
    Arc::new(WallTime::now)
}
