//! Splits the answer of a list into its items while it arrives.
//!
//! ```text
//!   frames of HTTP/2 --> [flag, length] --> tag 1, length, item --> each(item)
//!                                                        |
//!                             an item across two frames: carried over
//! ```
//!
//! The answer to a list call is one message with one repeated field, number 1. The answer to its
//! streamed form (KEP-5825) is many such messages.

use bytes::{Buf, Bytes, BytesMut};
use prost::encoding::{WireType, decode_key, decode_varint};
use tonic::Status;

use crate::fields::Malformed;
use crate::frame::HEADER;

/// The maximum length of a tag and a length: ten bytes each.
const MAX_KEY_BYTES: usize = 20;

pub(crate) struct Items<F> {
    each: F,
    limit: usize,
    /// The bytes that have arrived of an incomplete header or item.
    carried: BytesMut,
    /// The length of the message that is being read, and how many of its bytes are missing.
    message: Option<(usize, usize)>,
    /// The total length of the messages before the current one.
    read: usize,
    streamed: bool,
}

impl<F: FnMut(&[u8]) -> Result<(), Malformed>> Items<F> {
    /// Passes every item to `each`, and refuses a message larger than `limit` bytes.
    pub(crate) fn new(limit: usize, each: F) -> Self {
        Self {
            each,
            limit,
            carried: BytesMut::new(),
            message: None,
            read: 0,
            streamed: false,
        }
    }

    /// Like [`Items::new`], for an answer of any number of messages.
    pub(crate) fn streamed(limit: usize, each: F) -> Self {
        Self {
            streamed: true,
            ..Self::new(limit, each)
        }
    }

    /// Reads the next bytes of the answer.
    pub(crate) fn feed(&mut self, data: Bytes) -> Result<(), Status> {
        if self.carried.is_empty() {
            let mut rest = &data[..];
            self.cut(&mut rest)?;
            self.carried.extend_from_slice(rest);
        } else {
            let mut carried = std::mem::take(&mut self.carried);
            carried.extend_from_slice(&data);
            let mut rest = &carried[..];
            self.cut(&mut rest)?;
            let cut = carried.len() - rest.len();
            carried.advance(cut);
            self.carried = carried;
        }
        Ok(())
    }

    /// Ends the answer and returns its size in bytes. Fails if bytes are missing.
    pub(crate) fn end(self) -> Result<usize, Status> {
        match self.message {
            Some((length, 0)) => Ok(self.read + length),
            None if self.streamed && self.carried.is_empty() => Ok(self.read),
            Some((length, left)) => Err(Status::internal(format!(
                "failed to decode: {left} of {length} bytes are missing"
            ))),
            None => Err(Status::internal("failed to decode: the answer is missing")),
        }
    }

    /// Passes all complete items at the beginning of `bytes` to `each`, and removes them.
    fn cut(&mut self, bytes: &mut &[u8]) -> Result<(), Status> {
        loop {
            if self.message.is_none() && bytes.len() >= HEADER {
                let length = self.header(bytes)?;
                self.message = Some((length, length));
            }
            let Some((length, left)) = &mut self.message else {
                return Ok(());
            };
            while let Some((item, length)) = next(bytes, *left)? {
                *left -= length;
                *bytes = &bytes[length..];
                if let Some(item) = item {
                    (self.each)(item).map_err(malformed)?;
                }
            }
            if *left > 0 || bytes.is_empty() {
                return Ok(());
            }
            if !self.streamed {
                return Err(malformed("bytes after its end"));
            }
            self.read += *length;
            self.message = None;
        }
    }

    fn header(&self, bytes: &mut &[u8]) -> Result<usize, Status> {
        let compressed = bytes.get_u8() != 0;
        let length = bytes.get_u32() as usize;
        if compressed {
            return Err(malformed("compressed, which was not requested"));
        }
        if length > self.limit {
            return Err(Status::out_of_range(format!(
                "message length too large: found {length} bytes, the limit is: {} bytes",
                self.limit
            )));
        }
        Ok(length)
    }
}

/// The bytes of a field if it is an item, and the length of the field with its key.
type ItemAndLength<'a> = (Option<&'a [u8]>, usize);

/// The first field, if all of it has arrived. `left` is the number of bytes until the end of the
/// message.
fn next(bytes: &[u8], left: usize) -> Result<Option<ItemAndLength<'_>>, Status> {
    // Further bytes belong to the next message.
    let bytes = &bytes[..bytes.len().min(left)];
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut rest = bytes;
    let complete = bytes.len() == left;
    let key = decode_key(&mut rest).and_then(|(number, wire)| {
        let length = match wire {
            WireType::LengthDelimited => decode_varint(&mut rest)?,
            WireType::Varint => decode_varint(&mut rest).map(|_| 0)?,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            // A group has no length prefix. This length exceeds that of every message, so it is an
            // error.
            WireType::StartGroup | WireType::EndGroup => u64::MAX,
        };
        Ok((number, wire, length))
    });
    let (number, wire, length) = match key {
        Ok(key) => key,
        // The rest of the key may be missing.
        Err(_) if !complete && bytes.len() < MAX_KEY_BYTES => return Ok(None),
        Err(error) => return Err(malformed(error)),
    };
    let ahead = left - (bytes.len() - rest.len());
    if length > ahead as u64 {
        return Err(malformed("an item ends after the answer does"));
    }
    let Some((field, after)) = rest.split_at_checked(length as usize) else {
        return Ok(None);
    };
    let is_item = number == 1 && wire == WireType::LengthDelimited;
    let taken = bytes.len() - after.len();
    Ok(Some((is_item.then_some(field), taken)))
}

