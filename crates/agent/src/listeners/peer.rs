//! Which user is at the other end of a unix socket.

use rustix::process::geteuid;
use tokio::net::unix::UCred;

/// Whether the process at the other end is root's or our own user's. The kernel recorded this user
/// when the client connected, or, seen from a client, when the server began to listen.
pub fn is_trusted(peer: &UCred) -> bool {
    peer.uid() == 0 || peer.uid() == geteuid().as_raw()
}
