//! Which process listens on a runtime's socket.

use std::path::Path;

use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::facts::{Fact, Missing};
use crate::limits::LISTENER;

/// The process that listens on `socket`, which the kernel reports to a client that connects.
pub(super) async fn listener(socket: &Path) -> Fact<u32> {
    let source = format!("the peer of {}", socket.display());
    let stream = match timeout(LISTENER, UnixStream::connect(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Fact::missing(error, source),
        Err(_) => return Fact::missing(Missing::overdue(LISTENER), source),
    };
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    // A process in another PID namespace is reported as 0.
    let pid = pid
        .and_then(|pid| u32::try_from(pid).ok())
        .filter(|pid| *pid > 0);
    Fact::of(pid.ok_or("its process is not visible from here"), source)
}
