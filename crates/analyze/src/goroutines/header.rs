//! The first line of a goroutine in a Go dump, such as
//! `goroutine 67570 gp=0xc00 m=3 [syscall, 1595 minutes, locked to thread]:`

use crate::line::first_chars;

/// A parsed header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The number of the goroutine; `None` if it overflows, or was replaced by `...`.
    pub id: Option<u64>,
    /// The state of the goroutine.
    pub state: String,
    /// The wait time in minutes.
    pub minutes: Option<u64>,
}

impl Header {
    /// Parses a header at the start of the text, and returns the rest. A header that was cut off is
    /// parsed up to the cut.
    pub fn take(text: &str) -> Option<(Self, &str)> {
        let (number, inside, rest) = parts(text)?;
        let mut words = inside.split(',').map(str::trim);
        let state = state(words.next().unwrap_or_default());
        let minutes =
            words.find_map(|word| word.strip_suffix("minutes").or(word.strip_suffix("minute")));
        let header = Self {
            id: number.parse().ok(),
            state,
            minutes: minutes.and_then(|minutes| minutes.trim().parse().ok()),
        };
        Some((header, rest.strip_prefix(':').unwrap_or(rest)))
    }

    /// Whether the text begins with a header.
    pub fn begins(text: &str) -> bool {
        parts(text).is_some()
    }

    /// Parses a line that is a header and nothing else. Lines with escaped characters are not parsed here.
    pub fn of_line(line: &[u8]) -> Option<Self> {
        if !line.starts_with(b"goroutine ") || !line.ends_with(b"]:") {
            return None;
        }
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'`');
        // Without a branch per byte, the compiler can vectorise the loop.
        if !line.iter().fold(true, |all, byte| all & is_plain(*byte)) {
            return None;
        }
        let (header, rest) = Self::take(std::str::from_utf8(line).ok()?)?;
        rest.is_empty().then_some(header)
    }
}

/// The number, the text in brackets, and the rest.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let rest = text.strip_prefix("goroutine ")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = match digits {
        0 => ("", rest.strip_prefix("...")?),
        _ => rest.split_at(digits),
    };
    // Between the number and the bracket: "gp=0xc000002380 m=0 mp=0x1234".
    let open = memchr::memchr(b'[', rest.as_bytes()).filter(|open| {
        *open < 80 && (rest[..*open].trim().is_empty() || rest.starts_with(" gp="))
    })?;
    let inside = &rest[open + 1..];
    Some(match memchr::memchr(b']', inside.as_bytes()) {
        Some(close) => (number, &inside[..close], &inside[close + 1..]),
        None => (number, inside, ""),
    })
}

/// The state, without the marks that Go appends to it.
fn state(text: &str) -> String {
    let mut state = text;
    for mark in [" (scan)", " (leaked)", " (durable)"] {
        state = state.strip_suffix(mark).unwrap_or(state);
    }
    first_chars(state, 80).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, id: Option<u64>, state: &str, minutes: Option<u64>) {
        let (header, _) = Header::take(text).unwrap_or_else(|| panic!("{text}"));
        let read = (header.id, &*header.state, header.minutes);
        assert_eq!(read, (id, state, minutes), "{text}");
    }

    #[test]
    fn headers_of_all_versions_are_read() {
        check(
            "goroutine 386 [chan send, 1140 minutes]:",
            Some(386),
            "chan send",
            Some(1140),
        );
        check(
            "goroutine 1 gp=0xc000002380 m=nil [running]:",
            Some(1),
            "running",
            None,
        );
        check(
            "goroutine 7 gp=0xc0 m=3 mp=0x1 [syscall, 66 minutes, locked to thread]:",
            Some(7),
            "syscall",
            Some(66),
        );
        check(
            "goroutine 9 [chan receive (nil chan) (scan), 2 minutes, synctest group 4]:",
            Some(9),
            "chan receive (nil chan)",
            Some(2),
        );
        check(
            "goroutine 9 [semacquire, 5 min",
            Some(9),
            "semacquire",
            None,
        );
        check(
            "goroutine 99999999999999999999999 [select, 99999999999999999999999 minutes]:",
            None,
            "select",
            None,
        );
    }

    #[test]
    fn text_that_only_mentions_goroutines_is_not_a_header() {
        for text in [
            "goroutine profile: total 5",
            "goroutine x [y]:",
            "goroutine 5 is [stuck]",
            "goroutine ",
        ] {
            assert_eq!(Header::take(text), None, "{text}");
        }
    }
}
