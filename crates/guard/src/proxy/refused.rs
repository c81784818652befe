//! Detects a client that the HTTP/2 server refuses before the guard sees any of its calls.
//!
//! A kubelet before 1.31 sends the path of the socket as `:authority`, which is invalid: each of its calls
//! is reset. Such a client has sent the headers of a call, but no call has arrived.
//!
//! A client of HTTP/1.1 or of another protocol is disconnected, as containerd would do.

use std::cell::Cell;
use std::rc::Rc;

/// The length of the connection preface, which an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;

/// The length of a frame header, and the type of a HEADERS frame (RFC 9113, sections 4.1 and 6.2).
const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;

/// Logs refused clients: each reason once, because a kubelet retries forever.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    are_calls_logged: Cell<bool>,
    are_bytes_logged: Cell<bool>,
}

impl Refusals {
    /// Logs that all calls of a client were refused.
    pub(super) fn log_calls(&self) {
        if !self.are_calls_logged.replace(true) {
            tracing::error!(
                "a client was refused: its calls are not valid HTTP/2. Kubelets before 1.31 cannot use the \
                 guard, because they send the path of the socket as the authority of each call"
            );
        }
    }

    /// Logs that what a client sent could not be read.
    pub(super) fn log_bytes(&self, why: &h2::Error) {
        if !self.are_bytes_logged.replace(true) {
            tracing::warn!(
                "a client was refused: what it sends is not HTTP/2, on which gRPC is based ({why})"
            );
        }
    }
}

/// The calls that one client has sent, until the first one arrives.
#[derive(Debug, Default)]
pub(super) struct Calls {
    sent: Cell<u64>,
    has_arrived: Cell<bool>,
}

impl Calls {
    /// Records that a call has arrived.
    pub(super) fn arrived(&self) {
        self.has_arrived.set(true);
    }

    /// Returns a function that counts the calls which the client sends. It must be called with all bytes
    /// of the connection, in order.
    pub(super) fn counted(self: &Rc<Self>) -> impl FnMut(&[u8]) + use<> {
        let (calls, mut frames) = (self.clone(), Frames::default());
        move |bytes| {
            if !calls.has_arrived.get() {
                calls.sent.set(calls.sent.get() + frames.calls_in(bytes));
            }
        }
    }

    /// Whether calls were sent, but none has arrived.
    pub(super) fn are_refused(&self) -> bool {
        self.sent.get() > 0 && !self.has_arrived.get()
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
