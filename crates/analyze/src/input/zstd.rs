//! Zstandard: a sequence of frames, as written by `logrotate` or `cat`, with limited memory.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;

pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The maximum length of a frame header.
const MAX_HEADER_BYTES: usize = 18;
/// The maximum window: enough for all levels up to 19; `--long` and `--ultra` need more.
const MAX_WINDOW: u64 = 8 << 20;

/// Reads all frames as one stream.
pub struct Frames<R: Read> {
    state: State<R>,
}

enum State<R: Read> {
    Between(Peeked<R>),
    Inside(Box<StreamingDecoder<Peeked<R>, ruzstd::decoding::FrameDecoder>>),
    Done,
}

/// A stream with its first bytes, which were read to detect the format.
struct Peeked<R> {
    head: Vec<u8>,
    inner: R,
}

impl<R: Read> Frames<R> {
    /// Reads from the first frame on.
    pub fn new(inner: R) -> Self {
        let head = Vec::with_capacity(MAX_HEADER_BYTES);
        Self {
            state: State::Between(Peeked { head, inner }),
        }
    }

    /// Continues with the next frame, or ends.
    fn advance(mut peeked: Peeked<R>) -> io::Result<State<R>> {
        loop {
            peeked.look(MAX_HEADER_BYTES)?;
            let head = &peeked.head;
            if head.is_empty() {
                return Ok(State::Done);
            }
            if let [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, ..] = **head {
                let length = u64::from(u32::from_le_bytes([a, b, c, d])) + 8;
                io::copy(&mut (&mut peeked).take(length), &mut io::sink())?;
                continue;
            }
            if !head.starts_with(&MAGIC) {
                return Err(invalid("the data that follows is not a zstd frame"));
            }
            let window = window(head).ok_or_else(|| invalid("a frame header is truncated"))?;
            if window > MAX_WINDOW {
                return Err(invalid(&format!(
                    "it was compressed with a window of {} MiB; the maximum is {} MiB: decompress \
                     it with `zstd -dc`",
                    window >> 20,
                    MAX_WINDOW >> 20
                )));
            }
            let decoder = StreamingDecoder::new(peeked).map_err(io::Error::other)?;
            return Ok(State::Inside(Box::new(decoder)));
        }
    }
}

/// The memory that a frame needs, according to its header.
fn window(head: &[u8]) -> Option<u64> {
    let descriptor = *head.get(4)?;
    let is_single = descriptor & 0x20 != 0;
    if !is_single {
        let window = u64::from(*head.get(5)?);
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * (window & 7));
    }
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let field = head
        .get(5 + dictionary..5 + dictionary + size)?
        .iter()
        .rev();
    let number = field.fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Some(if size == 2 { number + 256 } else { number })
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<R: Read> Peeked<R> {
    /// Reads ahead until this many bytes are known, or the stream ends.
    fn look(&mut self, bytes: usize) -> io::Result<()> {
        let missing = bytes.saturating_sub(self.head.len()) as u64;
        (&mut self.inner)
            .take(missing)
            .read_to_end(&mut self.head)?;
        Ok(())
    }
}

impl<R: Read> Read for Peeked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.head.is_empty() {
            return self.inner.read(buffer);
        }
        let read = self.head.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.head[..read]);
        self.head.drain(..read);
        Ok(read)
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Ok(0),
                State::Between(peeked) => self.state = Self::advance(peeked)?,
                State::Inside(mut decoder) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 || buffer.is_empty() {
                        self.state = State::Inside(decoder);
                        return Ok(read);
                    }
                    self.state = State::Between(decoder.into_inner());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn consecutive_frames_are_one_text() {
        let mut bytes = compress_to_vec(&b"one\n"[..], CompressionLevel::Fastest);
        bytes.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        bytes.extend(compress_to_vec(&b"two\n"[..], CompressionLevel::Fastest));
        let mut text = String::new();
        Frames::new(&*bytes).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn damaged_frames_and_large_windows_are_errors() {
        let whole = compress_to_vec(&[b'x'; 5000][..], CompressionLevel::Fastest);
        let read = |bytes: &[u8]| Frames::new(bytes).read_to_end(&mut Vec::new());
        assert!(read(&whole[..whole.len() - 5]).is_err());
        assert!(read(&[&whole[..], b"rubbish"].concat()).is_err());
        // A window of 128 MiB.
        let greedy = [0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 0, 0, 0];
        assert!(read(&greedy).unwrap_err().to_string().contains("128 MiB"));
    }
}
