//! The names of months in logs of syslog's form, `Oct`, in English and in other languages of nodes.

use causes::facts::facts;

const ENGLISH: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The longest name, with a dot.
const MAX_BYTES: usize = 8;

/// The month, from 1, that the text begins with, and what follows it.
#[inline]
pub(super) fn take(text: &[u8]) -> Option<(i8, &[u8])> {
    let word = text.first_chunk::<3>()?;
    match ENGLISH.iter().position(|month| *month == word) {
        // "Mars" and "Juni" begin like English names.
        Some(month) if text.get(3) == Some(&b' ') => Some((number(month)?, &text[3..])),
        _ => in_another_language(text),
    }
}

fn in_another_language(text: &[u8]) -> Option<(i8, &[u8])> {
    let near = &text[..text.len().min(MAX_BYTES + 1)];
    let end = memchr::memchr(b' ', near)?;
    let word = std::str::from_utf8(&text[..end]).ok()?.to_lowercase();
    let word = word.trim_end_matches('.');
    let mut named = facts().months.iter();
    let named = named.position(|names| names.iter().any(|name| name == word));
    let month = match named {
        Some(month) => number(month)?,
        None => numbered(word).or_else(|| in_english(word))?,
    };
    Some((month, &text[end..]))
}

/// A month as Chinese and Japanese nodes write it, `10月`, or as Korean ones do, `10월`.
fn numbered(word: &str) -> Option<i8> {
    let digits = word.strip_suffix('月').or(word.strip_suffix('월'))?;
    digits.parse().ok().filter(|month| (1..=12).contains(month))
}

/// An English name in lower case, or with a dot.
fn in_english(word: &str) -> Option<i8> {
    let is_it = |month: &[u8; 3]| word.as_bytes().eq_ignore_ascii_case(month);
    number(ENGLISH.iter().position(|month| is_it(month))?)
}

fn number(index: usize) -> Option<i8> {
    i8::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_known_in_the_languages_of_nodes() {
        for (text, month) in [
            ("Oct 24", 10),
            ("Mar 24", 3),
            ("mars 24", 3),
            ("Mär 24", 3),
            ("févr. 24", 2),
            ("okt 24", 10),
            ("oct. 24", 10),
            ("10月 24", 10),
            ("1월 24", 1),
            ("Дек 24", 12),
            ("Ağu 24", 8),
        ] {
            let taken = take(text.as_bytes());
            assert_eq!(taken, Some((month, &b" 24"[..])), "{text}");
        }
    }

    #[test]
    fn other_words_are_not_months() {
        for text in ["", "Oct", "October 24", "13月 24", "node 24", "\u{fe0f} 24"] {
            assert_eq!(take(text.as_bytes()), None, "{text}");
        }
    }
}
