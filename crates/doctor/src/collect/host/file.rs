//! Files become facts.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use crate::collect::helper::open_without_waiting;
use crate::facts::Fact;

/// No kernel table that is read here is longer.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The text of a file; bytes that are no text are shown as such.
pub(super) fn text(path: &Path) -> io::Result<String> {
    text_of(open_without_waiting(path)?)
}

/// The text of a file that is open.
pub(super) fn text_of(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// The only line of a file, without what would disturb a terminal.
pub(super) fn line(path: &Path) -> io::Result<String> {
    Ok(printable(text(path)?.trim_end()))
}

/// Names of processes can hold anything.
pub(super) fn printable(text: &str) -> String {
    shown(text, 200)
}

/// A path, of which no piece may be missing where it is compared with another.
pub(super) fn printable_path(text: &str) -> String {
    shown(text, 1024)
}

fn shown(text: &str, most: usize) -> String {
    let shown = |char: char| if char.is_control() { '?' } else { char };
    // As of a mount's source, or of a line of the kernel.
    let text = pleg_text::redact(text);
    text.chars().take(most).map(shown).collect()
}

/// What `read` makes of a file's text.
pub(super) fn fact<T>(path: &Path, read: impl FnOnce(&str) -> Option<T>) -> Fact<T> {
    let source = path.display().to_string();
    match text(path) {
        Ok(text) => match read(&text) {
            Some(value) => Fact::known(value, source),
            None => Fact::missing("the expected field is missing", source),
        },
        Err(error) => Fact::missing(error, source),
    }
}

/// The word at this place of a file.
pub(super) fn word<T: FromStr>(path: &Path, at: usize) -> Fact<T> {
    fact(path, |text| {
        text.split_ascii_whitespace().nth(at)?.parse().ok()
    })
}
