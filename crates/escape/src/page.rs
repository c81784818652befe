//! A whole page of text: its lines and our own colours stay.

use std::borrow::Cow;

use super::{is_printable, push};

/// The colours that our pages use; any other sequence is somebody else's.
const COLOURS: [&str; 6] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
];

/// A page as it may be written to a terminal: the last door, for what was not escaped where
/// it was put in. Line breaks and our colours stay, everything else unprintable is escaped.
pub fn page(text: &str) -> Cow<'_, str> {
    let is_kept = |character| is_printable(character) || character == '\n';
    if text.chars().all(is_kept) {
        return text.into();
    }
    let mut page = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let colour = COLOURS.into_iter().find(|colour| rest.starts_with(colour));
        let taken = colour.map_or(character.len_utf8(), str::len);
        let (piece, after) = rest.split_at(taken);
        if colour.is_some() || is_kept(character) {
            page.push_str(piece);
        } else {
            push(&mut page, character);
        }
        rest = after;
    }
    page.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::unprintable;

    #[test]
    fn lines_and_our_colours_stay() {
        let text = "\u{1b}[1mHealth\u{1b}[0m fine\n\u{1b}[32mgreen\u{1b}[0m\n";
        assert_eq!(page(text), text);
        assert_eq!(page("plain\n"), "plain\n");
    }

    #[test]
    fn everything_else_is_escaped() {
        assert_eq!(page("a\u{1b}[2Jb\u{1b}[8mc"), "a\\u{1b}[2Jb\\u{1b}[8mc");
        for character in unprintable().filter(|c| *c != '\n') {
            let text = format!("a{character}b\n");
            assert_eq!(page(&text), format!("a{}b\n", character.escape_default()));
        }
    }
}
