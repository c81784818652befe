//! Errors in a log that show no cause. Most end soon, also on a healthy node. They are reported only if
//! nothing else was found, because "no problem" would claim more than the log shows.

use std::collections::BTreeMap;

use pleg_text::redact;
use serde::Serialize;

use crate::line::{after, first_chars, klog, lossy, until};

/// How many kinds of errors are kept. Lines of further kinds are only counted.
const MAX_KINDS: usize = 200;
/// How many bytes of a message distinguish its kind, if the line does not show a place in the source.
const KIND_BYTES: usize = 40;
const MAX_MESSAGE_CHARS: usize = 160;

/// Errors of one kind in the logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggedError {
    /// The message of the first error.
    pub message: String,
    /// The file and line of the first error.
    pub first: String,
    /// How many lines report errors of this kind.
    pub lines: u64,
}

/// The errors in the logs, by what distinguishes one kind from another.
#[derive(Debug, Default)]
pub(super) struct Errors {
    kinds: BTreeMap<Vec<u8>, LoggedError>,
    /// How many lines report errors of further kinds.
    others: u64,
}

impl Errors {
    /// Reads a log line whose level is error or fatal.
    pub(super) fn line(&mut self, body: &[u8], place: impl FnOnce() -> String) {
        let (kind, message) = match klog::parse(body) {
            Some(klog) if klog.place.is_empty() => (start(klog.message), klog.message),
            Some(klog) => (klog.place, klog.message),
            None => {
                let quoted = ["msg=\"", "\"msg\":\"", "\"message\":\""];
                let message = quoted.iter().find_map(|lead| after(body, lead));
                let message = message.map_or(body, |message| until(message, b"\""));
                (start(message), message)
            }
        };
        self.add(kind, 1, || {
            let message = lossy(&message[..message.len().min(MAX_MESSAGE_CHARS * 4)]);
            LoggedError {
                message: first_chars(&redact(&message), MAX_MESSAGE_CHARS).to_owned(),
                first: place(),
                lines: 1,
            }
        });
    }

    /// Adds the errors of another input.
    pub(super) fn absorb(&mut self, other: Self) {
        self.others += other.others;
        for (kind, error) in other.kinds {
            let lines = error.lines;
            self.add(&kind, lines, || error);
        }
    }

    /// Counts lines of a kind; `first` makes the entry for a new kind.
    fn add(&mut self, kind: &[u8], lines: u64, first: impl FnOnce() -> LoggedError) {
        if let Some(known) = self.kinds.get_mut(kind) {
            known.lines += lines;
        } else if self.kinds.len() < MAX_KINDS {
            self.kinds.insert(kind.to_owned(), first());
        } else {
            self.others += lines;
        }
    }
}

/// The kinds of errors, the most frequent first, and the number of lines of further kinds.
pub(super) fn conclude(errors: Errors) -> (Vec<LoggedError>, u64) {
    let mut kinds: Vec<_> = errors.kinds.into_values().collect();
    kinds.sort_by_key(|error| std::cmp::Reverse(error.lines));
    (kinds, errors.others)
}

/// The start of a message, up to the first digit: what follows differs from line to line.
fn start(message: &[u8]) -> &[u8] {
    let start = &message[..message.len().min(KIND_BYTES)];
    let digit = start.iter().position(u8::is_ascii_digit);
    &start[..digit.unwrap_or(start.len())]
}
