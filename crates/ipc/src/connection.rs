//! A D-Bus connection: to a bus, or directly to a process that speaks D-Bus.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::wire::{self, Call, FIXED_HEADER, Message};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The socket cannot be used.
    #[error("{0}")]
    Socket(io::Error),
    /// The server answered with an error.
    #[error("{error}: {message}")]
    Rejected {
        /// The name of the error.
        error: String,
        /// The message of the error.
        message: String,
    },
    /// The server did not answer within this time.
    #[error("it did not answer within {0:?}")]
    Silent(Duration),
    /// The server does not speak D-Bus.
    #[error("it does not speak D-Bus: {0}")]
    InvalidData(&'static str),
}

/// How many other messages may arrive between a call and its reply.
const MAX_OTHER_MESSAGES: usize = 1000;
/// The longest line during authentication.
const MAX_LINE_BYTES: usize = 1024;

/// How often to check whether a full accept queue has room again.
const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A connection, and the number of its last call.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    serial: u32,
}

impl Connection {
    /// Connects and authenticates as the current user.
    pub fn open(path: &Path, limit: Duration) -> Result<Self, Failure> {
        let deadline = Deadline::new(limit);
        let stream = connect(path, &deadline)?;
        let mut connection = Self { stream, serial: 0 };
        let uid = rustix::process::geteuid().as_raw().to_string();
        let uid: String = uid.bytes().map(|digit| format!("{digit:02x}")).collect();
        connection.write(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes(), &deadline)?;
        let answer = connection.read_line(&deadline)?;
        if !answer.starts_with(b"OK ") {
            return Err(Failure::Rejected {
                error: "AUTH EXTERNAL".to_owned(),
                message: String::from_utf8_lossy(&answer).into_owned(),
            });
        }
        connection.write(b"BEGIN\r\n", &deadline)?;
        Ok(connection)
    }

    /// Makes a call, and waits for its answer.
    pub fn ask(&mut self, call: Call<'_>, limit: Duration) -> Result<Message, Failure> {
        let deadline = Deadline::new(limit);
        self.serial += 1;
        self.write(&call.bytes(self.serial), &deadline)?;
        for _ in 0..MAX_OTHER_MESSAGES {
            let message = self.read_message(&deadline)?;
            if message.answers == Some(self.serial) {
                return Ok(message);
            }
        }
        Err(Failure::InvalidData(
            "too many messages, and none of them is the reply",
        ))
    }

    fn write(&mut self, bytes: &[u8], deadline: &Deadline) -> Result<(), Failure> {
        let left = deadline.left()?;
        let limited = self.stream.set_write_timeout(Some(left));
        let written = limited.and_then(|()| self.stream.write_all(bytes));
        written.map_err(|error| deadline.failure(error))
    }

    fn fill(&mut self, mut bytes: &mut [u8], deadline: &Deadline) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let left = deadline.left()?;
            let limited = self.stream.set_read_timeout(Some(left));
            match limited.and_then(|()| self.stream.read(bytes)) {
                Ok(0) => return Err(Failure::Socket(ErrorKind::UnexpectedEof.into())),
                Ok(length) => bytes = &mut bytes[length..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(deadline.failure(error)),
            }
        }
        Ok(())
    }

    fn read_line(&mut self, deadline: &Deadline) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if line.len() >= MAX_LINE_BYTES {
                return Err(Failure::InvalidData("its first line is too long"));
            }
            let mut byte = [0];
            self.fill(&mut byte, deadline)?;
            line.extend(byte);
        }
        Ok(line)
    }

    fn read_message(&mut self, deadline: &Deadline) -> Result<Message, Failure> {
        let mut header = [0; FIXED_HEADER];
        self.fill(&mut header, deadline)?;
        let rest =
            wire::length_of_rest(&header).ok_or(Failure::InvalidData("an invalid header"))?;
        let mut message = header.to_vec();
        message.resize(FIXED_HEADER + rest, 0);
        self.fill(&mut message[FIXED_HEADER..], deadline)?;
        wire::read(&message).ok_or(Failure::InvalidData("an invalid message"))
    }
}

/// Connects before the deadline. If the accept queue is full, a blocking connect would wait forever.
fn connect(path: &Path, deadline: &Deadline) -> Result<UnixStream, Failure> {
    let failed = |errno: Errno| Failure::Socket(errno.into());
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
    loop {
        match net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) => sleep(CONNECT_RETRY_INTERVAL.min(deadline.left()?)),
            Err(errno) => return Err(failed(errno)),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).map_err(Failure::Socket)?;
    Ok(stream)
}

struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    fn new(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
        }
    }

    fn left(&self) -> Result<Duration, Failure> {
        let left = self.limit.saturating_sub(self.start.elapsed());
        // The standard library refuses a timeout of zero.
        match left.is_zero() {
            true => Err(Failure::Silent(self.limit)),
            false => Ok(left),
        }
    }

    fn failure(&self, error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::Silent(self.limit),
            _ => Failure::Socket(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connecting_to_a_full_accept_queue_ends_at_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus");
        let address = SocketAddrUnix::new(&path).unwrap();
        let kind = (AddressFamily::UNIX, SocketType::STREAM);
        let full = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        net::bind(&full, &address).unwrap();
        net::listen(&full, 0).unwrap();
        let waiting: Vec<_> = (0..16)
            .map(|_| {
                let client = socket_with(kind.0, kind.1, SocketFlags::NONBLOCK, None).unwrap();
                let connected = net::connect(&client, &address);
                (client, connected)
            })
            .collect();
        assert!(waiting.iter().any(|(_, end)| *end == Err(Errno::AGAIN)));
        let limit = Duration::from_millis(100);
        let begun = Instant::now();
        let opened = Connection::open(&path, limit);
        assert!(matches!(opened, Err(Failure::Silent(_))));
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
    }
}
