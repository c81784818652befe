//! Shares the runtime's event stream between any number of readers: containerd 1.7 sends each event to
//! one reader only.
//!
//! ```text
//!   kubelet --\
//!              >-- hub -- one stream --> GetContainerEvents
//!   agent ----/
//! ```
//!
//! The first reader opens the stream, and the hub closes it after the last one has left. All readers
//! receive the headers and the end of the stream.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use base::id::Id;
use bytes::{Bytes, BytesMut};
use cri::Rpc;
use cri::frame::{messages_of, whole_messages};
use futures_util::stream::unfold;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::Body;
use super::tasks::spawn;
use super::upstream::{NoAnswer, Upstream, request_of};
use crate::wire::request::id_of;

/// How many pieces may wait for a reader. If there are more, its stream ends, as a runtime would end it:
/// the reader then requests lists to learn what it missed.
const MAX_WAITING_PIECES: usize = 1024;

/// The longest message; a longer one ends the stream. This is four times the limit of a kubelet.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How often the hub checks whether a reader is left.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The headers of the stream, or why it could not be opened.
type Opened = Result<Parts, Rc<NoAnswer>>;

/// All readers of the runtime's events.
pub(super) struct EventHub {
    upstream: Upstream,
    on_event: Box<dyn Fn(Id)>,
    stream: RefCell<Stream>,
    over: Notify,
    /// How often the streams that are passed on were ended.
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
    /// A hub that calls `on_event` with the id of each event.
    pub(super) fn new(upstream: Upstream, on_event: impl Fn(Id) + 'static) -> Self {
        Self {
            upstream,
            on_event: Box::new(on_event),
            stream: RefCell::new(Stream::None),
            over: Notify::new(),
            taken_back: watch::Sender::new(0),
        }
    }

    /// Ends the streams that are passed on: their readers open new ones, which are shared again.
    pub(super) fn take_back(&self) {
        self.taken_back.send_modify(|count| *count += 1);
    }

