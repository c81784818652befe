//! One line, whoever wrote it and whatever carried it:
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
//! let said = klog::parse(carried.body).map(|klog| (klog.severity, klog.message));
//! assert_eq!(said, Some((b'E', &b"skipping"[..])));
//! ```

pub(crate) mod forms;
pub mod klog;
pub mod prefix;
pub mod quoted;
pub mod stamp;

mod cursor;

use memchr::memmem;

/// Without what carried it along: returns, NUL bytes that a crash left in front, the mark
/// of a byte order, and the signs of a quotation.
pub fn bare(line: &[u8]) -> &[u8] {
    let mut line = line;
    while let [first, rest @ ..] = line {
        match first {
            0 => line = rest,
            0xef if line.starts_with(b"\xef\xbb\xbf") => line = &line[3..],
            b'>' if rest.first() == Some(&b' ') => line = &rest[1..],
            _ => break,
        }
    }
    while let [rest @ .., b'\r' | b'\n' | 0] = line {
        line = rest;
    }
    line
}

/// Whether the text is in it.
pub fn has(line: &[u8], text: &str) -> bool {
    memmem::find(line, text.as_bytes()).is_some()
}

/// What stands behind the text.
pub fn after<'a>(line: &'a [u8], text: &str) -> Option<&'a [u8]> {
    memmem::find(line, text.as_bytes()).map(|at| &line[at + text.len()..])
}

/// Where a colon stands before a space. So short a text is found faster without a search that
/// has to be made ready first.
pub fn colon(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b':', line).find(|at| line.get(at + 1) == Some(&b' '))
}

/// No more than so many characters of the text.
pub fn first_chars(text: &str, most: usize) -> &str {
    // No character is shorter than a byte.
    if text.len() <= most {
        return text;
    }
    let end = text.char_indices().nth(most);
    end.map_or(text, |(end, _)| &text[..end])
}

/// As far as the first of these bytes, or to the end.
pub fn until<'a>(line: &'a [u8], ends: &[u8]) -> &'a [u8] {
    let end = line.iter().position(|byte| ends.contains(byte));
    &line[..end.unwrap_or(line.len())]
}

/// The same without a copy where all of it is UTF-8.
pub fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// The bytes as text; what is no UTF-8 is shown as such.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
