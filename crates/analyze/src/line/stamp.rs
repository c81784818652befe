//! Times in lines: often without a year, sometimes without a date, mostly without a time zone. A
//! [`Calendar`](super::calendar::Calendar) adds what is missing, from the rest of the input.
//!
//! ```
//! use analyze::line::stamp;
//!
//! let taken = stamp::take(b"2021-01-09T19:48:52.46+08:00 kubelet");
//! let time = taken.map(|(time, _)| (time.year, time.day, time.offset));
//! assert_eq!(time, Some((Some(2021), Some((1, 9)), Some(8 * 3600))));
//! ```

use jiff::civil::Date;
use jiff::tz::Offset;
use pleg_text::WallTime;

use super::cursor::Cursor;
use super::months;

pub(super) const SECOND: i64 = 1_000_000_000;
/// Time zones differ by whole half hours, with three exceptions.
const HALF_HOUR: i64 = 1800;
/// The distance of the two zones that are farthest apart: UTC-12 and UTC+14.
const FARTHEST_ZONES: i64 = 26 * 3600;
/// How many seconds a line takes at most from its writer to its carrier, unless the carrier is late.
const AGREE: i64 = 5;

/// A time; parts of it may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The year, if it is written.
    pub year: Option<i16>,
    /// Month and day, if they are written.
    pub day: Option<(i8, i8)>,
    /// Seconds since midnight.
    pub second: u32,
    /// Nanoseconds of the second.
    pub nanos: u32,
    /// Seconds east of Greenwich, if they are written.
    pub offset: Option<i32>,
}

const WEEKDAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// The time at the start of the line, and what follows it.
pub fn take(line: &[u8]) -> Option<(Stamp, &[u8])> {
    let at = Cursor(line);
    let (stamp, rest) = match line {
        [b'0'..=b'9', ..] => iso(at)
            .or_else(|| of_unix(at))
            .or_else(|| clock_only(at))
            .or_else(|| named(at))?,
        [b'A'..=b'Z' | b'a'..=b'z' | 0x80.., ..] => named(at)?,
        _ => return None,
    };
    Some((stamp, rest.0))
}

type Taken<'a> = Option<(Stamp, Cursor<'a>)>;

