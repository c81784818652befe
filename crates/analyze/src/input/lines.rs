//! Splits bytes into lines of limited length.

use std::io::{self, Read};

/// The maximum length of a line. The rest of a longer one is read but not kept.
pub const MAX_LINE_BYTES: usize = 1 << 20;
const CHUNK: usize = 256 << 10;

/// Passes on each line without its line break, and whether its rest is missing.
pub fn each_line(mut bytes: impl Read, mut line: impl FnMut(&[u8], bool)) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    // The beginning of a line whose end has not been read yet.
    let mut begun: Vec<u8> = Vec::new();
    let mut cut = false;
    loop {
        let read = match bytes.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                if !begun.is_empty() {
                    line(&begun, true);
                }
                return Err(error);
            }
        };
        let mut rest = &chunk[..read];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if begun.is_empty() && !cut {
                line(&rest[..end], false);
            } else {
                cut |= keep(&mut begun, &rest[..end]);
                line(&begun, cut);
                begun.clear();
                cut = false;
            }
            rest = &rest[end + 1..];
        }
        cut |= keep(&mut begun, rest);
    }
    if !begun.is_empty() {
        line(&begun, cut);
    }
    Ok(())
}

/// Keeps as much as fits, and returns whether something did not fit.
fn keep(begun: &mut Vec<u8>, more: &[u8]) -> bool {
    let room = MAX_LINE_BYTES.saturating_sub(begun.len());
    begun.extend_from_slice(&more[..more.len().min(room)]);
    more.len() > room
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(usize, bool)> {
        let mut lines = Vec::new();
        each_line(bytes, |line, cut| lines.push((line.len(), cut))).unwrap();
        lines
    }

    #[test]
    fn the_last_line_needs_no_end() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"a\n\nbc"), [(1, false), (0, false), (2, false)]);
        assert_eq!(lines(b"a\n"), [(1, false)]);
    }

    #[test]
    fn a_line_that_is_too_long_is_one_cut_line() {
        let mut bytes = vec![b'x'; 3 * MAX_LINE_BYTES];
        bytes.extend(b"\nnext\n");
        assert_eq!(lines(&bytes), [(MAX_LINE_BYTES, true), (4, false)]);
        assert_eq!(lines(&vec![0; MAX_LINE_BYTES]), [(MAX_LINE_BYTES, false)]);
    }
}
