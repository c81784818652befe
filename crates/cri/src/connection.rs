//! A connection to the socket of a runtime, as long as that socket is the runtime's.
//!
//! ```text
//!   path --connect--> this runtime            its calls may hang, and it may never hang up
//!   path --(later)--> another runtime         where whoever connects now arrives
//!     \--looked at every five seconds: another socket, and somebody accepts there
//!          --> the connection ends with an error, and its owner makes a new one
//! ```

use std::fs;
use std::future::{Future, pending};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// Between two looks at where the path leads.
const LOOK: Duration = Duration::from_secs(5);

/// Who listens at the path accepts within this time.
const ACCEPTS: Duration = Duration::from_secs(1);

/// A connection to a socket. Reading from it fails once its path leads to another one.
pub struct Connection {
    stream: UnixStream,
    /// Ends with the reason for which the connection ends; `None` after that.
    moved: Option<Pin<Box<dyn Future<Output = io::Error> + Send>>>,
}

impl Connection {
    /// Connects to the socket at a path, and says so if it is none: the system says "connection
    /// refused" of anything else there, such as the directory that a mount of the host has created.
    pub async fn open(path: PathBuf) -> io::Result<Self> {
        let socket = socket_at(&path).await;
        match UnixStream::connect(&path).await {
            Ok(stream) => Ok(Self {
                stream,
                moved: Some(Box::pin(moved(path, socket))),
            }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(what_is_there(path).await.unwrap_or(error))
            }
            Err(error) => Err(error),
        }
    }

    /// The same connection, which ends with this error as soon as there is one.
    pub fn until(self, ends: impl Future<Output = io::Error> + Send + 'static) -> Self {
        let moved = self.moved;
        let either = async move {
            let moved = async {
                match moved {
                    Some(moved) => moved.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                why = moved => why,
                why = ends => why,
            }
        };
        Self {
            stream: self.stream,
            moved: Some(Box::pin(either)),
        }
    }
}

/// Which file a socket is: its device and its inode. None where there is none, or where nobody can
/// tell.
async fn socket_at(path: &Path) -> Option<(u64, u64)> {
    let path = path.to_owned();
    let looked = spawn_blocking(move || fs::metadata(path)).await;
    let metadata = looked.ok()?.ok()?;
    let is_socket = metadata.file_type().is_socket();
    is_socket.then(|| (metadata.dev(), metadata.ino()))
}

/// Waits until the path leads to another socket, at which somebody accepts connections.
async fn moved(path: PathBuf, first: Option<(u64, u64)>) -> io::Error {
    loop {
        sleep(LOOK).await;
        let now = socket_at(&path).await;
        if now.is_none() || now == first || first.is_none() {
            continue;
        }
        let accepted = timeout(ACCEPTS, UnixStream::connect(&path)).await;
        if let Ok(Ok(_)) = accepted {
            let why = format!("{} is another socket now", path.display());
            return io::Error::new(io::ErrorKind::ConnectionReset, why);
        }
    }
}

async fn what_is_there(path: PathBuf) -> Option<io::Error> {
    let looked = spawn_blocking(move || fs::symlink_metadata(path)).await;
    let kind = looked.ok()?.ok()?.file_type();
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
        if let Some(moved) = &mut self.moved
            && let Poll::Ready(why) = moved.as_mut().poll(context)
        {
            self.moved = None;
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
        // A socket at which nobody listens is no reason to leave one at which somebody does.
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let stays = timeout(LOOK * 3 / 2, connection.read_u8()).await;
        assert!(stays.is_err(), "{stays:?}");
        fs::remove_file(&path).unwrap();
        let _second = UnixListener::bind(&path).unwrap();
        let ended = timeout(LOOK * 3, connection.read_u8()).await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
