//! Removes what pasting puts around a line: marks of lists and frames, line numbers, the name of the file
//! that the line was found in, line breaks of HTML, and no-break spaces.
//!
//! ```text
//!      12  E1008 16:23:14.139967 …              cat -n
//!   /var/log/messages:Oct  8 16:29:51 …          grep
//!   * │ `E1008 16:23:14.139967 …`<br>            a list, a frame, code, a web page
//! ```
//!
//! What could be part of the line is removed only before something that begins a log line.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use super::quoted::without_entities;
use super::{klog, stamp};

pub(crate) const NO_BREAK: &[u8] = "\u{a0}".as_bytes();

/// Frame characters and bullets; no log line begins with one.
const MARKS: [&str; 4] = ["│", "┃", "▌", "•"];

/// What ends a line of a web page.
const BREAKS: [&[u8]; 3] = [b"<br>", b"<br/>", b"<br />"];

/// The maximum length of a path.
const MAX_PATH: usize = 160;

#[derive(Debug)]
pub(crate) struct Pasted {
    /// The number of the next line, if each line so far began with its number.
    number: Option<u64>,
}

impl Default for Pasted {
    fn default() -> Self {
        Self { number: Some(1) }
    }
}

impl Pasted {
    /// The line without what pasting put around it. `is_spaced`: the line may contain no-break spaces.
    pub(crate) fn clean<'a>(&mut self, line: &'a [u8], is_spaced: bool) -> Cow<'a, [u8]> {
        let is_json = line.trim_ascii_start().starts_with(b"{");
        let plain = match is_json {
            // An entity may be a quotation mark, which would make the JSON invalid.
            true => Cow::Borrowed(line),
            false => without_entities(line),
        };
        match plain {
            // A search for one byte is much faster than for a whole character.
            Cow::Borrowed(line) if !is_spaced || memchr(NO_BREAK[0], line).is_none() => {
                Cow::Borrowed(self.without_number(around(line)))
            }
            line => {
                let plain = without_no_breaks(&line);
                Cow::Owned(self.without_number(around(&plain)).to_vec())
            }
        }
    }

    fn without_number<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        let Some(expected) = self.number.take() else {
            return line;
        };
        let numbered = number(line).filter(|(number, rest)| {
            // The first processes of a listing have the same numbers, but with only one space after them.
            let is_padded =
                !line[..line.len() - rest.len()].ends_with(b" ") || rest.starts_with(b" ");
            *number == expected && is_padded && !rest.trim_ascii_start().starts_with(b"?")
        });
        let Some((number, rest)) = numbered else {
            return line;
        };
        self.number = Some(number + 1);
        rest.strip_prefix(b" ").unwrap_or(rest)
    }
}

fn without_no_breaks(line: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memmem::find(rest, NO_BREAK) {
        plain.extend_from_slice(&rest[..at]);
        plain.push(b' ');
        rest = &rest[at + NO_BREAK.len()..];
    }
    plain.extend_from_slice(rest);
    plain
}

/// The number in `   12  `, `12: `, `12| ` or `12 | `, and the rest of the line.
fn number(line: &[u8]) -> Option<(u64, &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| !byte.is_ascii_digit())?;
    let number = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    match &line[end..] {
        [b' ', b'|', b' ', rest @ ..] => Some((number, rest)),
        [b' ' | b'\t' | b':' | b'|', rest @ ..] => Some((number, rest)),
        _ => None,
    }
}

/// The line without marks at its beginning, and without line breaks of HTML.
fn around(line: &[u8]) -> &[u8] {
    let mut line = line;
    for end in BREAKS {
        line = line.strip_suffix(end).unwrap_or(line);
    }
    while let Some(rest) = mark(line) {
        line = rest;
    }
    line
}

