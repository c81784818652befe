//! The runtime's events for any number of readers: containerd 1.7 gives each event to one reader
//! only.
//!
//! ```text
//!   kubelet --\
//!              >-- hub -- one stream --> GetContainerEvents
//!   agent ----/
//! ```
//!
//! The first reader opens the stream, the last one takes it with it. Its head and its end are
//! every reader's.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::id::Id;
use bytes::{Bytes, BytesMut};
use cri::Rpc;
use cri::frame::{messages_of, whole_messages};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::Body;
use super::tasks::spawn;
use super::upstream::{NoAnswer, Upstream, request_of};
use crate::wire::request::id_of;

/// How many pieces may wait for a reader. One that is further behind loses its stream, as it
/// would with a runtime: what it missed is what it lists.
const MOST_WAITING: usize = 1024;

/// A message that is longer than four of the longest that a kubelet takes is none.
const LONGEST: usize = 64 << 20;

/// How often it is looked whether there is a reader left.
const LOOK: Duration = Duration::from_secs(1);

/// The head of the stream, or why there is none.
type Opened = Result<Parts, Rc<NoAnswer>>;

/// All readers of the runtime's events.
pub(super) struct EventHub {
    upstream: Upstream,
    on_event: Box<dyn Fn(Id)>,
    stream: RefCell<Stream>,
    over: Notify,
    /// How often streams that passed were taken back.
    taken_back: watch::Sender<u64>,
}

enum Stream {
    None,
    Opening(Vec<(oneshot::Sender<Opened>, mpsc::Sender<Piece>)>),
    Open(Parts, Vec<mpsc::Sender<Piece>>),
}

#[derive(Clone)]
enum Piece {
    /// Whole messages.
    Data(Bytes),
    End(Option<HeaderMap>),
}

impl EventHub {
    /// A hub that tells `on_event` which id each event is about.
    pub(super) fn new(upstream: Upstream, on_event: impl Fn(Id) + 'static) -> Self {
        Self {
            upstream,
            on_event: Box::new(on_event),
            stream: RefCell::new(Stream::None),
            over: Notify::new(),
            taken_back: watch::Sender::new(0),
        }
    }

    /// Ends the streams that have passed: their readers come back, and share the one again.
    pub(super) fn take_back(&self) {
        self.taken_back.send_modify(|count| *count += 1);
    }

    /// A stream that passes as it is until it is taken back.
    pub(super) fn passing(&self, body: Body) -> Body {
        let mut taken_back = self.taken_back.subscribe();
        let taken_back = async move {
            // The hub is there for as long as anybody is served.
            let _ = taken_back.changed().await;
        };
        let body = Passing {
            body,
            taken_back: Box::pin(taken_back),
            has_ended: false,
        };
        body.boxed_unsync()
    }

    /// Takes the stream from all readers, and leaves the runtime's events to others.
    pub(super) fn end(&self) {
        *self.stream.borrow_mut() = Stream::None;
        self.over.notify_waiters();
    }

    /// One more reader: its response, or why there is none.
    pub(super) async fn read(self: Rc<Self>) -> Result<Response<Body>, Rc<NoAnswer>> {
        let (pieces, reader) = mpsc::channel(MOST_WAITING);
        let (opened, is_open) = oneshot::channel();
        let starts = {
            let mut stream = self.stream.borrow_mut();
            match &mut *stream {
                Stream::Open(head, readers) => {
                    readers.push(pieces);
                    // Nobody is told what is told already.
                    let _ = opened.send(Ok(head.clone()));
                    false
                }
                Stream::Opening(waiting) => {
                    waiting.push((opened, pieces));
                    false
                }
                Stream::None => {
                    *stream = Stream::Opening(vec![(opened, pieces)]);
                    true
                }
            }
        };
        if starts {
            spawn(self.run());
        }
        let head = is_open
            .await
            .map_err(|_| Rc::new(NoAnswer::StreamEnded))??;
        // An error without a stream: nothing may follow.
        if head.headers.contains_key("grpc-status") {
            return Ok(Response::from_parts(head, super::answer::nothing()));
        }
        let body = Reader {
            pieces: reader,
            has_ended: false,
        };
        Ok(Response::from_parts(head, body.boxed_unsync()))
    }

    /// Reads the runtime's stream for as long as there is a reader, and until it is ended.
    async fn run(self: Rc<Self>) {
        tokio::select! {
            biased;
            // By then there may be another one.
            () = self.over.notified() => {}
            () = self.open_and_forward() => *self.stream.borrow_mut() = Stream::None,
        }
    }

