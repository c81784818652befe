//! Reads what a line reports about the PLEG.

use std::str::FromStr;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use pleg_text::GoDuration;

use super::THRESHOLD;
use crate::line::has;

/// What a line reports about the last relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The last relist began this long ago, which the kubelet compares with this threshold.
    Ago {
        /// The time since the last relist began, in nanoseconds.
        age: i64,
        /// The threshold, in nanoseconds.
        threshold: i64,
    },
    /// No relist has completed since the kubelet started.
    Never,
    /// The line was cut off before the duration.
    Cut,
}

/// The start of the message of a kubelet that has relisted.
pub const LAST_SEEN: &str = "pleg was last seen active";
/// Every line about an unhealthy PLEG contains this, unless the kubelet has not relisted yet.
static SENTENCE: LazyLock<Finder> = LazyLock::new(|| Finder::new(LAST_SEEN));
/// The message of a kubelet that has not relisted yet.
pub const NEVER: &str = "pleg has yet to be successful";

/// Before 1.14, a kubelet that had never relisted logged 292 years, the longest Go duration. Longer
/// durations than this mean never.
const MAX_AGE: i64 = 20 * 365 * 86_400 * super::SECOND;

impl Said {
    /// What the line says, if it is about the PLEG.
    pub fn of(line: &[u8]) -> Option<Self> {
        let Some(at) = SENTENCE.find(line) else {
            return has(line, NEVER).then_some(Self::Never);
        };
        let behind = &line[at + LAST_SEEN.len()..];
        let digits = behind.trim_ascii_start().first();
        let Some(b'0'..=b'9' | b'-') = digits else {
            // Source code contains `%v` here; a line that was cut off ends here, or with `>`.
            let cut = matches!(digits, None | Some(b'>') | Some(b'.'));
            return cut.then_some(Self::Cut);
        };
        let Some(age) = duration(behind) else {
            return Some(Self::Cut);
        };
        if age > MAX_AGE {
            return Some(Self::Never);
        }
        let near = &behind[..behind.len().min(100)];
        let limit = memchr::memchr(b';', near).map(|at| near[at + 1..].trim_ascii_start());
        let limit = limit.and_then(|text| text.strip_prefix(b"threshold is"));
        let usual = |text: &[u8]| text.starts_with(b" 3m0s").then_some(THRESHOLD);
        let threshold = limit.and_then(|text| usual(text).or_else(|| duration(text)));
        let threshold = threshold.filter(|threshold| *threshold > 0);
        Some(Self::Ago {
            age,
            threshold: threshold.unwrap_or(THRESHOLD),
        })
    }
}

/// A Go duration at the start of the text; `None` if copying has put spaces into it.
fn duration(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| !is_part(*byte));
    let (whole, rest) = text.split_at(end.unwrap_or(text.len()));
    if rest.starts_with(b" ") && !rest.starts_with(b" ago") {
        return None;
    }
    let read = || GoDuration::from_str(std::str::from_utf8(whole).ok()?).ok();
    usual(whole).or_else(|| i64::try_from(read()?.0.as_nanos()).ok())
}

/// The duration `16m6.502871305s`, whose form nearly all lines have.
fn usual(text: &[u8]) -> Option<i64> {
    let [minutes, rest] = split_at(text, b'm')?;
    let [seconds, rest] = split_at(rest, b'.')?;
    let fraction = rest.strip_suffix(b"s").filter(|it| it.len() == 9)?;
    let whole = number(minutes)? * 60 + number(seconds)?;
    Some(whole * super::SECOND + number(fraction)?)
}

fn split_at(text: &[u8], byte: u8) -> Option<[&[u8]; 2]> {
    let at = text.iter().take(9).position(|it| *it == byte)?;
    Some([&text[..at], &text[at + 1..]])
}

/// A number of one to nine digits.
fn number(digits: &[u8]) -> Option<i64> {
    let is_number = (1..=9).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let add = |number: i64, digit: &u8| number * 10 + i64::from(digit - b'0');
    is_number.then(|| digits.iter().fold(0, add))
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_digit() || b".hmsnu".contains(&byte) || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn age(line: &str) -> f64 {
        match Said::of(line.as_bytes()) {
            Some(Said::Ago { age, .. }) => age as f64 / 1e9,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_generation_is_read() {
        assert_eq!(
            age("PLEG is not healthy: pleg was last seen active 3m7.5s ago; threshold is 3m0s"),
            187.5
        );
        assert_eq!(
            age("[PLEG is not healthy: pleg was last seen active 2h33m12s ago; threshold is 3m0s]"),
            9192.0
        );
        assert_eq!(
            age(
                r#"err=\"PLEG is not healthy: pleg was last seen active 4m0s ago; threshold is 3m0s\""#
            ),
            240.0
        );
    }

    #[test]
    fn a_duration_of_292_years_means_that_the_kubelet_never_relisted() {
        let never = b"pleg was last seen active 2562047h47m16.854775807s ago; threshold is 3m0s";
        assert_eq!(Said::of(never), Some(Said::Never));
        assert_eq!(
            Said::of(b"PLEG is not healthy: pleg has yet to be successful]"),
            Some(Said::Never)
        );
    }

    #[test]
    fn a_line_that_was_cut_off_is_read_as_far_as_it_goes() {
        let damaged = b"pleg was last seen active 3m 53.9 s ago; threshold is 3m0s";
        assert_eq!(Said::of(damaged), Some(Said::Cut));
        let threshold = b"[pleg was last seen active 5m1s ago; threshold is 5m0s]";
        let said = Said::Ago {
            age: 301_000_000_000,
            threshold: 300_000_000_000,
        };
        assert_eq!(Said::of(threshold), Some(said));
        assert_eq!(age("pleg was last seen active 3m53s"), 233.0);
        assert_eq!(
            Said::of(b"PLEG is not healthy: pleg was last seen active"),
            Some(Said::Cut)
        );
        assert_eq!(Said::of(b"pleg was last seen active >"), Some(Said::Cut));
        assert_eq!(Said::of(b"pleg was last seen active 3"), Some(Said::Cut));
        assert_eq!(
            Said::of("pleg was last seen active %v ago; threshold is %v".as_bytes()),
            None
        );
        assert_eq!(Said::of(b"nothing of that kind"), None);
    }
}
