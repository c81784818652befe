//! Parses a single line, with the prefixes that were added to it:
//!
//! ```text
//! <30>Oct  8 16:29:51 worker9 k3s[1636]: E1008 16:23:14.139967    1636 kubelet.go:1846] skipping …
//!  '------ prefix: stamp, host, ident, pid ------' '--- klog header ---'  '--- message ---
//! ```
//!
//! ```
//! use analyze::line::{klog, prefix};
//!
//! let line = b"Oct  8 16:29:51 worker9 k3s[1636]: E1008 16:23:14.139967 1636 kubelet.go:1846] skipping";
//! let carried = prefix::split(line);
//! assert_eq!((carried.host, carried.ident), (&b"worker9"[..], &b"k3s"[..]));
//! let said = klog::parse(carried.body).map(|klog| (klog.pid, klog.message));
//! assert_eq!(said, Some((1636, &b"skipping"[..])));
//! ```

pub mod calendar;
pub(crate) mod forms;
pub mod klog;
pub(crate) mod pasted;
pub mod prefix;
pub mod quoted;
pub mod rcu;
pub mod stamp;

mod cursor;
mod months;

use memchr::memmem;

/// Removes carriage returns, NUL bytes that a crash left at either end, a byte order mark, and `>` of
/// a quotation.
pub fn bare(line: &[u8]) -> &[u8] {
    let mut line = line;
    while let [first, rest @ ..] = line {
        match first {
            0 => line = rest,
            0xef if line.starts_with(b"\xef\xbb\xbf") => line = &line[3..],
            b'>' if matches!(rest.first(), Some(b' ' | b'>')) => line = &rest[1..],
            _ => break,
        }
    }
    while let [rest @ .., b'\r' | b'\n' | 0] = line {
        line = rest;
    }
    line
}

/// Whether the line contains the text.
pub fn has(line: &[u8], text: &str) -> bool {
    memmem::find(line, text.as_bytes()).is_some()
}

/// The rest of the line after the text.
pub fn after<'a>(line: &'a [u8], text: &str) -> Option<&'a [u8]> {
    memmem::find(line, text.as_bytes()).map(|at| &line[at + text.len()..])
}

/// The whole number directly after the text.
pub fn number_after(line: &[u8], text: &str) -> Option<u64> {
    let digits = after(line, text)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit());
    let digits = &digits[..end.unwrap_or(digits.len())];
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The position of the first colon that is followed by a space. For two bytes, a scan is faster
/// than a prepared search.
pub fn colon(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b':', line).find(|at| line.get(at + 1) == Some(&b' '))
}

/// The text, cut to this many characters.
pub fn first_chars(text: &str, most: usize) -> &str {
    // No character is shorter than a byte.
    if text.len() <= most {
        return text;
    }
    let end = text.char_indices().nth(most);
    end.map_or(text, |(end, _)| &text[..end])
}

/// The text up to the first of these bytes, or all of it.
pub fn until<'a>(line: &'a [u8], ends: &[u8]) -> &'a [u8] {
    let end = line.iter().position(|byte| ends.contains(byte));
    &line[..end.unwrap_or(line.len())]
}

/// The bytes as text, without a copy if they are valid UTF-8.
pub fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// The bytes as text; invalid UTF-8 is replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
