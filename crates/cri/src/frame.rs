//! gRPC's framing of messages: a flag that is 0 unless the message is compressed, a length, the message.
//!
//! ```
//! use cri::frame::{framed, message_of};
//!
//! let body = framed(b"a message");
//! assert_eq!(body[..5], [0, 0, 0, 0, 9]);
//! assert_eq!(message_of(&body).as_deref(), Some(&b"a message"[..]));
//! ```

use bytes::{BufMut, Bytes, BytesMut};

/// The bytes of a frame's header: a flag, and a length of four bytes.
pub(crate) const HEADER: usize = 5;

/// The message of a unary body. `None` if the body is not exactly one message, or is compressed.
pub fn message_of(body: &Bytes) -> Option<Bytes> {
    let (flag, length) = header(body)?;
    (flag == 0 && body.len() == HEADER + length).then(|| body.slice(HEADER..))
}

/// The messages of a streamed body. `None` if the body ends within a message, or one is compressed.
pub fn messages_of(body: &Bytes) -> Option<Vec<Bytes>> {
    let mut rest = body.clone();
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (flag, length) = header(&rest)?;
        if flag != 0 || rest.len() < HEADER + length {
            return None;
        }
        let mut message = rest.split_off(HEADER);
        rest = message.split_off(length);
        messages.push(message);
    }
    Some(messages)
}

/// The total length of all complete messages at the beginning of a streamed body, compressed or
/// not.
pub fn whole_messages(body: &[u8]) -> usize {
    let mut whole = 0;
    while let Some((_, length)) = header(&body[whole..]) {
        let end = whole + HEADER + length;
        if end > body.len() {
            break;
        }
        whole = end;
    }
    whole
}

/// The flag and the length in the header at the beginning of these bytes.
fn header(bytes: &[u8]) -> Option<(u8, usize)> {
    let [flag, length @ ..] = bytes.first_chunk::<HEADER>()?;
    Some((*flag, u32::from_be_bytes(*length) as usize))
}

/// A body that consists of this message.
pub fn framed(message: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(HEADER + message.len());
    body.put_u8(0);
    body.put_u32(message.len() as u32);
    body.put_slice(message);
    body.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_framed_message_is_read_again() {
        let body = framed(b"abc");
        assert_eq!(message_of(&body), Some(Bytes::from_static(b"abc")));
        assert_eq!(message_of(&framed(b"")), Some(Bytes::new()));
    }

    #[test]
    fn a_compressed_truncated_or_second_message_is_not_read() {
        let one = framed(b"abc");
        let two = Bytes::from([one.as_ref(), one.as_ref()].concat());
        assert_eq!(message_of(&two), None);
        assert_eq!(messages_of(&two).map(|messages| messages.len()), Some(2));
        let cut = [one.as_ref(), one.as_ref(), &one[..4]].concat();
        assert_eq!(whole_messages(&cut), two.len());
        assert_eq!(whole_messages(&cut[..two.len() - 1]), one.len());
        for end in 0..one.len() {
            assert_eq!(message_of(&one.slice(..end)), None);
        }
        assert_eq!(messages_of(&one.slice(..one.len() - 1)), None);
        let mut compressed = one.to_vec();
        compressed[0] = 1;
        assert_eq!(message_of(&Bytes::from(compressed.clone())), None);
        assert_eq!(messages_of(&Bytes::from(compressed)), None);
    }
}