/// The rest of the line, if it begins with a mark.
fn mark(line: &[u8]) -> Option<&[u8]> {
    let rest = match line.first()? {
        b'`' if !line.starts_with(b"``") => {
            let rest = &line[1..];
            let rest = rest.strip_suffix(b"`").unwrap_or(rest);
            return Some(rest);
        }
        0xe2 => {
            let mut marks = MARKS.iter();
            let rest = marks.find_map(|mark| line.strip_prefix(mark.as_bytes()))?;
            return Some(rest.strip_prefix(b" ").unwrap_or(rest));
        }
        b'*' | b'-' | b'|' => line[1..].strip_prefix(b" ")?,
        b'0'..=b'9' | b' ' => number(line)?.1,
        b'/' | b'.' | b'a'..=b'z' => behind_path(line)?,
        _ => return None,
    };
    let rest = rest.trim_ascii_start();
    begins_log_line(rest.strip_prefix(b"`").unwrap_or(rest)).then_some(rest)
}

/// The line after the name of a file, and perhaps the number of the line: `messages-20230101:17:`.
fn behind_path(line: &[u8]) -> Option<&[u8]> {
    let end = memchr(b':', &line[..line.len().min(MAX_PATH)])?;
    let (path, rest) = (&line[..end], &line[end + 1..]);
    let is_path = !path.contains(&b' ') && !path.contains(&b'=') && !path.contains(&b'"');
    let rest = match number(rest) {
        Some((_, behind)) if begins_log_line(behind.trim_ascii_start()) => behind,
        _ => rest,
    };
    is_path.then_some(rest)
}

/// Whether the line begins like a line of a log.
pub(crate) fn begins_log_line(line: &[u8]) -> bool {
    let is_uptime = matches!(line, [b'[', b' ' | b'0'..=b'9', ..]);
    klog::begins(line)
        || is_uptime
        || line.starts_with(b"time=")
        || line.starts_with(b"{\"")
        || stamp::take(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(lines: &[&str]) -> Vec<String> {
        let mut pasted = Pasted::default();
        let clean = |line: &&str| pasted.clean(line.as_bytes(), true).into_owned();
        let lines = lines.iter().map(clean);
        lines.map(|line| String::from_utf8(line).unwrap()).collect()
    }

    const LINE: &str = "E1008 16:23:14.139967    1636 kubelet.go:1846] skipping";

    #[test]
    fn marks_around_a_log_line_are_removed() {
        for around in [
            "* LINE",
            "- LINE",
            "| LINE",
            "│ LINE",
            "`LINE`",
            "LINE<br>",
            "* `LINE`<br/>",
            "17:LINE",
            "17 | LINE",
            "   17  LINE",
            "/var/log/messages:LINE",
            "kubelet.log:1204:LINE",
        ] {
            let line = around.replace("LINE", LINE);
            assert_eq!(cleaned(&["", &line])[1], LINE, "{around}");
        }
        let spaces = LINE.replace(' ', "\u{a0}");
        assert_eq!(cleaned(&[&spaces]), [LINE]);
    }

    #[test]
    fn line_numbers_are_removed_and_other_numbers_are_not() {
        let numbered = [
            "     1\tgoroutine 1 [running]:",
            "     2\tmain.main()",
            "     3\t",
        ];
        let plain = ["goroutine 1 [running]:", "main.main()", ""];
        assert_eq!(cleaned(&numbered), plain);
        for own in [
            &[
                "    1 ?        Ss     0:11 /sbin/init",
                "    2 ?        S      0:00 [kthreadd]",
            ][..],
            &["1 2 3", "2 5 6"],
            &[
                "    1 Ss   ep_poll   systemd",
                "    2 S    kthreadd  [kthreadd]",
            ],
            &["PID COMMAND", "1 init", "2 kthreadd"],
        ] {
            assert_eq!(cleaned(own), own);
        }
    }

    #[test]
    fn marks_that_may_be_part_of_the_line_are_kept() {
        for line in [
            "- containerd is gone",
            "* the node has 3 pods",
            "10:11:12 AM  all  1.0",
            "time=\"2024-01-02T10:11:00Z\" level=error msg=x",
            "k8s.io/kubernetes/pkg/kubelet.(*Kubelet).syncLoop(0xc0003)",
            "``` ",
            "ListContainers: context deadline exceeded",
        ] {
            assert_eq!(cleaned(&[line]), [line]);
        }
    }
}
