//! Oversize and malformed answers: the service marks them, and then their encoded bytes are
//! changed.

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use tonic::body::Body;

use cri::frame::framed;

use crate::faults::{AnswerForm, Malformation};

/// The largest message that a kubelet receives, in bytes.
const KUBELET_RECEIVE_LIMIT: usize = 16 << 20;

/// The bytes of a gRPC frame's header: a flag, and the length of the message.
const FRAME_HEADER: usize = 5;

/// The key of a bytes field with the number 1000. No message of CRI has this field, so decoders
/// skip it.
const UNKNOWN_FIELD: [u8; 2] = [0xc2, 0x3e];

/// How the bytes of an answer are changed.
#[derive(Clone, Copy, Debug)]
enum Mangled {
    Padded,
    Garbage,
}

/// The answer with this message, marked with the form that it is to have.
pub(super) fn marked<T>(message: T, form: AnswerForm) -> tonic::Response<T> {
    let mut response = tonic::Response::new(message);
    let mangled = match form {
        AnswerForm::Oversize => Mangled::Padded,
        AnswerForm::Malformed(Malformation::Garbage) => Mangled::Garbage,
        // The service itself makes the messages of these forms.
        AnswerForm::Correct
        | AnswerForm::Malformed(Malformation::WithoutStatus | Malformation::OfAnother) => {
            return response;
        }
    };
    response.extensions_mut().insert(mangled);
    response
}

/// Changes the bytes of an answer as marked.
pub(super) fn apply(response: http::Response<Body>) -> http::Response<Body> {
    let Some(mangled) = response.extensions().get::<Mangled>().copied() else {
        return response;
    };
    response.map(|body| match mangled {
        Mangled::Padded => padded(body),
        Mangled::Garbage => garbage(body),
    })
}

/// The answer with an unknown field of zeros, which makes it too large.
fn padded(body: Body) -> Body {
    let mut is_first = true;
    Body::new(body.map_frame(move |frame| {
        let first = std::mem::take(&mut is_first);
        frame.map_data(|data| if first { pad(&data) } else { data })
    }))
}

/// Pads a frame. Each answer of this service is one frame in one piece.
fn pad(frame: &Bytes) -> Bytes {
    let message = frame.get(FRAME_HEADER..).unwrap_or_default();
    let mut padded = BytesMut::with_capacity(frame.len() + KUBELET_RECEIVE_LIMIT + 16);
    padded.put_slice(message);
    padded.put_slice(&UNKNOWN_FIELD);
    // The limit as a varint: 2^24 is the fourth group of seven bits.
    padded.put_slice(&[0x80, 0x80, 0x80, 0x08]);
    padded.put_bytes(0, KUBELET_RECEIVE_LIMIT);
    framed(&padded)
}

/// A frame whose bytes are not a protobuf message, with the trailers of a success.
fn garbage(body: Body) -> Body {
    let trailers = async move {
        let collected = body.collect().await.ok()?;
        collected.trailers().cloned().map(Ok)
    };
    Body::new(Full::new(framed(&[0xff; 64])).with_trailers(trailers))
}