    /// A stream that is passed on unchanged until [`Self::take_back`] is called.
    pub(super) fn passing(&self, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let open = Some((body, self.taken_back.subscribe()));
        let frames = unfold(open, |open| async {
            let (mut body, mut taken_back) = open?;
            tokio::select! {
                biased;
                _ = taken_back.changed() => Some((Ok(Frame::trailers(lost())), None)),
                frame = body.frame() => Some((frame?, Some((body, taken_back)))),
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// Ends the stream of all readers, and closes the one to the runtime.
    pub(super) fn end(&self) {
        *self.stream.borrow_mut() = Stream::None;
        self.over.notify_waiters();
    }

    /// Adds a reader. Returns its response, or why the stream could not be opened.
    pub(super) async fn read(self: Rc<Self>) -> Result<Response<Body>, Rc<NoAnswer>> {
        let (pieces, received) = mpsc::channel(MAX_WAITING_PIECES);
        let (opened, is_open) = oneshot::channel();
        let starts = matches!(*self.stream.borrow(), Stream::None);
        match &mut *self.stream.borrow_mut() {
            Stream::Open(head, readers) => {
                readers.push(pieces);
                // The receiver is awaited below, so this cannot fail.
                let _ = opened.send(Ok(head.clone()));
            }
            Stream::Opening(waiting) => waiting.push((opened, pieces)),
            stream @ Stream::None => *stream = Stream::Opening(vec![(opened, pieces)]),
        }
        if starts {
            spawn(self.clone().run());
        }
        let head = is_open
            .await
            .map_err(|_| Rc::new(NoAnswer::StreamEnded))??;
        // The headers contain an error: the response has no body.
        if head.headers.contains_key("grpc-status") {
            return Ok(Response::from_parts(head, super::answer::nothing()));
        }
        let frames = unfold(Some(received), |received| async {
            let mut received = received?;
            let (frame, rest) = match received.recv().await {
                Some(Piece::Data(data)) => (Frame::data(data), Some(received)),
                Some(Piece::End(end)) => (Frame::trailers(end?), None),
                None => (Frame::trailers(lost()), None),
            };
            Some((Ok(frame), rest))
        });
        let body = StreamBody::new(frames).boxed_unsync();
        Ok(Response::from_parts(head, body))
    }

    /// Reads the runtime's stream until it ends, the last reader leaves, or [`Self::end`] is called.
    async fn run(self: Rc<Self>) {
        tokio::select! {
            biased;
            // There may be a new stream already: do not replace it.
            () = self.over.notified() => {}
            () = self.open_and_forward() => *self.stream.borrow_mut() = Stream::None,
        }
    }

    async fn open_and_forward(&self) {
        let request = request_of(Rpc::GetContainerEvents, &Bytes::new());
        let request: Request<Body> = request.map(super::answer::whole);
        let mut opening = Box::pin(self.upstream.send(request, || {}));
        let opened = loop {
            match timeout(CHECK_INTERVAL, &mut opening).await {
                Ok(opened) => break opened,
                Err(_) if self.is_unused() => return,
                Err(_) => {}
            }
        };
        match opened {
            Ok(response) => {
                let (head, body) = response.into_parts();
                self.open(&Ok(head));
                self.forward(body).await;
            }
            Err(why) => self.open(&Err(Rc::new(why))),
        }
    }

    /// Reports the result of opening the stream to the waiting readers.
    fn open(&self, opened: &Opened) {
        let mut stream = self.stream.borrow_mut();
        let Stream::Opening(waiting) = std::mem::replace(&mut *stream, Stream::None) else {
            return;
        };
        let readers = waiting.into_iter().filter_map(|(reader, pieces)| {
            let sent = reader.send(opened.clone());
            sent.is_ok().then_some(pieces)
        });
        let readers = readers.collect();
        if let Ok(head) = opened {
            *stream = Stream::Open(head.clone(), readers);
        }
    }

    async fn forward(&self, mut body: Incoming) {
        let mut buffer = BytesMut::new();
        loop {
            let frame = match timeout(CHECK_INTERVAL, body.frame()).await {
                Err(_) if self.is_unused() => return,
                Err(_) => continue,
                Ok(None) => return self.send(&Piece::End(None)),
                // The streams of the readers end too.
                Ok(Some(Err(_))) => return,
                Ok(Some(Ok(frame))) => frame,
            };
            match frame.into_data() {
                Ok(data) => {
                    // Forward whole messages only: a new reader must begin with a whole one.
                    buffer.extend_from_slice(&data);
                    if buffer.len() > MAX_MESSAGE_BYTES {
                        return;
                    }
                    let messages = buffer.split_to(whole_messages(&buffer)).freeze();
                    if !messages.is_empty() {
                        self.report_ids(&messages);
                        self.send(&Piece::Data(messages));
                        if self.is_unused() {
                            return;
                        }
                    }
                }
                Err(frame) => return self.send(&Piece::End(frame.into_trailers().ok())),
            }
        }
    }

    fn report_ids(&self, messages: &Bytes) {
        let messages = messages_of(messages).unwrap_or_default();
        for id in messages.iter().filter_map(id_of) {
            (self.on_event)(id);
        }
    }

    /// Sends a piece to all readers, and removes the readers whose queue is full.
    fn send(&self, piece: &Piece) {
        if let Stream::Open(_, readers) = &mut *self.stream.borrow_mut() {
            readers.retain(|reader| reader.try_send(piece.clone()).is_ok());
        }
    }

    /// Whether no reader is left. If so, the hub has no stream any more.
    fn is_unused(&self) -> bool {
        let mut stream = self.stream.borrow_mut();
        let is_unused = match &mut *stream {
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
        if is_unused {
            *stream = Stream::None;
        }
        is_unused
    }
}

/// The trailers of a stream whose reader was too slow, whose connection to the runtime was lost, or that
/// the hub has ended: `Unavailable`.
fn lost() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("14"));
    let text = "pleg guard: the stream of events was lost";
    trailers.insert("grpc-message", HeaderValue::from_static(text));
    trailers
}
