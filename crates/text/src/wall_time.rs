//! The time of day. It is displayed and recorded, and decides nothing.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize, Serializer};

/// A time of day. As text and in JSON it is RFC 3339 in UTC with nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct WallTime(Timestamp);

impl WallTime {
    /// The time that is `nanoseconds` after 1970. `None` for 0, which means "not yet" in CRI, for
    /// negative numbers, and for times outside the calendar. cri-dockerd and CRI-O send Go's zero
    /// time in place of 0, which overflows to the year 1754.
    pub fn from_unix_nanos(nanoseconds: i64) -> Option<Self> {
        let time = Timestamp::from_nanosecond(nanoseconds.into()).ok();
        time.filter(|_| nanoseconds > 0).map(Self)
    }

    /// Seconds since 1970.
    pub fn as_unix_seconds(self) -> f64 {
        self.0.as_nanosecond() as f64 / 1e9
    }

    /// Nanoseconds since 1970.
    pub fn as_unix_nanos(self) -> i64 {
        i64::try_from(self.0.as_nanosecond()).unwrap_or(i64::MAX)
    }

    /// The time from `earlier` to this; zero if `earlier` is later, for example because the clock
    /// was set back.
    pub fn since(self, earlier: Self) -> Duration {
        self.0
            .duration_since(earlier.0)
            .try_into()
            .unwrap_or_default()
    }

    /// The time of the machine's clock.
    pub fn now() -> Self {
        Self(Timestamp::now())
    }

    /// The time that is `ago` before this.
    pub fn before(self, ago: Duration) -> Self {
        Self(self.0.checked_sub(ago).unwrap_or(self.0))
    }

    /// The time that is `later` after this.
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.checked_add(later).unwrap_or(self.0))
    }

    /// This time plus `nanoseconds`, which may be negative.
    pub fn shifted(self, nanoseconds: i64) -> Self {
        let by = SignedDuration::from_nanos(nanoseconds);
        Self(self.0.checked_add(by).unwrap_or(self.0))
    }

    /// The underlying time stamp.
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for WallTime {
    fn from(time: Timestamp) -> Self {
        Self(time)
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}", self.0)
    }
}

impl Serialize for WallTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_nine_digits() {
        let time = WallTime::from_unix_nanos(1_700_000_000_120_000_000).unwrap();
        assert_eq!(time.to_string(), "2023-11-14T22:13:20.120000000Z");
        let json = serde_json::to_string(&time).unwrap();
        assert_eq!(json, "\"2023-11-14T22:13:20.120000000Z\"");
        assert_eq!(serde_json::from_str::<WallTime>(&json).unwrap(), time);
    }

    #[test]
    fn zero_and_the_zero_time_of_go_are_not_times() {
        const GO: i64 = -6_795_364_578_871_345_152;
        for none in [0, -5, GO, i64::MIN] {
            assert_eq!(WallTime::from_unix_nanos(none), None);
        }
        assert!(WallTime::from_unix_nanos(i64::MAX).is_some());
    }
}
