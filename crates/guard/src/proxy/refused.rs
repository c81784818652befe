//! Detects a client whose calls the HTTP/2 server refuses before the guard sees them.
//!
//! A kubelet before 1.31 sends the path of the socket as `:authority`, which is invalid: each of its calls
//! is reset. Such a client has sent the headers of a call, but no call has arrived.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// The length of the connection preface, which an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;

/// The length of a frame header, and the type of a HEADERS frame (RFC 9113, sections 4.1 and 6.2).
const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;

/// The calls that one client has sent, until the first one arrives.
#[derive(Debug, Default)]
pub(super) struct Calls {
    sent: Cell<u64>,
    has_arrived: Cell<bool>,
}

impl Calls {
    /// A call has arrived.
    pub(super) fn arrived(&self) {
        self.has_arrived.set(true);
    }

    /// Whether calls were sent, but none has arrived.
    pub(super) fn are_refused(&self) -> bool {
        self.sent.get() > 0 && !self.has_arrived.get()
    }
}

/// The connection of a client, whose frames are counted until its first call arrives.
pub(super) struct Watched {
    stream: UnixStream,
    calls: Rc<Calls>,
    frames: Frames,
}

impl Watched {
    pub(super) fn new(stream: UnixStream, calls: Rc<Calls>) -> Self {
        Self {
            stream,
            calls,
            frames: Frames::default(),
        }
    }
}

/// The position in the frames of a connection.
#[derive(Debug)]
struct Frames {
    /// How many bytes precede the next frame header.
    skip: usize,
    /// The bytes of that header that have been read.
    header: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            skip: PREFACE_BYTES,
            header: Vec::with_capacity(FRAME_HEADER_BYTES),
        }
    }
}

impl Frames {
    /// How many HEADERS frames begin in these bytes.
    fn calls_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut calls = 0;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let missing = (FRAME_HEADER_BYTES - self.header.len()).min(bytes.len());
            if missing == 0 {
                return calls;
            }
            self.header.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if let [a, b, c, kind, ..] = *self.header
                && self.header.len() == FRAME_HEADER_BYTES
            {
                calls += u64::from(kind == HEADERS);
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.header.clear();
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if !self.calls.has_arrived.get() {
            let calls = self.frames.calls_in(&buffer.filled()[before..]);
            self.calls.sent.set(self.calls.sent.get() + calls);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of this type and length.
    fn frame(kind: u8, length: u8) -> Vec<u8> {
        let header = [0, 0, length, kind, 0, 0, 0, 0, 1];
        [&header[..], &vec![HEADERS; length.into()]].concat()
    }

    #[test]
    fn calls_are_counted_for_every_split_of_the_bytes() {
        let preface = vec![HEADERS; PREFACE_BYTES];
        let frames = [
            frame(4, 18),
            frame(HEADERS, 40),
            frame(0, 0),
            frame(HEADERS, 0),
        ];
        let all = [preface, frames.concat()].concat();
        for size in 1..all.len() {
            let mut frames = Frames::default();
            let calls = all.chunks(size).map(|bytes| frames.calls_in(bytes));
            assert_eq!(calls.sum::<u64>(), 2, "{size} bytes at a time");
        }
    }

    #[test]
    fn a_client_is_refused_if_it_has_sent_calls_and_none_has_arrived() {
        let calls = Calls::default();
        assert!(!calls.are_refused(), "it has not sent a call");
        calls.sent.set(1);
        assert!(calls.are_refused());
        calls.arrived();
        assert!(!calls.are_refused());
    }
}
