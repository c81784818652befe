//! The file of the socket. A stale socket of an earlier server is replaced; a socket with a listener,
//! or another file, is not.
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

/// A socket that neither accepts nor refuses a connection for this long is treated as in use.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Listens on `path`. Fails if a server listens there, or if the path is another file.
pub async fn listen(path: &Path) -> io::Result<UnixListener> {
    remove(path).await?;
    UnixListener::bind(path)
}

/// Removes the stale socket of a server that has ended. Succeeds if there is no file.
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
    match timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        _ => {
            let why = format!("a server listens on {shown} already");
            Err(io::Error::new(ErrorKind::AddrInUse, why))
        }
    }
}
