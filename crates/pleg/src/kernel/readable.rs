//! Descriptors that the event loop waits for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that can be awaited until it is readable.
pub(super) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(
        deprecated,
        reason = "unsound for what changes its descriptor, which an OwnedFd never does; its \
                  successor is unsafe"
    )]
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