/// `2021-01-09T19:48:52.460628029+08:00` and similar, also with slashes as in Go's log.
fn iso(mut at: Cursor<'_>) -> Taken<'_> {
    let year = at.number(4, 4)?;
    let dash = match at.eat(b'-') {
        Some(()) => b'-',
        None => at.eat(b'/').map(|()| b'/')?,
    };
    let month = at.number(2, 2)?;
    at.eat(dash)?;
    let day = at.number(2, 2)?;
    at.eat(b'T').or_else(|| at.eat(b' '))?;
    let (second, nanos) = clock(&mut at)?;
    let stamp = Stamp {
        year: i16::try_from(year).ok(),
        day: Some((i8::try_from(month).ok()?, i8::try_from(day).ok()?)),
        second,
        nanos,
        offset: zone(&mut at),
    };
    Some((stamp, at))
}

/// `May 05 13:59:56.872`, `Jan 4 11:56:31`, `Mon 2024-05-06 13:59:56 UTC`, `Mon May  5 13:59:56 2017`.
fn named(mut at: Cursor<'_>) -> Taken<'_> {
    let word = at.0.first_chunk::<3>()?;
    if WEEKDAYS.contains(&word) {
        at.0 = &at.0[3..];
        let _ = at.eat(b',');
        if at.spaces() == 0 {
            return None;
        }
        if let Some(taken) = iso(at) {
            return Some(taken);
        }
    } else if let Some(rest) = behind_weekday(at.0) {
        return iso(Cursor(rest));
    }
    let (month, rest) = months::take(at.0)?;
    at.0 = rest;
    if at.spaces() == 0 {
        return None;
    }
    let day = at.number(1, 2)?;
    if at.spaces() == 0 {
        return None;
    }
    let (second, nanos) = clock(&mut at)?;
    let mut behind = at;
    let year = behind.eat(b' ').and_then(|()| behind.number(4, 4));
    let year = year.filter(|year| (1990..2200).contains(year));
    let stamp = Stamp {
        year: year.and_then(|year| i16::try_from(year).ok()),
        day: Some((month, i8::try_from(day).ok()?)),
        second,
        nanos,
        offset: None,
    };
    Some((stamp, if year.is_some() { behind } else { at }))
}

/// What follows the weekday in `Di 2024-05-07 13:59:56 CEST` and `mar. 2024-05-07 13:59:56 CEST`, as
/// `journalctl -o short-full` prints it in any language.
fn behind_weekday(text: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b' ', &text[..text.len().min(12)])?;
    let rest = &text[end + 1..];
    let is_dated = rest.get(4) == Some(&b'-') && rest[..4].iter().all(u8::is_ascii_digit);
    let word = std::str::from_utf8(&text[..end])
        .ok()
        .filter(|_| is_dated)?;
    let word = word.trim_end_matches('.');
    (word.chars().count() <= 3 && word.chars().all(char::is_alphabetic)).then_some(rest)
}

/// `1714917596.123456`, as `journalctl -o short-unix` prints it.
fn of_unix(mut at: Cursor<'_>) -> Taken<'_> {
    let seconds = at.number(10, 10)?;
    at.eat(b'.')?;
    let nanos = i64::from(at.nanos());
    let stamp = Stamp::of_unix_nanos(i64::from(seconds) * SECOND + nanos)?;
    Some((stamp, at))
}

fn clock_only(mut at: Cursor<'_>) -> Taken<'_> {
    let (second, nanos) = clock(&mut at)?;
    let stamp = Stamp {
        second,
        nanos,
        ..Stamp::default()
    };
    Some((stamp, at))
}

/// `13:59:56.872880`, in seconds since midnight and nanoseconds.
fn clock(at: &mut Cursor) -> Option<(u32, u32)> {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = at.0 else {
        return None;
    };
    let number = |tens: &u8, ones: &u8| {
        let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
        is_number.then(|| u32::from((tens - b'0') * 10 + (ones - b'0')))
    };
    let (hour, minute, second) = (number(h1, h2)?, number(m1, m2)?, number(s1, s2)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut try_at = Cursor(rest);
    let point = try_at.eat(b'.').or_else(|| try_at.eat(b','));
    let nanos = point.map_or(0, |()| try_at.nanos());
    *at = try_at;
    Some((hour * 3600 + minute * 60 + second.min(59), nanos))
}

/// `Z`, `+08:00`, `+0800`, ` +0800 CST`, ` UTC`.
fn zone(at: &mut Cursor) -> Option<i32> {
    let mut try_at = *at;
    if try_at.eat(b'Z').is_some() {
        *at = try_at;
        return Some(0);
    }
    let _ = try_at.eat(b' ');
    if try_at.0.starts_with(b"UTC") || try_at.0.starts_with(b"GMT") {
        at.0 = &try_at.0[3..];
        return Some(0);
    }
    let sign = match try_at.0.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    try_at.0 = &try_at.0[1..];
    let hours = try_at.number(2, 2)?;
    let _ = try_at.eat(b':');
    let minutes = try_at.number(2, 2)?;
    if hours > 15 || minutes > 59 {
        return None;
    }
    *at = try_at;
    i32::try_from(hours * 3600 + minutes * 60)
        .ok()
        .map(|s| s * sign)
}

impl Stamp {
    /// Adds the year and the zone to a time that has neither, from the time of the line's carrier: the year
    /// in which the two times are closest, and the zone in which they agree. If no zone fits, the carrier
    /// is only late, and its zone is assumed.
    pub fn carried_by(self, carrier: &Self) -> Self {
        let (Some(year), Some(offset)) = (carrier.year, carrier.offset) else {
            return Self {
                year: carrier.year,
                offset: carrier.offset,
                ..self
            };
        };
        let carried = carrier.seconds_in(year);
        let ahead_in = |year| Some((year, self.seconds_in(year)? - carried?));
        let years = [year, year - 1, year + 1].into_iter().filter_map(ahead_in);
        let (year, ahead) = years
            .min_by_key(|(_, ahead)| ahead.abs())
            .unwrap_or((year, 0));
        let zone = (ahead + HALF_HOUR / 2).div_euclid(HALF_HOUR) * HALF_HOUR;
        let is_zone = (ahead - zone).abs() <= AGREE && zone.abs() <= FARTHEST_ZONES;
        let zone = i32::try_from(zone).ok().filter(|_| is_zone);
        Self {
            year: Some(year),
            offset: Some(offset + zone.unwrap_or(0)),
            ..self
        }
    }

    /// The time in this year, in seconds since 1970 as if it were in UTC.
    fn seconds_in(&self, year: i16) -> Option<i64> {
        Some(self.nanos_on(year, self.day?)?.div_euclid(SECOND))
    }

    /// The time on this day, in nanoseconds since 1970 as if it were in UTC; `None` for a day that does not
    /// exist.
    pub(super) fn nanos_on(&self, year: i16, (month, day): (i8, i8)) -> Option<i64> {
        let midnight = Date::new(year, month, day).ok()?.at(0, 0, 0, 0);
        let midnight = Offset::UTC.to_timestamp(midnight).ok()?.as_second();
        let nanos = (midnight + i64::from(self.second)).checked_mul(SECOND)?;
        nanos.checked_add(i64::from(self.nanos))
    }

    /// The time of klog's header: `1008 16:23:14.139967`.
    pub fn of_klog(text: &[u8]) -> Option<Self> {
        let mut at = Cursor(text);
        let month = at.number(2, 2)?;
        let day = at.number(2, 2)?;
        at.eat(b' ')?;
        let (second, nanos) = clock(&mut at)?;
        Some(Self {
            day: Some((i8::try_from(month).ok()?, i8::try_from(day).ok()?)),
            second,
            nanos,
            ..Self::default()
        })
    }

    /// A complete time, from nanoseconds since 1970.
    pub fn of_unix_nanos(nanos: i64) -> Option<Self> {
        let time = WallTime::from_unix_nanos(nanos)?.timestamp();
        let time = Offset::UTC.to_datetime(time);
        let second = nanos / SECOND % 86_400;
        Some(Self {
            year: Some(time.year()),
            day: Some((time.month(), time.day())),
            second: u32::try_from(second).ok()?,
            nanos: u32::try_from(time.subsec_nanosecond()).ok()?,
            offset: Some(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::calendar::Calendar;

    fn resolved(line: &str) -> String {
        let latest = WallTime::from_unix_nanos(1_700_000_000_000_000_000).unwrap();
        let (stamp, _) = take(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        let nanos = Calendar::until(latest).resolve(&stamp).unwrap();
        WallTime::from_unix_nanos(nanos).unwrap().to_string()
    }

    #[test]
    fn times_are_read_in_every_form() {
        for (line, time) in [
            ("May 05 13:59:56 host", "2023-05-05T13:59:56.000000000Z"),
            ("Jan 4 11:56:31 host", "2023-01-04T11:56:31.000000000Z"),
            ("Oct  8 16:29:51.25 w", "2023-10-08T16:29:51.250000000Z"),
            (
                "2021-01-09T19:48:52.460628029+08:00 x",
                "2021-01-09T11:48:52.460628029Z",
            ),
            ("2021-01-09T19:48:52Z x", "2021-01-09T19:48:52.000000000Z"),
            ("2021-01-09 19:48:52,5 x", "2021-01-09T19:48:52.500000000Z"),
            ("2021/01/09 19:48:52 x", "2021-01-09T19:48:52.000000000Z"),
            (
                "2021-01-09 19:48:52.4 +0800 CST m=+1",
                "2021-01-09T11:48:52.400000000Z",
            ),
            (
                "Mon 2024-05-06 13:59:56 UTC host",
                "2024-05-06T13:59:56.000000000Z",
            ),
            (
                "mar. 2024-05-07 13:59:56 UTC host",
                "2024-05-07T13:59:56.000000000Z",
            ),
            ("Okt  8 16:29:51 w", "2023-10-08T16:29:51.000000000Z"),
            (
                "Mon May  5 13:59:56 2017] x",
                "2017-05-05T13:59:56.000000000Z",
            ),
            ("1714917596.123456 host", "2024-05-05T13:59:56.123456000Z"),
            ("17:08:22.299597 kubelet", "2023-11-14T17:08:22.299597000Z"),
        ] {
            assert_eq!(resolved(line), time, "{line}");
        }
    }

    #[test]
    fn a_time_without_a_zone_is_in_the_zone_in_which_it_agrees_with_its_carrier() {
        for (carrier, own, time) in [
            (
                "2024-05-06T04:33:05.2Z",
                "0506 12:33:05.100000",
                "2024-05-06T04:33:05.1",
            ),
            (
                "2024-05-05T20:33:06.0Z",
                "0506 04:33:05.100000",
                "2024-05-05T20:33:05.1",
            ),
            (
                "2023-12-31T23:00:01.0Z",
                "0101 07:00:01.000000",
                "2023-12-31T23:00:01.0",
            ),
            (
                "2024-01-01T00:00:01.0Z",
                "1231 23:59:59.000000",
                "2023-12-31T23:59:59.0",
            ),
            (
                "2024-05-06T12:33:05+08:00",
                "0506 04:33:05.000000",
                "2024-05-06T04:33:05.0",
            ),
            // Six minutes late.
            (
                "2024-05-06T04:39:05.2Z",
                "0506 04:33:05.100000",
                "2024-05-06T04:33:05.1",
            ),
        ] {
            let (carrier, _) = take(carrier.as_bytes()).unwrap();
            let own = Stamp::of_klog(own.as_bytes()).unwrap();
            let latest = WallTime::from_unix_nanos(1_800_000_000_000_000_000).unwrap();
            let nanos = Calendar::until(latest).resolve(&own.carried_by(&carrier));
            let resolved = WallTime::from_unix_nanos(nanos.unwrap()).unwrap();
            assert!(resolved.to_string().starts_with(time), "{time}: {resolved}");
        }
    }

    #[test]
    fn other_text_is_not_a_time() {
        for line in [
            "",
            "May",
            "May 5",
            "2021-13",
            "25:00:00",
            "Mayor 05 13:59:56",
            "99:99:99",
        ] {
            assert_eq!(take(line.as_bytes()), None, "{line}");
        }
    }
}
