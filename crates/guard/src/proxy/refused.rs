//! Notices a client whose calls the HTTP/2 server refuses before anything here can see them.
//!
//! A kubelet before 1.31 sends the path of the socket as `:authority`, which is none: each of its calls
//! is reset. Such a client has sent the headers of a call, and no call has arrived.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// What a client of HTTP/2 sends first.
const PREFACE: usize = 24;

/// The length of a frame's header, and the type of a frame with the headers of a call.
const HEADER: usize = 9;
const HEADERS: u8 = 1;

/// What one client has sent, until its first call arrives.
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

    /// Whether calls were sent, and none has arrived.
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

/// Where in the frames of a connection the bytes are.
#[derive(Debug)]
struct Frames {
    /// How many bytes precede the next header.
    skip: usize,
    /// As much of that as has been read.
    header: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            skip: PREFACE,
            header: Vec::with_capacity(HEADER),
        }
    }
}

impl Frames {
    /// How many frames with the headers of a call begin in these bytes.
    fn calls_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut calls = 0;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let missing = (HEADER - self.header.len()).min(bytes.len());
            if missing == 0 {
                return calls;
            }
            self.header.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if let [a, b, c, kind, ..] = *self.header
                && self.header.len() == HEADER
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
    fn the_headers_of_calls_are_counted_however_their_bytes_arrive() {
        let preface = vec![HEADERS; PREFACE];
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
    fn a_client_is_refused_if_it_has_called_and_no_call_has_arrived() {
        let calls = Calls::default();
        assert!(!calls.are_refused(), "it has not called");
        calls.sent.set(1);
        assert!(calls.are_refused());
        calls.arrived();
        assert!(!calls.are_refused());
    }
}
