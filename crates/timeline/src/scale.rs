//! The marks of a time axis.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pleg_text::{GoDuration, WallTime};

use crate::Picture;

/// Readable distances between marks, in seconds.
const STEPS: [i64; 21] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    604_800, MONTH, QUARTER,
];

const MONTH: i64 = 30 * 86_400;
const QUARTER: i64 = 3 * MONTH;
const YEAR: i64 = 365 * 86_400;

/// From this duration on, the title shows the duration in days.
const SHOWN_IN_DAYS_FROM: Duration = Duration::from_secs(3 * 86_400);

/// A mark of the axis: its position and its text.
pub(crate) struct Mark {
    /// The position, from 0 to 1.
    pub at: f64,
    /// A time or a day.
    pub text: String,
}

/// Returns marks at round times, such that at most `max` of their distances fit the picture.
pub(crate) fn marks(picture: &Picture, max: usize) -> Vec<Mark> {
    let whole = picture.spans().as_secs_f64();
    let begin = picture.from.as_unix_seconds();
    let fits = |step: &&i64| whole / (**step as f64) <= max as f64;
    let in_years = (whole / (max as f64 * YEAR as f64)).ceil() as i64 * YEAR;
    let step = *STEPS.iter().find(fits).unwrap_or(&in_years);
    let first = (begin / step as f64).ceil() as i64;
    let marks = (first..).map(|number| number * step);
    let shown = marks.take_while(|second| *second as f64 <= begin + whole);
    let mark = |second: i64| Mark {
        at: (second as f64 - begin) / whole,
        text: text(second, step),
    };
    shown.take(max + 1).map(mark).collect()
}

fn text(second: i64, step: i64) -> String {
    let Ok(time) = Timestamp::from_second(second) else {
        return String::new();
    };
    let time = time.to_zoned(TimeZone::UTC);
    let is_midnight = second.rem_euclid(86_400) == 0;
    let form = match step {
        MONTH.. => "%-d %b %Y",
        _ if is_midnight => "%-d %b",
        60.. => "%H:%M",
        _ => "%H:%M:%S",
    };
    time.strftime(form).to_string()
}

/// The time and duration of a picture: `6 May 2024, 12:29:55 to 12:36:00 UTC (6m5s)`.
pub(crate) fn title(picture: &Picture) -> String {
    let zoned = |time: WallTime| time.timestamp().to_zoned(TimeZone::UTC);
    let (from, to) = (zoned(picture.from), zoned(picture.to));
    let end = match from.date() == to.date() {
        true => "%H:%M:%S UTC",
        false => "%-d %B %Y, %H:%M:%S UTC",
    };
    let spans = Duration::from_secs(picture.spans().as_secs().max(1));
    let spans = match spans < SHOWN_IN_DAYS_FROM {
        true => GoDuration(spans).to_string(),
        false => format!("{} days", spans.as_secs() / 86_400),
    };
    format!(
        "{} to {} ({})",
        from.strftime("%-d %B %Y, %H:%M:%S"),
        to.strftime(end),
        spans
    )
}

#[cfg(test)]
mod tests {
    use episodes::{Episode, What};

    use super::*;

    fn picture(seconds: i64) -> Picture {
        let at = |second: i64| WallTime::from_unix_nanos(second * 1_000_000_000).unwrap();
        let from = 1_714_997_395; // 6 May 2024, 12:09:55
        let episode = Episode::new(at(from), Some(at(from + seconds)), What::NotReady, "");
        Picture::new("", vec![episode]).unwrap()
    }

    #[test]
    fn marks_are_at_round_times_and_never_too_close() {
        let texts = |seconds| -> Vec<String> {
            let marks = marks(&picture(seconds), 6);
            assert!(marks.len() <= 7 && marks.iter().all(|mark| (0.0..=1.0).contains(&mark.at)));
            marks.into_iter().map(|mark| mark.text).collect()
        };
        assert_eq!(
            texts(10),
            ["12:09:56", "12:09:58", "12:10:00", "12:10:02", "12:10:04"]
        );
        assert_eq!(texts(1500), ["12:10", "12:15", "12:20", "12:25", "12:30"]);
        assert_eq!(texts(86_400), ["18:00", "7 May", "06:00", "12:00"]);
        let month = ["17 May 2024", "16 Jun 2024", "16 Jul 2024"];
        assert_eq!(texts(100 * 86_400), month);
        let years = texts(9 * YEAR);
        assert_eq!(years.len(), 4, "{years:?}");
        assert!(years[0].ends_with(" 2025") && years[3].ends_with(" 2031"));
    }

    #[test]
    fn the_title_shows_the_day_and_the_duration() {
        assert_eq!(
            title(&picture(365)),
            "6 May 2024, 12:09:55 to 12:16:00 UTC (6m5s)"
        );
        assert_eq!(
            title(&picture(86_400)),
            "6 May 2024, 12:09:55 to 7 May 2024, 12:09:55 UTC (24h0m0s)"
        );
    }
}
