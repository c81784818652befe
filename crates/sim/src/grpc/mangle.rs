//! Answers that are spoilt on the wire: the service marks them, and their bytes are changed
//! once they are encoded.

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use tonic::body::Body;

use crate::faults::{Malformation, Passed};

/// What a kubelet receives at most.
const RECEIVE_LIMIT: usize = 16 << 20;

/// A gRPC frame's head: whether it is compressed, and the message's length.
const FRAME_HEAD: usize = 5;

/// A field of bytes that no message of CRI has: number 1000, which decoders skip.
const UNKNOWN_FIELD: [u8; 2] = [0xc2, 0x3e];

/// What is to be done with the bytes of an answer.
#[derive(Clone, Copy, Debug)]
enum Mangled {
    Padded,
    Garbage,
}

/// Marks an answer for what is to become of it.
pub(super) fn mark<T>(response: &mut tonic::Response<T>, passed: Passed) {
    let mangled = match passed {
        Passed::Oversize => Mangled::Padded,
        Passed::Malformed(Malformation::Garbage) => Mangled::Garbage,
        // These the service makes itself.
        Passed::Well | Passed::Malformed(Malformation::WithoutStatus | Malformation::OfAnother) => {
            return;
        }
    };
    response.extensions_mut().insert(mangled);
}

/// Does to an answer what it is marked for.
pub(super) fn answer(response: http::Response<Body>) -> http::Response<Body> {
    let Some(mangled) = response.extensions().get::<Mangled>().copied() else {
        return response;
    };
    response.map(|body| match mangled {
        Mangled::Padded => padded(body),
        Mangled::Garbage => garbage(body),
    })
}

/// The same message, with so many zeros in a field that nobody knows that it is too large.
fn padded(body: Body) -> Body {
    let mut is_first = true;
    Body::new(body.map_frame(move |frame| {
        let first = std::mem::take(&mut is_first);
        frame.map_data(|data| if first { pad(&data) } else { data })
    }))
}

/// The answers of this service are one frame in one piece.
fn pad(frame: &Bytes) -> Bytes {
    let message = frame.get(FRAME_HEAD..).unwrap_or_default();
    let mut padded = BytesMut::with_capacity(frame.len() + RECEIVE_LIMIT + 16);
    padded.put_slice(message);
    padded.put_slice(&UNKNOWN_FIELD);
    // The limit as a varint: 2^24 is the fourth group of seven bits.
    padded.put_slice(&[0x80, 0x80, 0x80, 0x08]);
    padded.put_bytes(0, RECEIVE_LIMIT);
    framed(&padded)
}

/// A frame whose bytes are no protobuf, with the trailers of success.
fn garbage(body: Body) -> Body {
    let trailers = async move {
        let collected = body.collect().await.ok()?;
        collected.trailers().cloned().map(Ok)
    };
    Body::new(Full::new(framed(&[0xff; 64])).with_trailers(trailers))
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(FRAME_HEAD + message.len());
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    frame.freeze()
}
