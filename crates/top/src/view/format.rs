//! Text for the screen: safe against control sequences of a runtime, durations with few digits, and
//! `…` where text is cut.

use std::time::Duration;

use pleg::model::wall_time::WallTime;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

const NANOS_OF_DAY: i64 = 86_400_000_000_000;

/// A duration in two units at most: `12ms`, `3.2s`, `41s`, `1m53s`, `2h5m`, `3d4h`.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() == 0 && !duration.is_zero() => "<1ms".to_owned(),
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// The duration without fractions of a second, for values that are shown anew each second.
pub fn rounded_age(duration: Duration) -> String {
    age(Duration::from_secs(duration.as_secs()))
        .replace("0ms", "0s")
        .replace(".0s", "s")
}

/// The age for a number of seconds.
pub fn seconds(seconds: f64) -> String {
    age(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// The time of day in UTC, to the second.
pub fn clock(time: WallTime) -> String {
    formatted(time, "%H:%M:%S")
}

/// The time of day in UTC, to the millisecond.
pub fn precise_clock(time: WallTime) -> String {
    formatted(time, "%H:%M:%S%.3f")
}

/// The time of day with month and day in front. The help page shows the year.
pub fn dated_clock(time: WallTime) -> String {
    formatted(time, "%m-%d %H:%M:%S")
}

/// The time with month and day, to the millisecond.
pub fn dated_precise_clock(time: WallTime) -> String {
    formatted(time, "%m-%d %H:%M:%S%.3f")
}

fn formatted(time: WallTime, format: &str) -> String {
    time.timestamp().strftime(format).to_string()
}

/// The time of day, with month and day in front if it is of another day than `now`.
pub fn clock_at(time: WallTime, now: WallTime) -> String {
    match is_same_day(time, now) {
        true => clock(time),
        false => dated_clock(time),
    }
}

/// The time of day to the millisecond, with month and day in front if it is of another day than `now`.
pub fn precise_clock_at(time: WallTime, now: WallTime) -> String {
    match is_same_day(time, now) {
        true => precise_clock(time),
        false => dated_precise_clock(time),
    }
}

/// Whether two times are of the same day in UTC.
pub fn is_same_day(one: WallTime, other: WallTime) -> bool {
    let day = |time: WallTime| time.as_unix_nanos().div_euclid(NANOS_OF_DAY);
    day(one) == day(other)
}

/// Foreign text, made safe to show and cut to this width.
pub fn printable(text: &str, width: usize) -> String {
    fit(&pleg_text::escape::printable(text), width)
}

/// Text that is safe to show already, cut to this width.
pub fn fit(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut fitting = String::new();
    let mut room = width.saturating_sub(1);
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        let wide = Span::raw(grapheme.symbol).width();
        if wide > room {
            break;
        }
        room -= wide;
        fitting.push_str(grapheme.symbol);
    }
    if width > 0 {
        fitting.push('…');
    }
    fitting
}

/// A sentence, made safe to show, on as many lines as it needs.
pub fn wrapped(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    indented(text, width, "", style)
}

/// The wrapped sentence with a mark in front of its first line, and the other lines indented.
pub fn indented(text: &str, width: u16, mark: &str, style: Style) -> Vec<Line<'static>> {
    let text = pleg_text::escape::sentence(text);
    let below = " ".repeat(mark.chars().count());
    let options = textwrap::Options::new(usize::from(width.max(1)))
        .initial_indent(mark)
        .subsequent_indent(&below);
    let lines = textwrap::wrap(&text, options).into_iter();
    let styled = lines.map(|line| Line::styled(line.into_owned(), style));
    styled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (12, "12ms"),
            (3_250, "3.2s"),
            (41_900, "41s"),
            (113_000, "1m53s"),
            (7_500_000, "2h5m"),
            (273_600_000, "3d4h"),
        ] {
            assert_eq!(age(Duration::from_millis(millis)), text);
        }
        assert_eq!(age(Duration::from_nanos(1)), "<1ms");
        assert_eq!(rounded_age(Duration::from_millis(9_999)), "9s");
        assert_eq!(rounded_age(Duration::from_millis(999)), "0s");
        assert_eq!(rounded_age(Duration::from_secs(10)), "10s");
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_ends_with_an_ellipsis() {
        assert_eq!(fit("web-0", 5), "web-0");
        assert_eq!(fit("web-10", 5), "web-…");
        assert_eq!(fit("名前名前", 5), "名前…");
        assert_eq!(fit("名前名前", 4), "名…");
        assert_eq!(fit("x", 0), "");
        assert_eq!(printable("a\u{1b}[2Jb", 40), "a\\u{1b}[2Jb");
    }
}
