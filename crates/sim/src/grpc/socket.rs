//! The socket's file: what an earlier server left behind is taken over, what is alive or
//! no socket is left alone.
//!
//! ```
//! use sim::grpc::socket;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sim.sock");
//! let listener = socket::listen(&path).await?;
//! assert!(socket::listen(&path).await.is_err(), "a server listens already");
//! drop(listener);
//! socket::remove(&path).await?;
//! assert!(!path.exists());
//! # Ok(())
//! # }
//! ```

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// How long a server may take to take a connection before it is held for a live one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens on `path`. Refuses to take it from a server that answers, and to put a socket in
/// the place of anything that is none.
pub async fn listen(path: &Path) -> io::Result<UnixListener> {
    remove(path).await?;
    UnixListener::bind(path)
}

/// Removes the socket of a server that has gone; a path with nothing at it is well.
pub async fn remove(path: &Path) -> io::Result<()> {
    let shown = path.display();
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !file.file_type().is_socket() {
        let why = format!("{shown} exists and is not a socket");
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    match timeout(PATIENCE, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        _ => {
            let why = format!("a server listens on {shown} already");
            Err(io::Error::new(ErrorKind::AddrInUse, why))
        }
    }
}
