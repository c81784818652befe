//! Joins lines of a log that a terminal has wrapped: a line that is too long continues in the next one, and
//! only the width shows that.
//!
//! ```text
//!   Jun 05 14:08:31 node kubelet[1902]: E0605 14:08:31.740213    1902 remote_runt     <- the width
//!   ime.go:222] "StopPodSandbox from runtime service failed" err="rpc error: code     <- the width
//!    = DeadlineExceeded desc = context deadline exceeded"
//! ```
//!
//! The beginning of the input shows whether there is such a width. Only lines that begin like a log line are
//! joined with the next ones, because rows of tables are cut at the width and not wrapped.

use std::collections::BTreeSet;

use crate::line::pasted::begins_log_line;

/// The width is determined from at most this many bytes at the beginning of the input.
const LOOKED_AT: usize = 64 << 10;
/// The widths that a terminal may have.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=320;
/// How many different lines must have been wrapped: a single one may have the maximum length by chance.
const MIN_WRAPPED: usize = 2;
/// This many wrapped lines outweigh one line of the same length that is complete.
const WRAPPED_FOR_ONE: usize = 4;
/// The maximum length of a joined line.
const MAX_JOINED: usize = 16 << 10;
/// The width is determined from at most this many lines at the beginning of the input.
const LINES_LOOKED_AT: usize = 2000;

/// The lines of one input, as they were before they were wrapped.
#[derive(Debug)]
pub(super) enum WrappedLines {
    /// The lines at the beginning, until the width is known.
    Looking { held: Vec<Vec<u8>>, bytes: usize },
    /// No line was wrapped.
    Plain,
    /// Lines were wrapped at this width; `pending` may continue in the next line.
    Wrapped {
        width: usize,
        pending: Option<Joined>,
    },
}

/// A joined line, and the number of lines into which it was wrapped.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) line: Vec<u8>,
    pub(super) of: u64,
    /// Whether the line may continue: its last part is as long as the terminal is wide.
    is_full: bool,
}

impl Joined {
    fn goes_on_in(&self, next: &[u8]) -> bool {
        self.is_full && self.line.len() < MAX_JOINED && may_be_rest(next)
    }
}

/// Whether a line may be the rest of the one before it.
fn may_be_rest(line: &[u8]) -> bool {
    !line.is_empty() && !begins_log_line(line) && !line.starts_with(b"goroutine ")
}

impl Default for WrappedLines {
    fn default() -> Self {
        Self::Looking {
            held: Vec::new(),
            bytes: 0,
        }
    }
}

impl WrappedLines {
    /// Takes the next line, and passes each complete line to `each`.
    pub(super) fn line(&mut self, line: &[u8], each: &mut impl FnMut(&[u8], u64)) {
        match self {
            Self::Plain => each(line, 1),
            Self::Looking { held, bytes } => {
                held.push(line.to_vec());
                *bytes += line.len();
                if *bytes > LOOKED_AT || held.len() > LINES_LOOKED_AT {
                    self.decide(each);
                }
            }
            Self::Wrapped { width, pending } => {
                let is_full = characters(line) == *width;
                match pending {
                    Some(before) if before.goes_on_in(line) => {
                        before.line.extend_from_slice(line);
                        before.of += 1;
                        before.is_full = is_full;
                    }
                    _ => {
                        let next = Joined {
                            line: line.to_vec(),
                            of: 1,
                            is_full: is_full && begins_log_line(line),
                        };
                        if let Some(before) = pending.replace(next) {
                            each(&before.line, before.of);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn end(&mut self, each: &mut impl FnMut(&[u8], u64)) {
        self.decide(each);
        if let Self::Wrapped { pending, .. } = self
            && let Some(last) = pending.take()
        {
            each(&last.line, last.of);
        }
    }

    fn decide(&mut self, each: &mut impl FnMut(&[u8], u64)) {
        let Self::Looking { held, .. } = self else {
            return;
        };
        let held = std::mem::take(held);
        *self = match width(&held) {
            Some(width) => Self::Wrapped {
                width,
                pending: None,
            },
            None => Self::Plain,
        };
        for line in held {
            self.line(&line, each);
        }
    }
}

/// The width at which these lines were wrapped: no line is longer, and lines of this length belong to log
/// lines that continue.
fn width(lines: &[Vec<u8>]) -> Option<usize> {
    let lengths: Vec<usize> = lines.iter().map(|line| characters(line)).collect();
    let width = *lengths.iter().max()?;
    if !WIDTHS.contains(&width) {
        return None;
    }
    let mut is_part = false;
    let (mut wrapped, mut whole) = (BTreeSet::new(), 0);
    for (at, line) in lines.iter().enumerate() {
        let begins = begins_log_line(line);
        let is_full = lengths[at] == width;
        is_part = is_full && (begins || is_part);
        if !is_full {
            continue;
        }
        let goes_on = lines.get(at + 1).is_some_and(|next| may_be_rest(next));
        match is_part && goes_on {
            // Repetitions of a message all have the same length.
            true => drop(wrapped.insert(without_digits(line))),
            false => whole += 1,
        }
    }
    let is_wrapped = wrapped.len() >= MIN_WRAPPED && whole * WRAPPED_FOR_ONE <= wrapped.len();
    is_wrapped.then_some(width)
}

fn without_digits(line: &[u8]) -> Vec<u8> {
    let others = line.iter().filter(|byte| !byte.is_ascii_digit());
    others.copied().collect()
}

fn characters(line: &[u8]) -> usize {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(lines: &[&str]) -> Vec<(String, u64)> {
        let mut lines_of = WrappedLines::default();
        let mut all = Vec::new();
        let mut each = |line: &[u8], of| all.push((String::from_utf8_lossy(line).into_owned(), of));
        for line in lines {
            lines_of.line(line.as_bytes(), &mut each);
        }
        lines_of.end(&mut each);
        all
    }

    fn wrapped(line: &str, width: usize) -> Vec<&str> {
        let parts = line.as_bytes().chunks(width);
        parts
            .map(|part| std::str::from_utf8(part).unwrap())
            .collect()
    }

    const LINE: &str = "Jun 05 14:08:31 node kubelet[1902]: E0605 14:08:31.740213    1902 \
                        remote_runtime.go:222] \"StopPodSandbox from runtime service failed\" \
                        err=\"rpc error: code = DeadlineExceeded desc = context deadline exceeded\"";

    #[test]
    fn wrapped_lines_are_joined() {
        for width in [60, 80, 97] {
            let mut lines = wrapped(LINE, width);
            lines.push("E0605 14:08:32.740213    1902 x.go:1] y");
            let (line, of) = unwrapped(&lines).remove(0);
            assert_eq!((&*line, of), (LINE, LINE.len().div_ceil(width) as u64));
            assert_eq!(unwrapped(&lines).len(), 2, "{width}");
        }
    }

    #[test]
    fn lines_that_only_look_wrapped_are_not_joined() {
        let row = "root     1 0.0 0.1 1 2 ? Ss 10:00 0:00 /usr/bin/containerd --config=/etc/x.toml";
        let whole: Vec<&str> = [LINE; 3].to_vec();
        let panic =
            "E1008 16:23:14.139967    1636 runtime.go:78] Observed a panic: \"invalid memory\"";
        let dumps = [
            panic,
            "goroutine 12 [running]:",
            "main.main()",
            "",
            panic,
            "",
            "x",
        ];
        for lines in [&[row; 4][..], &whole, &["", "x"], &dumps] {
            let same: Vec<_> = lines.iter().map(|line| ((*line).to_owned(), 1)).collect();
            assert_eq!(unwrapped(lines), same);
        }
    }
}
