//! A whole page of text: its line breaks and our own colours are kept.

use std::borrow::Cow;

use super::{is_printable, push};

/// The colours that our pages use. Any other sequence is escaped.
const COLOURS: [&str; 6] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
];

/// A page for a terminal: the last protection, for text that was not escaped when it was inserted.
/// Line breaks and our colours are kept, any other unprintable character is escaped.
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
    use crate::escape::tests::unprintable;

    #[test]
    fn line_breaks_and_our_colours_are_kept() {
        let text = "\u{1b}[1mHealth\u{1b}[0m fine\n\u{1b}[32mgreen\u{1b}[0m\n";
        assert_eq!(page(text), text);
        assert_eq!(page("plain\n"), "plain\n");
    }

    #[test]
    fn any_other_unprintable_character_is_escaped() {
        assert_eq!(page("a\u{1b}[2Jb\u{1b}[8mc"), "a\\u{1b}[2Jb\\u{1b}[8mc");
        for character in unprintable().filter(|c| *c != '\n') {
            let text = format!("a{character}b\n");
            assert_eq!(page(&text), format!("a{}b\n", character.escape_default()));
        }
    }
}