fn malformed(what: impl ToString) -> Status {
    Status::internal(format!("failed to decode: {}", what.to_string()))
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::v1;

    fn answer(items: usize) -> Vec<u8> {
        let sandbox = |number: usize| v1::PodSandbox {
            id: format!("id-{number}"),
            runtime_handler: "x".repeat(number % 300),
            ..Default::default()
        };
        let message = v1::ListPodSandboxResponse {
            items: (0..items).map(sandbox).collect(),
        }
        .encode_to_vec();
        let mut framed = vec![0];
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend(message);
        framed
    }

    /// Feeds `bytes` in pieces. Returns the ids of the items and the result.
    fn read(bytes: &[u8], piece: usize, limit: usize) -> (Vec<String>, Result<usize, String>) {
        let mut ids = Vec::new();
        let mut items = Items::new(limit, |item: &[u8]| {
            ids.push(crate::lean::sandbox(item)?.id.to_owned());
            Ok(())
        });
        let fed = bytes
            .chunks(piece)
            .try_for_each(|piece| items.feed(Bytes::copy_from_slice(piece)));
        let ended = fed.and_then(|()| items.end());
        (ids, ended.map_err(|status| status.message().to_owned()))
    }

    #[test]
    fn items_are_complete_however_the_bytes_arrive() {
        let bytes = answer(40);
        let whole: Vec<String> = (0..40).map(|number| format!("id-{number}")).collect();
        for piece in (1..60).chain([1000, bytes.len()]) {
            let (ids, ended) = read(&bytes, piece, 1 << 20);
            assert_eq!(ids, whole, "in pieces of {piece}");
            assert_eq!(ended, Ok(bytes.len() - HEADER));
        }
    }

    #[test]
    fn an_empty_answer_has_no_items() {
        assert_eq!(read(&answer(0), 5, 100), (vec![], Ok(0)));
    }

    #[test]
    fn an_answer_above_the_limit_is_refused_with_both_figures() {
        let (ids, ended) = read(&answer(40), 100, 1000);
        assert_eq!(ids, Vec::<String>::new());
        let error = ended.unwrap_err();
        assert!(
            error.contains("found ") && error.contains("the limit is: 1000 bytes"),
            "{error}"
        );
    }

    #[test]
    fn a_truncated_answer_is_an_error() {
        let bytes = answer(3);
        for cut in 0..bytes.len() {
            let (_, ended) = read(&bytes[..cut], 7, 1 << 20);
            assert!(ended.is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn other_fields_are_skipped_at_any_place() {
        let (varint, text) = ([0x10, 0x7f], [0x1a, 2, b'n', b'o']);
        for unknown in [&varint[..], &text[..]] {
            let items = answer(2).split_off(HEADER);
            let message = [unknown, &items, unknown].concat();
            let mut bytes = vec![0];
            bytes.extend((message.len() as u32).to_be_bytes());
            bytes.extend(message);
            for piece in 1..bytes.len() {
                let (ids, ended) = read(&bytes, piece, 1 << 20);
                assert_eq!(ids, ["id-0", "id-1"]);
                assert_eq!(ended, Ok(bytes.len() - HEADER));
            }
        }
    }

    #[test]
    fn a_streamed_answer_is_many_messages_each_within_the_limit() {
        let read = |bytes: &[u8], piece: usize| {
            let mut count = 0;
            let mut items = Items::streamed(600, |_: &[u8]| {
                count += 1;
                Ok(())
            });
            let mut pieces = bytes.chunks(piece);
            let fed = pieces.try_for_each(|piece| items.feed(Bytes::copy_from_slice(piece)));
            let ended = fed.and_then(|()| items.end());
            (count, ended.map_err(|status| status.message().to_owned()))
        };
        let bytes = [answer(3), answer(0), answer(20)].concat();
        for piece in 1..bytes.len() {
            assert_eq!(read(&bytes, piece), (23, Ok(bytes.len() - 3 * HEADER)));
        }
        assert_eq!(read(&[], 1), (0, Ok(0)), "no items at all");
        let cut = read(&bytes[..bytes.len() - 1], 7).1;
        assert!(cut.unwrap_err().contains("bytes are missing"));
        let large = [answer(3), answer(100)].concat();
        assert!(
            read(&large, 50)
                .1
                .unwrap_err()
                .contains("the limit is: 600")
        );
    }

    #[test]
    fn damaged_bytes_cause_neither_a_panic_nor_a_hang() {
        let bytes = answer(5);
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[index] ^= 1 << bit;
                let _ = read(&damaged, 11, 1 << 20);
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(read(&longer, 11, 1 << 20).1.is_err());
    }
}
