//! Lines as evidence: file and number in front, nothing in them that disturbs a terminal.

use std::fmt;

use serde::Serialize;
use times::WallTime;

/// A line that matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quote {
    /// When it was written, if it tells.
    pub time: Option<WallTime>,
    /// The input.
    pub file: String,
    /// Its number, from 1.
    pub line: u64,
    /// What it says, cut if it is long.
    pub text: String,
}

/// As much of a line as people read.
const LONGEST: usize = 300;

impl Quote {
    /// Quotes a line.
    pub fn new(file: &str, line: u64, time: Option<i64>, bytes: &[u8]) -> Self {
        // A character has four bytes at most.
        let near = &bytes[..bytes.len().min(LONGEST * 4)];
        let whole = String::from_utf8_lossy(near);
        let mut characters = whole.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut text: String = characters.by_ref().take(LONGEST).collect();
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
}

impl Quote {
    /// Moves it in time.
    pub(super) fn shift(&mut self, by: i64) {
        let moved = self
            .time
            .map(|time| time.as_unix_nanos().saturating_add(by));
        self.time = moved.and_then(WallTime::from_unix_nanos);
    }
}

impl fmt::Display for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}
