//! The header of klog and glog: `E1008 16:23:14.139967    1636 kubelet.go:1846] `.
//!
//! ```
//! use analyze::line::klog;
//!
//! let line = b"E1008 16:23:14.139967    1636 kubelet.go:1846] skipping pod synchronization";
//! let read = klog::parse(line).map(|klog| (klog.pid, klog.place));
//! assert_eq!(read, Some((1636, &b"kubelet.go:1846"[..])));
//! ```

use causes::facts::facts;

use super::cursor::Cursor;

/// A parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Klog<'a> {
    /// The id of the process or of a thread; 0 if it is missing.
    pub pid: u32,
    /// The place in the source, `kubelet.go:1846`, sometimes with its directory; empty if it is missing.
    pub place: &'a [u8],
    /// The message.
    pub message: &'a [u8],
}

/// The length of a header up to the time: `E1008 16:23:14.139967 `.
pub const TIMED: usize = 22;

/// Whether a header begins here. This check runs for every line, so it is cheap.
pub fn begins(line: &[u8]) -> bool {
    matches!(line, [b'I' | b'W' | b'E' | b'F', m1, m2, d1, d2, b' ', h1, h2, b':', _, _, b':', _, _, b'.', ..]
        if [m1, m2, d1, d2, h1, h2].iter().all(|byte| byte.is_ascii_digit()))
}

/// Parses the header that begins here. The parts after the time may be missing.
pub fn parse(line: &[u8]) -> Option<Klog<'_>> {
    if !begins(line) {
        return None;
    }
    let mut rest = Cursor(line.get(TIMED - 1..).unwrap_or_default());
    rest.spaces();
    let pid = rest.number(1, 9).unwrap_or(0);
    rest.spaces();
    let (place, message) = match memchr::memchr(b']', &rest.0[..rest.0.len().min(200)]) {
        Some(end) => (&rest.0[..end], rest.0[end + 1..].trim_ascii_start()),
        None => (&rest.0[..0], rest.0),
    };
    Some(Klog {
        pid,
        place,
        message,
    })
}

/// The position of a header in a line of unknown form.
pub fn find(line: &[u8]) -> Option<usize> {
    let near = line.len().min(300);
    (0..near).find(|&at| {
        let is_word_start = at == 0 || !line[at - 1].is_ascii_alphanumeric();
        is_word_start && begins(&line[at..])
    })
}

/// Whether the line is by another program, one whose log often appears beside that of a kubelet.
pub fn is_of_another_program(line: &[u8]) -> bool {
    parse(line).is_some_and(|klog| facts().begins("other-programs", klog.place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_generations_are_read() {
        for (line, place, message) in [
            (
                "I0505 13:59:56.872880    2858 kubelet_node_status.go:379] Recording",
                "kubelet_node_status.go:379",
                "Recording",
            ),
            (
                "E1109 21:31:26.170721  112447 kubelet/kubelet.go:1991] \"Skipping\"",
                "kubelet/kubelet.go:1991",
                "\"Skipping\"",
            ),
            (
                "E0301 15:52:28.477667 3031 kubelet.go:1991] x",
                "kubelet.go:1991",
                "x",
            ),
            ("W0301 15:52:28.477667 3031 kubelet.go", "", "kubelet.go"),
        ] {
            let read = parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (read.place, read.message),
                (place.as_bytes(), message.as_bytes()),
                "{line}"
            );
        }
        assert!(!begins(b"E2E tests 16:23:14"));
    }

    #[test]
    fn a_header_is_found_behind_pasted_text() {
        assert_eq!(
            find(b"  -- node7: E0301 15:52:28.477667 3031 kubelet.go:1991] x"),
            Some(12)
        );
        assert_eq!(find(b"nothing here"), None);
    }
}
