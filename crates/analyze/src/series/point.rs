//! What a single line says about the PLEG.

use std::str::FromStr;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use pleg_text::GoDuration;

use super::THRESHOLD;
use crate::line::{has, lossy};

/// What a line says about the last relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It began this long ago, in nanoseconds, with this threshold.
    Ago {
        /// X.
        age: i64,
        /// The threshold.
        threshold: i64,
    },
    /// No relist has completed since the kubelet started.
    Never,
    /// The line was cut off before the duration.
    Cut,
}

/// The start of the message.
pub const LAST_SEEN: &str = "pleg was last seen active";
/// Every line about an unhealthy PLEG contains this.
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

/// A Go duration at the start, without spaces that were added when it was copied.
fn duration(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| !is_part(*byte));
    let (whole, rest) = text.split_at(end.unwrap_or(text.len()));
    if rest.is_empty() || rest.starts_with(b" ago") {
        if let Some(nanos) = usual(whole) {
            return Some(nanos);
        }
        let read = std::str::from_utf8(whole).ok().map(GoDuration::from_str);
        if let Some(Ok(duration)) = read {
            return i64::try_from(duration.0.as_nanos()).ok();
        }
    }
    damaged(text)
}

/// `16m6.502871305s`, as nearly all lines have it.
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

fn damaged(text: &[u8]) -> Option<i64> {
    let mut written = String::new();
    let near = &text[..text.len().min(60)];
    for character in lossy(near).chars() {
        match character {
            ' ' => {}
            '0'..='9' | '.' | 'h' | 'm' | 's' | 'n' | 'u' | 'µ' | 'μ' => written.push(character),
            _ => break,
        }
    }
    // The next word may begin with the letter of a unit, and a unit may be cut off.
    let last_unit = written.rfind(['s', 'm', 'h'])?;
    written.truncate(last_unit + 1);
    let whole = written.strip_suffix('s').filter(|rest| rest.ends_with('s'));
    let written = whole.unwrap_or(&written);
    match GoDuration::from_str(written) {
        Ok(duration) => i64::try_from(duration.0.as_nanos()).ok(),
        Err(_) if written.len() > 15 => Some(i64::MAX),
        Err(_) => None,
    }
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
    fn a_kubelet_that_never_relisted_is_no_292_years_old() {
        let never = b"pleg was last seen active 2562047h47m16.854775807s ago; threshold is 3m0s";
        assert_eq!(Said::of(never), Some(Said::Never));
        assert_eq!(
            Said::of(b"PLEG is not healthy: pleg has yet to be successful]"),
            Some(Said::Never)
        );
        let beyond = b"pleg was last seen active 99999999999999999999h0m0s ago; threshold is 3m0s";
        assert_eq!(Said::of(beyond), Some(Said::Never));
    }

    #[test]
    fn damage_is_read_as_far_as_it_goes() {
        assert_eq!(
            age("pleg was last seen active 3m 53.9 s ago; threshold is 3m0s"),
            233.9
        );
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
