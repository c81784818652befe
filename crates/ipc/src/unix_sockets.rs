//! The kernel's table of unix sockets, via netlink (sock_diag(7)).
//!
//! The table is in memory, but the kernel may first have to load its module `unix_diag`, for which it starts a
//! program. No netlink crate is used, because they depend on a crate that is no longer maintained.

use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use serde::{Deserialize, Serialize};

/// How many sockets are read: more than a node has.
const MAX_SOCKETS: usize = 50_000;
/// How many waiting connections of one socket are read: more than a usual backlog.
const MAX_PENDING: usize = 4096;
/// How long the whole query may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// From `linux/netlink.h`: the types of messages, and the flags of a request for all rows.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
/// From `linux/unix_diag.h`: the attributes that are requested, and their types in an answer.
const SHOW: u32 = SHOW_NAME | SHOW_PEER | SHOW_PENDING | SHOW_QUEUES;
const SHOW_NAME: u32 = 1;
const SHOW_PEER: u32 = 4;
const SHOW_PENDING: u32 = 8;
const SHOW_QUEUES: u32 = 0x10;
const NAME: u16 = 0;
const PEER: u16 = 2;
const PENDING: u16 = 3;
const QUEUES: u16 = 4;
/// The state `TCP_LISTEN`, which unix sockets have too.
const LISTEN: u8 = 10;

/// A unix socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketRow {
    /// Its inode.
    pub inode: u32,
    /// Whether it accepts connections.
    pub listens: bool,
    /// The path to which it is bound. If it was accepted, the path of the listening socket.
    pub path: Option<String>,
    /// The inode of the socket at the other end.
    pub peer: Option<u32>,
    /// If it listens, the inodes of the connections that wait to be accepted.
    pub pending: Vec<u32>,
    /// If it listens, the number of connections that wait to be accepted; otherwise the number of bytes
    /// that wait to be read.
    pub queue: u32,
    /// If it listens, how many connections may wait to be accepted.
    pub backlog: u32,
}

/// All unix sockets in the network namespace of this process.
pub fn unix_sockets() -> io::Result<Vec<SocketRow>> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    set_socket_timeout(&kernel, Timeout::Recv, Some(QUERY_TIMEOUT))?;
    send(&kernel, &request(), SendFlags::empty())?;
    let mut rows = Vec::new();
    let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
    let begun = Instant::now();
    while rows.len() < MAX_SOCKETS && begun.elapsed() < QUERY_TIMEOUT {
        let ((datagram, _), _) = recv(&kernel, &mut buffer[..], RecvFlags::empty())?;
        if datagram.is_empty() || take(datagram, &mut rows)? {
            break;
        }
    }
    Ok(rows)
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    // Every protocol and state, any inode and cookie.
    bytes.extend([AddressFamily::UNIX.as_raw() as u8, 0, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(SHOW.to_ne_bytes());
    bytes.extend([0xff; 8]);
    bytes
}

/// Adds the rows of a datagram. Returns whether the datagram contains the end of the table.
fn take(datagram: &[u8], rows: &mut Vec<SocketRow>) -> io::Result<bool> {
    let mut rest = datagram;
    while let Some((kind, body, after)) = message(rest) {
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = number(body, 0).map_or(0, |code| code as i32);
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            _ => rows.extend(row(body)),
        }
        rest = after;
    }
    Ok(false)
}

/// The type and the body of the first message, and the bytes after it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = number(bytes, 0)? as usize;
    let kind = half(bytes, 4)?;
    let body = bytes.get(16..length)?;
    Some((kind, body, bytes.get(aligned(length)..).unwrap_or_default()))
}

fn row(body: &[u8]) -> Option<SocketRow> {
    let mut row = SocketRow {
        listens: *body.get(2)? == LISTEN,
        inode: number(body, 4)?,
        ..SocketRow::default()
    };
    let mut rest = body.get(16..)?;
    while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let Some(value) = rest.get(4..usize::from(length)) else {
            break;
        };
        match kind {
            NAME => row.path = path(value),
            PEER => row.peer = number(value, 0),
            PENDING => {
                let numbers = value.chunks_exact(4).take(MAX_PENDING);
                row.pending = numbers.filter_map(|bytes| number(bytes, 0)).collect();
            }
            QUEUES => {
                row.queue = number(value, 0).unwrap_or(0);
                row.backlog = number(value, 4).unwrap_or(0);
            }
            _ => {}
        }
        rest = rest.get(aligned(length.into())..).unwrap_or_default();
    }
    Some(row)
}

/// The path or name of a socket, if it has one. An abstract name, which begins with a zero byte, begins with
/// `@` here.
fn path(name: &[u8]) -> Option<String> {
    let name = name.strip_suffix(&[0]).unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    let shown = String::from_utf8_lossy(name).replacen('\0', "@", 1);
    Some(shown.replace(char::is_control, "?"))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn the_table_shows_connections_that_wait_to_be_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let clients: Vec<_> = (0..3)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        let of = |rows: &[SocketRow]| {
            let found = rows
                .iter()
                .find(|row| row.listens && row.path.as_deref() == path.to_str());
            found.cloned().unwrap()
        };
        let row = of(&unix_sockets().unwrap());
        assert_eq!((row.queue, row.pending.len()), (3, 3), "{row:?}");
        assert!(row.backlog > 3, "{row:?}");
        let accepted: Vec<_> = (0..3).map(|_| listener.accept().unwrap()).collect();
        assert_eq!(of(&unix_sockets().unwrap()).queue, 0);
        drop((clients, accepted));
    }

    #[test]
    fn truncated_and_wrong_lengths_cause_no_panic() {
        let mut whole = 68_u32.to_ne_bytes().to_vec();
        whole.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        whole.extend([0; 10]);
        whole.extend([1, 1, LISTEN, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        whole.extend([8, 0, 0, 0, b'/', b'a', b'b', 0]);
        whole.extend([12, 0, 4, 0, 5, 0, 0, 0, 9, 0, 0, 0]);
        whole.extend([8, 0, 2, 0, 3, 0, 0, 0]);
        whole.extend([8, 0, 3, 0, 4, 0, 0, 0]);
        let mut rows = Vec::new();
        assert!(!take(&whole, &mut rows).unwrap());
        let row = SocketRow {
            inode: 7,
            listens: true,
            path: Some("/ab".to_owned()),
            peer: Some(3),
            pending: vec![4],
            queue: 5,
            backlog: 9,
        };
        assert_eq!(rows, [row]);
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            let _ = take(&cut, &mut Vec::new());
            // The message is shorter than its length says.
            if let Some(first) = cut.first_mut() {
                *first = 0xff;
            }
            let _ = take(&cut, &mut Vec::new());
        }
    }
}
