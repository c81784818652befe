//! The heads of lines that no rule matches. Most lines of a log differ only in digits and in their
//! message, and no rule matches them. A line whose head is known is counted but not parsed. Only the
//! head of the last such line is parsed later, because the next line may need its time.

use crate::kind::Writer;

/// The maximum length of a head. Longer ones are not shared by many lines.
const MAX_HEAD_BYTES: usize = 256;

/// How many heads are kept. In a journal, the lines of a few writers and severities alternate.
const MAX_HEADS: usize = 6;

/// The heads of the last lines that no rule matched.
#[derive(Debug, Default)]
pub(super) struct Heads {
    known: Vec<Head>,
    /// The index of the head of the last line, if that line was only counted.
    unread: Option<usize>,
    oldest: usize,
}

#[derive(Debug)]
struct Head {
    /// The part of the line that shows its writer, and its times.
    text: Vec<u8>,
    writer: Writer,
}

impl Heads {
    /// Adds the head of a line that was read. The head alone must show that the line is this writer's.
    pub(super) fn add(&mut self, head: &[u8], writer: Writer) {
        if head.len() > MAX_HEAD_BYTES {
            return;
        }
        let text = head.to_owned();
        let head = Head { text, writer };
        if self.known.len() < MAX_HEADS {
            self.known.push(head);
        } else {
            self.known[self.oldest] = head;
            self.oldest = (self.oldest + 1) % MAX_HEADS;
        }
    }

    /// Forgets all heads, because the next lines may have to be read in another way.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The writer of the line, if the line begins with a known head.
    pub(super) fn writer_of(&mut self, line: &[u8]) -> Option<Writer> {
        let found = self.known.iter_mut().position(|head| head.takes(line))?;
        self.unread = Some(found);
        Some(self.known[found].writer)
    }

    /// The head of the last line, if that line was only counted.
    pub(super) fn take_unread(&mut self) -> Option<Vec<u8>> {
        let unread = self.unread.take()?;
        Some(self.known[unread].text.clone())
    }
}

impl Head {
    /// Whether the line begins with this head, apart from digits. If so, the line's own head replaces it.
    fn takes(&mut self, line: &[u8]) -> bool {
        let Some(head) = line.get(..self.text.len()) else {
            return false;
        };
        // Without a branch for each byte, the compiler compares many at once.
        let pairs = head.iter().zip(&self.text);
        let is_like = pairs.fold(true, |is_like, (one, other)| {
            is_like & ((one == other) | (one.is_ascii_digit() & other.is_ascii_digit()))
        });
        if is_like {
            self.text.copy_from_slice(head);
        }
        is_like
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_matches_lines_that_differ_only_in_digits_and_in_their_message() {
        let line = b"May 05 13:59:56 node-7 kubelet[2858]: I0505 13:59:56.872880 2858 x.go:1] a";
        let mut heads = Heads::default();
        heads.add(&line[..60], Writer::Kubelet);
        assert_eq!(heads.take_unread(), None, "it has been read");
        assert_eq!(heads.writer_of(line), Some(Writer::Kubelet));
        for other in [
            &b"May 06 03:00:01 node-8 kubelet[285]: I0506 03:00:01.000001 2858 y.go:2] and so on"[..],
            b"May 06 03:00:01 node-8 kubelet[2858]: E0506 03:00:01.000001 2858 y.go:2] and so on",
            b"May 06",
        ] {
            assert_eq!(heads.writer_of(other), None);
        }
        let like = b"May 06 03:00:01 node-8 kubelet[2858]: I0506 03:00:01.000001 2858 y.go:2]";
        assert_eq!(heads.writer_of(like), Some(Writer::Kubelet));
        assert_eq!(heads.take_unread().unwrap(), like[..60]);
        assert_eq!(heads.take_unread(), None);
    }

    #[test]
    fn some_kinds_of_lines_may_alternate() {
        let mut heads = Heads::default();
        let lines: Vec<String> = ('a'..='h').map(String::from).collect();
        for head in &lines {
            heads.add(head.as_bytes(), Writer::Runtime);
        }
        let known = lines
            .iter()
            .filter(|it| heads.writer_of(it.as_bytes()).is_some());
        assert_eq!(known.cloned().collect::<String>(), "cdefgh");
        heads.forget();
        assert_eq!(heads.writer_of(b"h"), None);
    }
}
