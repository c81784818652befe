//! A JSON document with the same values, in characters that do not affect a terminal.

use std::fmt::Write;

use super::is_printable;

/// JSON with every unprintable character escaped as `\u…`. JSON libraries escape only C0 controls.
/// Other unprintable characters can only be in a string, where the escape has the same meaning. Line
/// breaks between values are kept.
pub fn json(text: String) -> String {
    let is_kept = |character| is_printable(character) || character == '\n';
    if text.chars().all(is_kept) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_kept(character) {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::tests::unprintable;

    #[test]
    fn every_unprintable_character_becomes_ascii() {
        for character in unprintable().filter(|c| *c != '\n') {
            let escaped = json(format!("\"a{character}b\""));
            assert!(
                escaped.starts_with("\"a\\u") && escaped.is_ascii(),
                "{escaped}"
            );
        }
        assert_eq!(json("\"\u{9b}\u{202e}\"".into()), "\"\\u009b\\u202e\"");
        assert_eq!(json("\"\u{e0041}\"".into()), "\"\\udb40\\udc41\"");
    }

    #[test]
    fn a_printable_document_is_unchanged() {
        let text = "{\"name\":\"größe\\n\"}\n";
        assert_eq!(json(text.into()), text);
    }
}
