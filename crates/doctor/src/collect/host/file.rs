//! Reads files of the machine as text, and as facts.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use crate::collect::helper::open_without_waiting;
use crate::facts::{Fact, Missing};

/// How much of a file is read. No kernel table that is read here is longer.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The text of a file; bytes that are not UTF-8 are replaced.
pub(super) fn text(path: &Path) -> io::Result<String> {
    text_of(open_without_waiting(path)?)
}

/// The text of an open file.
pub(in crate::collect) fn text_of(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| lossy(error.as_bytes())))
}

/// The only line of a file, in printable characters.
pub(super) fn line(path: &Path) -> io::Result<String> {
    Ok(printable(text(path)?.trim_end()))
}

/// Text for a terminal, cut to a length that suffices for names: without control characters, which even the
/// name of a process can contain, and without credentials, which the source of a mount can contain.
pub(super) fn printable(text: &str) -> String {
    printable_up_to(text, 200)
}

/// A path for a terminal, like [`printable`], but not cut to the length of names, because paths are
/// compared.
pub(super) fn printable_path(text: &str) -> String {
    printable_up_to(text, 1024)
}

fn printable_up_to(text: &str, max_chars: usize) -> String {
    let printable = |char: char| if char.is_control() { '?' } else { char };
    let text = pleg_text::redact(text);
    text.chars().take(max_chars).map(printable).collect()
}

/// The rest of the first line that begins with `prefix`.
pub(super) fn rest_of_line<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(prefix))
}

/// The first word after `prefix` in the first line that begins with it, parsed.
pub(super) fn value<T: FromStr>(text: &str, prefix: &str) -> Option<T> {
    let rest = rest_of_line(text, prefix)?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// The value that `parse` finds in the text of a file.
pub(super) fn fact<T>(path: &Path, parse: impl FnOnce(&str) -> Option<T>) -> Fact<T> {
    let read = text(path).map_err(Missing::from);
    let parsed = read.and_then(|text| parse(&text).ok_or("the expected field is missing".into()));
    Fact::of(parsed, path.display().to_string())
}

/// The word with this index in a file.
pub(super) fn word<T: FromStr>(path: &Path, at: usize) -> Fact<T> {
    fact(path, |text| {
        text.split_ascii_whitespace().nth(at)?.parse().ok()
    })
}
