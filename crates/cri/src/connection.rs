//! A connection to a runtime's socket, which ends once the path leads to another socket.
//!
//! ```text
//!   path --connect--> old runtime             its calls may hang, and it may never close the connection
//!   path --(later)--> new runtime             accepts new connections
//!     \--checked every five seconds: if it leads to another socket that accepts connections,
//!        the connection ends with an error, and its owner makes a new one
//! ```

use std::fs;
use std::future::{Future, pending};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time between two checks of where the path leads.
const PATH_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long a new socket at the path may take to accept a connection.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to a socket. Reading from it fails once the path leads to another socket.
pub struct Connection {
    stream: UnixStream,
    /// Completes with an error when the connection must end; `None` after that.
    replaced: Option<Pin<Box<dyn Future<Output = io::Error> + Send>>>,
}

impl Connection {
    /// Connects to the socket at a path. If the path is not a socket, the error says what it is: the
    /// system only reports "connection refused", for example for a directory that a mount created.
    pub async fn open(path: PathBuf) -> io::Result<Self> {
        let before = path.clone();
        let socket = spawn_blocking(move || socket_at(&before)).await;
        let socket = socket.ok().flatten();
        match UnixStream::connect(&path).await {
            Ok(stream) => Ok(Self {
                stream,
                replaced: Some(Box::pin(replaced(path, socket))),
            }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(not_a_socket(path).await.unwrap_or(error))
            }
            Err(error) => Err(error),
        }
    }

    /// The same connection, which also ends when `ends` completes, with the error that it returns.
    pub fn until(self, ends: impl Future<Output = io::Error> + Send + 'static) -> Self {
        let replaced = self.replaced;
        let either = async move {
            let replaced = async {
                match replaced {
                    Some(replaced) => replaced.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                error = replaced => error,
                error = ends => error,
            }
        };
        Self {
            stream: self.stream,
            replaced: Some(Box::pin(either)),
        }
    }
}

/// Device and inode of the socket at a path. `None` if there is no socket, or if the path cannot be
/// read. May block.
fn socket_at(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    let is_socket = metadata.file_type().is_socket();
    is_socket.then(|| (metadata.dev(), metadata.ino()))
}

/// Waits until the path leads to another socket that accepts connections. The thread that checks the path
/// also sleeps between the checks, because a timer of the event loop caused a quarter of the CPU time on a
/// quiet node.
async fn replaced(path: PathBuf, first: Option<(u64, u64)>) -> io::Error {
    let (found, mut other) = mpsc::channel(1);
    let checked = path.clone();
    let check = move || {
        while !found.is_closed() {
            thread::sleep(PATH_CHECK_INTERVAL);
            let now = socket_at(&checked);
            if first.is_some() && now.is_some() && now != first {
                // One message is enough; ignore the error.
                let _ = found.try_send(());
            }
        }
    };
    // If no thread can be started, the path is not checked.
    let _ = thread::Builder::new().name("path".to_owned()).spawn(check);
    while other.recv().await.is_some() {
        let accepted = timeout(ACCEPT_TIMEOUT, UnixStream::connect(&path)).await;
        if let Ok(Ok(_)) = accepted {
            let why = format!("{} is another socket now", path.display());
            return io::Error::new(io::ErrorKind::ConnectionReset, why);
        }
    }
    pending().await
}

/// An error that says what is at the path, if it is known not to be a socket.
async fn not_a_socket(path: PathBuf) -> Option<io::Error> {
    let metadata = spawn_blocking(move || fs::symlink_metadata(path)).await;
    let kind = metadata.ok()?.ok()?.file_type();
    let what = match kind {
        _ if kind.is_dir() => "a directory",
        _ if kind.is_file() => "a regular file",
        _ if kind.is_fifo() => "a named pipe",
        _ => return None,
    };
    let why = format!("it is {what}, not a socket");
    Some(io::Error::new(io::ErrorKind::InvalidInput, why))
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(replaced) = &mut self.replaced
            && let Poll::Ready(why) = replaced.as_mut().poll(context)
        {
            self.replaced = None;
            return Poll::Ready(Err(why));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
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
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_ends_once_its_path_leads_to_another_socket_that_accepts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cri.sock");
        let first = UnixListener::bind(&path).unwrap();
        let mut connection = Connection::open(path.clone()).await.unwrap();
        let _accepted = first.accept().await.unwrap();
        // A new socket without a listener does not end the connection.
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let stays = timeout(PATH_CHECK_INTERVAL * 3 / 2, connection.read_u8()).await;
        assert!(stays.is_err(), "{stays:?}");
        fs::remove_file(&path).unwrap();
        let _second = UnixListener::bind(&path).unwrap();
        let ended = timeout(PATH_CHECK_INTERVAL * 3, connection.read_u8()).await;
        let ended = ended.unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
