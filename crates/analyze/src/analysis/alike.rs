//! Lines that begin like an earlier one: most lines of a log differ only in digits and in their
//! message, and are of no interest. They are counted but not parsed, except the last of them,
//! whose time the next line may need.

use crate::kind::Writer;

/// Longer line heads are not shared by many lines.
const MAX_HEAD_BYTES: usize = 256;

/// In a journal, the lines of a few writers and severities alternate.
const MAX_HEADS: usize = 6;

/// The heads of the last lines that were of no interest.
#[derive(Debug, Default)]
pub(super) struct Alikes {
    known: Vec<Alike>,
    /// Which of them has the head of the last line, if that was only counted.
    unread: Option<usize>,
    /// Which head is replaced next.
    oldest: usize,
}

#[derive(Debug)]
struct Alike {
    /// All by which the line was recognised, and its times.
    head: Vec<u8>,
    writer: Writer,
}

impl Alikes {
    /// A line was read that begins with `head`, which alone shows that it is this writer's.
    pub(super) fn add(&mut self, head: &[u8], writer: Writer) {
        if head.len() > MAX_HEAD_BYTES {
            return;
        }
        let head = head.to_owned();
        let alike = Alike { head, writer };
        if self.known.len() < MAX_HEADS {
            self.known.push(alike);
        } else {
            self.known[self.oldest] = alike;
            self.oldest = (self.oldest + 1) % MAX_HEADS;
        }
    }

    /// Lines may have to be read in another way from now on.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whose the line is, if it begins as one of the last did.
    pub(super) fn writer_of(&mut self, line: &[u8]) -> Option<Writer> {
        let found = self.known.iter_mut().position(|alike| alike.takes(line))?;
        self.unread = Some(found);
        Some(self.known[found].writer)
    }

    /// The head of the last line, if that was only counted.
    pub(super) fn take_unread(&mut self) -> Option<Vec<u8>> {
        let unread = self.unread.take()?;
        Some(self.known[unread].head.clone())
    }
}

impl Alike {
    /// Whether the line begins in the same way; its head is then kept in place of the last.
    fn takes(&mut self, line: &[u8]) -> bool {
        let Some(head) = line.get(..self.head.len()) else {
            return false;
        };
        // Without a branch for each byte, the compiler compares many at once.
        let pairs = head.iter().zip(&self.head);
        let is_like = pairs.fold(true, |is_like, (one, other)| {
            is_like & ((one == other) | (one.is_ascii_digit() & other.is_ascii_digit()))
        });
        if is_like {
            self.head.copy_from_slice(head);
        }
        is_like
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_alike_that_differ_in_digits_and_behind_their_heads() {
        let line = b"May 05 13:59:56 node-7 kubelet[2858]: I0505 13:59:56.872880 2858 x.go:1] a";
        let mut alikes = Alikes::default();
        alikes.add(&line[..60], Writer::Kubelet);
        assert_eq!(alikes.take_unread(), None, "it has been read");
        assert_eq!(alikes.writer_of(line), Some(Writer::Kubelet));
        for other in [
            &b"May 06 03:00:01 node-8 kubelet[285]: I0506 03:00:01.000001 2858 y.go:2] and so on"[..],
            b"May 06 03:00:01 node-8 kubelet[2858]: E0506 03:00:01.000001 2858 y.go:2] and so on",
            b"May 06",
        ] {
            assert_eq!(alikes.writer_of(other), None);
        }
        let like = b"May 06 03:00:01 node-8 kubelet[2858]: I0506 03:00:01.000001 2858 y.go:2]";
        assert_eq!(alikes.writer_of(like), Some(Writer::Kubelet));
        assert_eq!(alikes.take_unread().unwrap(), like[..60]);
        assert_eq!(alikes.take_unread(), None);
    }

    #[test]
    fn some_kinds_of_lines_may_alternate() {
        let mut alikes = Alikes::default();
        let heads: Vec<String> = ('a'..='h').map(String::from).collect();
        for head in &heads {
            alikes.add(head.as_bytes(), Writer::Runtime);
        }
        let known = heads
            .iter()
            .filter(|it| alikes.writer_of(it.as_bytes()).is_some());
        assert_eq!(known.cloned().collect::<String>(), "cdefgh");
        alikes.forget();
        assert_eq!(alikes.writer_of(b"h"), None);
    }
}
