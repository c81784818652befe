//! Complete answers: those of the runtime, which may go to several callers, and those of the guard.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};

use super::upstream::NoAnswer;
use super::{Body, MAX_REQUEST_BYTES};
use crate::core::{Failure, Outcome, Reply};
use cri::dockerd;
use cri::frame::{framed, messages_of};

/// gRPC status codes.
const CANCELLED: i32 = 1;
const UNKNOWN: i32 = 2;
pub(super) const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const RESOURCE_EXHAUSTED: i32 = 8;
pub(super) const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

/// An answer with its headers and trailers.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    data: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    /// When the runtime's answer was complete; `None` for an answer of the guard.
    pub(super) complete: Option<Instant>,
}

impl Answer {
    /// Reads an answer to its end.
    pub(super) async fn read(response: Response<RecvStream>) -> Result<Self, h2::Error> {
        let (parts, mut body) = response.into_parts();
        let mut answer = Self {
            status: parts.status,
            headers: parts.headers,
            data: Vec::new(),
            trailers: None,
            complete: None,
        };
        let is_whole = loop {
            match body.data().await {
                None => break true,
                Some(Ok(data)) => {
                    body.flow_control().release_capacity(data.len())?;
                    answer.data.push(data);
                }
                // hyper, which streams other answers, treats these two resets as their end too.
                Some(Err(error)) => match error.reason() {
                    Some(h2::Reason::NO_ERROR | h2::Reason::CANCEL) => break false,
                    _ => return Err(error),
                },
            }
        };
        if is_whole {
            answer.trailers = body.trailers().await?;
        }
        answer.complete = Some(Instant::now());
        Ok(answer)
    }

    /// A reply of the guard.
    pub(super) fn ours(reply: Reply) -> Self {
        match reply {
            Reply::Message(message) => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                Self {
                    status: StatusCode::OK,
                    headers: grpc_headers(),
                    data: vec![framed(&message)],
                    trailers: Some(trailers),
                    complete: None,
                }
            }
            Reply::Failed(failure) => Self::failed(failure.code(), Failure::text(failure)),
        }
    }

    /// The error `Unavailable`, for a call without an answer.
    pub(super) fn lost(why: &str) -> Self {
        Self::failed(UNAVAILABLE, &format!("pleg guard: {why}"))
    }

    /// The error for a call without an answer, and its outcome. The status code for a reset is the one
    /// that gRPC over HTTP/2 defines.
    pub(super) fn none(why: &NoAnswer) -> (Self, Outcome) {
        let text = format!("pleg guard: {why}");
        let NoAnswer::Reset(reason) = why else {
            return (Self::failed(UNAVAILABLE, &text), Outcome::Lost);
        };
        let code = match *reason {
            h2::Reason::REFUSED_STREAM => UNAVAILABLE,
            h2::Reason::CANCEL => CANCELLED,
            h2::Reason::ENHANCE_YOUR_CALM => RESOURCE_EXHAUSTED,
            _ => INTERNAL,
        };
        let answer = Self {
            complete: Some(Instant::now()),
            ..Self::failed(code, &text)
        };
        (answer, Outcome::GivenUp)
    }

    /// The error for a request that is larger than any runtime accepts.
    pub(super) fn too_large() -> Self {
        let text = format!("pleg guard: the request is larger than {MAX_REQUEST_BYTES} bytes");
        Self::failed(RESOURCE_EXHAUSTED, &text)
    }

    /// An error of the guard.
    pub(super) fn failed(code: i32, text: &str) -> Self {
        let mut headers = grpc_headers();
        headers.insert("grpc-status", HeaderValue::from(code));
        // Leave out a text that is not valid in a header: clients decide by the code.
        if let Ok(text) = HeaderValue::from_str(text) {
            headers.insert("grpc-message", text);
        }
        Self {
            status: StatusCode::OK,
            headers,
            data: Vec::new(),
            trailers: None,
            complete: None,
        }
    }

    /// The outcome that this answer shows.
    pub(super) fn outcome(&self) -> Outcome {
        if self.status != StatusCode::OK {
            return Outcome::Undecodable;
        }
        let field = |name| {
            let trailers = self.trailers.as_ref().and_then(|of| of.get(name));
            trailers.or(self.headers.get(name))?.to_str().ok()
        };
        match field("grpc-status").and_then(|code| code.parse().ok()) {
            Some(0) => messages_of(&self.whole()).map_or(Outcome::Undecodable, Outcome::Messages),
            Some(NOT_FOUND) => Outcome::NotFound,
            Some(UNKNOWN) if field("grpc-message").is_some_and(dockerd::is_not_found) => {
                Outcome::NotFound
            }
            Some(CANCELLED | DEADLINE_EXCEEDED | UNAVAILABLE) => Outcome::GivenUp,
            Some(_) => Outcome::Failed,
            None => Outcome::Undecodable,
        }
    }

    fn whole(&self) -> Bytes {
        match self.data.as_slice() {
            [one] => one.clone(),
            many => {
                let length = many.iter().map(Bytes::len).sum();
                let mut whole = BytesMut::with_capacity(length);
                for data in many {
                    whole.extend_from_slice(data);
                }
                whole.freeze()
            }
        }
    }

    /// The HTTP response with this answer.
    pub(super) fn into_response(self) -> Response<Body> {
        let body = Whole {
            data: self.data.into(),
            trailers: self.trailers,
        };
        let mut response = Response::new(body.boxed());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

fn grpc_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let grpc = HeaderValue::from_static("application/grpc");
    headers.insert(http::header::CONTENT_TYPE, grpc);
    headers
}

/// A body of these bytes without a declared length: the client's request had none either.
pub(super) fn whole(data: Bytes) -> Body {
    let (data, trailers) = ([data].into(), None);
    Whole { data, trailers }.boxed()
}

/// An empty body.
pub(super) fn nothing() -> Body {
    let (data, trailers) = (VecDeque::new(), None);
    Whole { data, trailers }.boxed()
}

/// A body whose data is complete.
struct Whole {
    data: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Whole {
    fn boxed(self) -> Body {
        self.map_err(|never: Infallible| match never {})
            .boxed_unsync()
    }
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.pop_front().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_container_of_dockerd_is_not_found_by_code_or_by_text() {
        let outcome = |code, text| Answer::failed(code, text).outcome();
        let none = "Error response from daemon: No such container: 0123";
        assert!(matches!(outcome(UNKNOWN, none), Outcome::NotFound));
        assert!(matches!(outcome(NOT_FOUND, "gone"), Outcome::NotFound));
        assert!(matches!(outcome(UNAVAILABLE, none), Outcome::GivenUp));
        assert!(matches!(outcome(UNKNOWN, "it is busy"), Outcome::Failed));
    }
}
