//! Lines as evidence: with file and line number in front, without control characters and without
//! credentials.

use std::fmt;

use pleg_text::WallTime;
use serde::Serialize;

/// A line that is quoted as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quote {
    /// When the line was written, if that is known.
    pub time: Option<WallTime>,
    /// The input that contains the line.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The text of the line, without credentials, cut if it is long.
    pub text: String,
}

/// The maximum length of a quote.
const MAX_QUOTE_CHARS: usize = 300;

impl Quote {
    /// Quotes a line.
    pub fn new(file: &str, line: u64, time: Option<i64>, bytes: &[u8]) -> Self {
        // A character has four bytes at most. A credential is replaced before the rest is cut, because
        // its end may be needed to recognise it.
        let near = &bytes[..bytes.len().min(MAX_QUOTE_CHARS * 4)];
        let whole = String::from_utf8_lossy(near);
        let whole = pleg_text::redact(&whole);
        let mut characters = whole.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut text: String = characters.by_ref().take(MAX_QUOTE_CHARS).collect();
        if characters.next().is_some() {
            text.push('…');
        }
        Self {
            time: time.and_then(WallTime::from_unix_nanos),
            file: file.to_owned(),
            line,
            text: text.trim().to_owned(),
        }
    }

    pub(super) fn shift(&mut self, by: i64) {
        self.time = self.time.map(|time| time.shifted(by));
    }
}

impl fmt::Display for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}
