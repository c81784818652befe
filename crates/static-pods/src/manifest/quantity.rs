//! Parses quantities such as `500m`, `1.5Gi` and `1e3`, exactly, and rounds them up as Kubernetes does.

/// The unit of a parsed quantity. Its discriminant is the result for the quantity `1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// The unit for bytes.
    Ones = 1,
    /// The unit for CPUs.
    Thousandths = 1000,
}

/// Parses a quantity that is not negative, and rounds it up to a whole number of units.
pub(super) fn parse(text: &str, unit: Unit) -> Result<u64, String> {
    if text.starts_with('-') {
        return Err(format!("{text:?} is negative"));
    }
    let malformed = || {
        format!("{text:?} is not a quantity: a number, perhaps with one of m k M G T Ki Mi Gi Ti")
    };
    let (mantissa, decimals, rest) = number(text).ok_or_else(malformed)?;
    let (base, exponent) = suffix(rest).ok_or_else(malformed)?;
    let power = |exponent: u32| u128::from(base).checked_pow(exponent);
    let wanted = || {
        let mut above = mantissa.checked_mul(unit as u128)?;
        let mut below = 10_u128.checked_pow(decimals)?;
        match u32::try_from(exponent) {
            Ok(exponent) => above = above.checked_mul(power(exponent)?)?,
            Err(_) => below = below.checked_mul(power(exponent.unsigned_abs())?)?,
        }
        let rounded_up = above.div_ceil(below);
        // A quantity must fit into a signed 64-bit number.
        i64::try_from(rounded_up).ok()?;
        u64::try_from(rounded_up).ok()
    };
    wanted().ok_or_else(|| format!("{text:?} is too large or too precise"))
}

/// Splits off the number: all its digits as one number, the count of its decimals, and the rest of the
/// text.
fn number(text: &str) -> Option<(u128, u32, &str)> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("0{whole}{fraction}");
    Some((
        digits.parse().ok()?,
        u32::try_from(fraction.len()).ok()?,
        rest,
    ))
}

/// The base and the exponent of a suffix.
fn suffix(text: &str) -> Option<(u32, i32)> {
    Some(match text {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => (10, text.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_and_rounded_up() {
        for (text, ones, thousandths) in [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("500m", 1, 500),
            ("0.1m", 1, 1),
            ("1.5", 2, 1500),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("64Mi", 67_108_864, 67_108_864_000),
            ("1e3", 1000, 1_000_000),
            ("5E-1", 1, 500),
            ("2E", 2_000_000_000_000_000_000, 0),
            (".5k", 500, 500_000),
            ("+1.k", 1000, 1_000_000),
            ("100n", 1, 1),
        ] {
            assert_eq!(parse(text, Unit::Ones), Ok(ones), "{text}");
            let parsed = parse(text, Unit::Thousandths);
            if text == "2E" {
                assert!(parsed.is_err(), "{text}: {parsed:?}");
            } else {
                assert_eq!(parsed, Ok(thousandths), "{text}");
            }
        }
    }

    #[test]
    fn invalid_quantities_are_refused() {
        for text in [
            "",
            ".",
            "m",
            "-1",
            "1 Gi",
            "1gi",
            "1MB",
            "1.2.3",
            "1e",
            "1e999999",
            "9Ei9",
            "16Ei",
            "1٣",
            "0x10",
            "99999999999999999999999999999999999999999999",
            "1e-99999999999",
        ] {
            assert!(parse(text, Unit::Ones).is_err(), "{text:?}");
        }
    }
}
