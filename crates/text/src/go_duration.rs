//! Durations as Go prints and parses them: `3m0s`, `1.5ms`, `2562047h47m16.854775807s`.
//!
//! The kubelet's messages and its configuration contain such durations, and no crate prints exactly
//! the same text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration that is printed and parsed like Go's `time.Duration`. Whole nanoseconds, never
/// negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {why} (write 1.5s, 2m30s or 1h)")]
pub struct GoDurationError {
    text: String,
    why: &'static str,
}

/// The longest duration in Go, which keeps nanoseconds in an i64.
const MAX_NANOS: u64 = i64::MAX as u64;

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos().min(MAX_NANOS.into()) as u64;
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < 1_000_000_000 {
            let (unit, name) = match nanos {
                0..1_000 => (1, "ns"),
                1_000..1_000_000 => (1_000, "µs"),
                _ => (1_000_000, "ms"),
            };
            return write!(f, "{}{name}", Decimal(nanos, unit));
        }
        let minutes = nanos / 60_000_000_000;
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write!(f, "{}s", Decimal(nanos % 60_000_000_000, 1_000_000_000))
    }
}

/// `nanos / unit` with its fraction and no trailing zeros.
struct Decimal(u64, u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos, unit) = *self;
        let width = unit.ilog10() as usize;
        let digits = format!("{}.{:0width$}", nanos / unit, nanos % unit);
        f.write_str(digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for GoDuration {
    type Err = GoDurationError;

    fn from_str(text: &str) -> Result<Self, GoDurationError> {
        parse(text).map_err(|why| GoDurationError {
            text: text.to_owned(),
            why,
        })
    }
}

fn parse(text: &str) -> Result<GoDuration, &'static str> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.starts_with('-') {
        return Err("it is negative");
    }
    if rest == "0" {
        return Ok(GoDuration::default());
    }
    if rest.is_empty() {
        return Err("it is empty");
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err("a number is missing");
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let unit: u64 = match name {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err("a unit is missing"),
            _ => return Err("a unit is unknown"),
        };
        let too_long = "it is too long";
        let whole: u64 = match whole {
            "" => 0,
            whole => whole.parse().map_err(|_| too_long)?,
        };
        nanos = whole
            .checked_mul(unit)
            .and_then(|whole| whole.checked_add(fraction_of(fraction, unit)))
            .and_then(|part| nanos.checked_add(part))
            .filter(|nanos| *nanos <= MAX_NANOS)
            .ok_or(too_long)?;
        rest = after;
    }
    Ok(GoDuration(Duration::from_nanos(nanos)))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The nanoseconds of `0.digits` units, rounded with a float as in Go.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    // 19 digits fit in a u64. Further digits are smaller than a nanosecond.
    let digits = &digits[..digits.len().min(19)];
    let value: u64 = digits.parse().unwrap_or_default();
    (value as f64 * (unit as f64 / 10f64.powi(digits.len() as i32))) as u64
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_prints_as_in_go() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (180_000_000_000, "3m0s"),
            (233_912_072_577, "3m53.912072577s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (i64::MAX as u64, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(GoDuration(Duration::from_nanos(nanos)).to_string(), text);
        }
    }

    #[test]
    fn a_duration_parses_as_in_go() {
        for (text, nanos) in [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("+5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            ("12us", 12_000),
            ("12µs10ns", 12_010),
            ("39h9m14.425s", 140_954_425_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
        ] {
            let read: GoDuration = text.parse().unwrap();
            assert_eq!(read.0.as_nanos() as u64, nanos, "{text}");
        }
    }

    #[test]
    fn a_text_that_go_refuses_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "empty"),
            ("3", "unit is missing"),
            ("-1s", "negative"),
            ("s", "number is missing"),
            (".", "number is missing"),
            ("1 s", "unit is unknown"),
            ("2 days", "unit is unknown"),
            ("9223372036854775808ns", "too long"),
            ("99999999999999999999999999999999999999999h", "too long"),
        ] {
            let error = text.parse::<GoDuration>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_duration_parses_to_the_same_value(nanos in 0..=i64::MAX as u64) {
            let duration = GoDuration(Duration::from_nanos(nanos));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,40}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
