//! Makes text from a runtime or a log safe for terminals, logs and HTTP bodies.
//!
//! ```text
//!   a name, a message --> printable | sentence --> a table, a log field, /healthz
//!   a whole page      --> page                 --> standard output: lines and colours stay
//!   a JSON document   --> json                 --> the same document, with JSON's escapes
//! ```
//!
//! A name can contain any character: a line break forges a log line, ESC or a C1 control character
//! controls the terminal, U+202E reverses the direction of writing. So every control character
//! (Cc), format character (Cf) and line or paragraph separator (Zl, Zp) is escaped. The categories
//! are those of the crate `unicode-properties`, because the format characters are spread over
//! twenty ranges and new ones are added to Unicode.
//!
//! ```
//! use pleg_text::escape;
//!
//! assert_eq!(escape::printable("web-0"), "web-0");
//! assert_eq!(escape::printable("web\u{1b}[2J"), "web\\u{1b}[2J");
//! assert_eq!(escape::sentence("a forged\nline"), "a forged\\nline");
//! ```

use std::borrow::Cow;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

mod json;
mod page;

pub use json::json;
pub use page::page;

/// Longer names are shortened. Kubernetes allows 253 characters.
pub const MAX_NAME: usize = 253;

/// Longer sentences are shortened. A few names of the greatest length fit.
pub const MAX_SENTENCE: usize = 2000;

/// A name on one line: escaped, and shortened to [`MAX_NAME`] characters.
pub fn printable(name: &str) -> Cow<'_, str> {
    escaped(name, MAX_NAME)
}

/// A sentence on one line: escaped, and shortened to [`MAX_SENTENCE`] characters.
pub fn sentence(text: &str) -> Cow<'_, str> {
    escaped(text, MAX_SENTENCE)
}

/// A text of any length on one line: escaped.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, usize::MAX)
}

/// Whether a character is displayed as itself and has no other effect.
pub fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    !matches!(
        character.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    )
}

fn escaped(text: &str, limit: usize) -> Cow<'_, str> {
    let end = text.char_indices().nth(limit).map(|(end, _)| end);
    let kept = &text[..end.unwrap_or(text.len())];
    if end.is_none() && kept.chars().all(is_printable) {
        return kept.into();
    }
    let mut escaped = String::with_capacity(kept.len());
    for character in kept.chars() {
        push(&mut escaped, character);
    }
    if end.is_some() {
        escaped.push('…');
    }
    escaped.into()
}

/// Appends a character, with Rust's escape if it is not printable.
fn push(text: &mut String, character: char) {
    if is_printable(character) {
        text.push(character);
    } else {
        text.extend(character.escape_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All characters of Cc, Cf, Zl and Zp in Unicode 16, written down independently of the crate.
    pub(crate) fn unprintable() -> impl Iterator<Item = char> {
        let ranges = [
            ('\0', '\u{1f}'),
            ('\u{7f}', '\u{9f}'),
            ('\u{ad}', '\u{ad}'),
            ('\u{600}', '\u{605}'),
            ('\u{61c}', '\u{61c}'),
            ('\u{6dd}', '\u{6dd}'),
            ('\u{70f}', '\u{70f}'),
            ('\u{890}', '\u{891}'),
            ('\u{8e2}', '\u{8e2}'),
            ('\u{180e}', '\u{180e}'),
            ('\u{200b}', '\u{200f}'),
            ('\u{2028}', '\u{202e}'),
            ('\u{2060}', '\u{2064}'),
            ('\u{2066}', '\u{206f}'),
            ('\u{feff}', '\u{feff}'),
            ('\u{fff9}', '\u{fffb}'),
            ('\u{110bd}', '\u{110bd}'),
            ('\u{110cd}', '\u{110cd}'),
            ('\u{13430}', '\u{1343f}'),
            ('\u{1bca0}', '\u{1bca3}'),
            ('\u{1d173}', '\u{1d17a}'),
            ('\u{e0001}', '\u{e0001}'),
            ('\u{e0020}', '\u{e007f}'),
        ];
        ranges.into_iter().flat_map(|(first, last)| first..=last)
    }

    #[test]
    fn every_control_and_format_character_is_escaped_and_no_other() {
        let expected: Vec<char> = unprintable().collect();
        let found: Vec<char> = ('\0'..=char::MAX).filter(|c| !is_printable(*c)).collect();
        assert_eq!(found, expected);
        for character in expected {
            let text = format!("a{character}b");
            let escaped = format!("a{}b", character.escape_default());
            assert_eq!(printable(&text), escaped);
            assert_eq!(sentence(&text), escaped);
            assert_eq!(line(&text), escaped);
        }
    }

    #[test]
    fn names_in_any_script_are_unchanged() {
        for name in ["web-0", "größe", "名前", "नमस्ते", "🦀", "e\u{301}"] {
            assert!(matches!(printable(name), Cow::Borrowed(shown) if shown == name));
        }
    }

    #[test]
    fn a_long_text_is_shortened_and_ends_with_an_ellipsis() {
        let long = "x".repeat(10_000);
        assert_eq!(printable(&long).chars().count(), MAX_NAME + 1);
        assert_eq!(sentence(&long).chars().count(), MAX_SENTENCE + 1);
        assert!(printable(&long).ends_with('…'));
        assert_eq!(line(&long), long);
        assert_eq!(printable(&"é".repeat(MAX_NAME)), "é".repeat(MAX_NAME));
    }
}