    async fn open_and_forward(&self) {
        let request = request_of(Rpc::GetContainerEvents, &Bytes::new());
        let request: Request<Body> = request.map(super::answer::whole);
        let mut opening = Box::pin(self.upstream.send(request, || {}));
        let opened = loop {
            match timeout(LOOK, &mut opening).await {
                Ok(opened) => break opened,
                Err(_) if self.is_deserted() => return,
                Err(_) => {}
            }
        };
        let body = match opened {
            Ok(response) => {
                let (head, body) = response.into_parts();
                self.open(&Ok(head));
                body
            }
            Err(why) => return self.open(&Err(Rc::new(why))),
        };
        self.forward(body).await;
    }

    /// Tells those who wait whether the stream is open.
    fn open(&self, opened: &Opened) {
        let mut stream = self.stream.borrow_mut();
        let Stream::Opening(waiting) = std::mem::replace(&mut *stream, Stream::None) else {
            return;
        };
        let mut readers = Vec::new();
        for (reader, pieces) in waiting {
            if reader.send(opened.clone()).is_ok() {
                readers.push(pieces);
            }
        }
        if let Ok(head) = opened {
            *stream = Stream::Open(head.clone(), readers);
        }
    }

    async fn forward(&self, mut body: Incoming) {
        let mut kept = BytesMut::new();
        loop {
            let frame = match timeout(LOOK, body.frame()).await {
                Err(_) if self.is_deserted() => return,
                Err(_) => continue,
                Ok(None) => return self.tell(&Piece::End(None)),
                // Whoever reads is told by the end of his stream.
                Ok(Some(Err(_))) => return,
                Ok(Some(Ok(frame))) => frame,
            };
            match frame.into_data() {
                Ok(data) => {
                    // Who comes later begins with a whole message.
                    kept.extend_from_slice(&data);
                    if kept.len() > LONGEST {
                        return;
                    }
                    let messages = kept.split_to(whole_messages(&kept)).freeze();
                    if !messages.is_empty() {
                        self.announce(&messages);
                        self.tell(&Piece::Data(messages));
                        if self.is_deserted() {
                            return;
                        }
                    }
                }
                Err(frame) => return self.tell(&Piece::End(frame.into_trailers().ok())),
            }
        }
    }

    fn announce(&self, messages: &Bytes) {
        let messages = messages_of(messages).unwrap_or_default();
        for id in messages.iter().filter_map(id_of) {
            (self.on_event)(id);
        }
    }

    /// Tells all readers; who does not read for long has no stream any more.
    fn tell(&self, piece: &Piece) {
        if let Stream::Open(_, readers) = &mut *self.stream.borrow_mut() {
            readers.retain(|reader| reader.try_send(piece.clone()).is_ok());
        }
    }

    /// Whether nobody reads any more. Then there is no stream.
    fn is_deserted(&self) -> bool {
        let mut stream = self.stream.borrow_mut();
        let is_deserted = match &mut *stream {
            Stream::None => true,
            Stream::Opening(waiting) => {
                waiting.retain(|(opened, _)| !opened.is_closed());
                waiting.is_empty()
            }
            Stream::Open(_, readers) => {
                readers.retain(|reader| !reader.is_closed());
                readers.is_empty()
            }
        };
        if is_deserted {
            *stream = Stream::None;
        }
        is_deserted
    }
}

/// The body of one reader's stream.
struct Reader {
    pieces: mpsc::Receiver<Piece>,
    has_ended: bool,
}

impl HttpBody for Reader {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let end = match ready!(self.pieces.poll_recv(context)) {
            Some(Piece::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(Piece::End(end)) => end,
            None => Some(lost()),
        };
        self.has_ended = true;
        Poll::Ready(end.map(|end| Ok(Frame::trailers(end))))
    }
}

/// The body of a stream that passes.
struct Passing {
    body: Body,
    taken_back: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
}

impl HttpBody for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if self.taken_back.as_mut().poll(context).is_ready() {
            self.has_ended = true;
            return Poll::Ready(Some(Ok(Frame::trailers(lost()))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }
}

/// The end of a stream whose reader was too slow, whose runtime has gone, or that is taken back:
/// `Unavailable`.
fn lost() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("14"));
    let text = "pleg guard: the stream of events was lost";
    trailers.insert("grpc-message", HeaderValue::from_static(text));
    trailers
}
