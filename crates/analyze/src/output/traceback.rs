//! What a Python program prints when it fails: here, one that asks the runtime by gRPC.

use causes::Cause;
use causes::finding::Confidence;

use super::{Seen, has_any};
use crate::proof::Proof;

/// What its calls until now did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traceback {
    asks_for_list: bool,
}

/// Requests of CRI and of containerd's own API.
const LISTS: [&str; 2] = ["ListContainersRequest", "ListPodSandboxRequest"];

impl Traceback {
    /// Its first line.
    pub(super) fn begins(text: &str) -> Option<Self> {
        (text == "Traceback (most recent call last):").then(Self::default)
    }

    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        self.asks_for_list |= has_any(text, &LISTS);
        let is_too_large = text.starts_with("details = \"Received message larger than max");
        if self.asks_for_list && is_too_large {
            let says = "the list of containers is too large for a gRPC message";
            let cause = Cause::ListExceedsGrpcLimit;
            seen.proof(Proof::new(cause, Confidence::Certain, line, says));
        }
    }
}
