//! Sentences: numbers with their nouns, and capital letters.

/// A number with its noun: `1 line`, `3 lines`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// The text with a capital letter at its beginning.
pub(crate) fn capital(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
