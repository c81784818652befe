//! Adds the year and the zone to times without them, from other lines of the input.

use jiff::tz::Offset;
use pleg_text::WallTime;

use super::stamp::{SECOND, Stamp};

const DAY: i64 = 86_400 * SECOND;

/// The year and the time zone that an input shows for lines without them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calendar {
    /// When the file was last modified, or now, in nanoseconds: no line is much later.
    latest: i64,
    /// The day of `latest`: year, month and day.
    latest_day: (i16, i8, i8),
    /// The year in the last line that had one.
    year: Option<i16>,
    /// The offset in the last line that had one.
    offset: Option<i32>,
}

impl Calendar {
    /// A calendar of an input whose last line is not much later than this.
    pub fn until(latest: WallTime) -> Self {
        let day = Offset::UTC.to_datetime(latest.timestamp());
        Self {
            latest: latest.as_unix_nanos(),
            latest_day: (day.year(), day.month(), day.day()),
            year: None,
            offset: None,
        }
    }

    /// Whether a line contained the year.
    pub fn has_year(&self) -> bool {
        self.year.is_some()
    }

    /// Remembers the year and the offset of a line for lines without them.
    pub fn learn(&mut self, stamp: &Stamp) {
        self.year = stamp.year.or(self.year);
        self.offset = stamp.offset.or(self.offset);
    }

    /// Nanoseconds since 1970, with missing parts added; `None` for a day that does not exist.
    pub fn resolve(&self, stamp: &Stamp) -> Option<i64> {
        let (latest_year, month, day) = self.latest_day;
        let day = stamp.day.unwrap_or((month, day));
        let at = |year: i16| {
            let offset = i64::from(stamp.offset.or(self.offset).unwrap_or(0));
            stamp.nanos_on(year, day)?.checked_sub(offset * SECOND)
        };
        if stamp.day.is_none() {
            // The last such time before `latest`.
            let today = at(latest_year)?;
            return Some(if today > self.latest {
                today - DAY
            } else {
                today
            });
        }
        if let Some(year) = stamp.year.or(self.year) {
            return at(year);
        }
        let this_year = at(latest_year).filter(|time| *time <= self.latest.saturating_add(DAY));
        this_year.or_else(|| at(latest_year - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_OF_2023: i64 = 1_700_000_000_000_000_000;

    fn of_day(month: i8, day: i8) -> Option<i64> {
        let stamp = Stamp {
            day: Some((month, day)),
            ..Stamp::default()
        };
        Calendar::until(WallTime::from_unix_nanos(END_OF_2023)?).resolve(&stamp)
    }

    #[test]
    fn a_date_without_a_year_is_not_in_the_future() {
        let resolved = of_day(12, 30).and_then(WallTime::from_unix_nanos);
        let shown = resolved.map(|time| time.to_string());
        assert_eq!(shown.as_deref(), Some("2022-12-30T00:00:00.000000000Z"));
    }

    #[test]
    fn a_day_that_does_not_exist_is_not_a_time() {
        for (month, day) in [(13, 40), (2, 29), (4, 31), (0, 1), (1, 0)] {
            assert_eq!(of_day(month, day), None, "{month} {day}");
        }
    }
}
