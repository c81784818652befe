//! The file of a listening unix socket. It is created under another name, gets its owner and mode, and is then
//! renamed, so that no client finds it with other permissions.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::timeout;

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The socket cannot be created.
    #[error("cannot listen on {}", path.display())]
    Failed {
        /// The socket's path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Another process listens on the socket.
    #[error(
        "something already listens on {}: stop it, or use --listen with another path",
        .0.display()
    )]
    InUse(PathBuf),
    /// Something else is at the socket's path.
    #[error("{} exists and is not a socket; use --listen with another path", .0.display())]
    NotASocket(PathBuf),
}

/// How long to wait for an attempt to connect. If it has neither succeeded nor failed by then, a server is
/// listening.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates the directory of a socket unless it exists. All users may enter it: the socket's own permissions
/// limit access.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent().filter(|directory| !directory.exists()) else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)?;
    // The umask may have removed some of these permissions.
    fs::set_permissions(directory, Permissions::from_mode(0o755))
}

/// Returns an error unless there is nothing at the path, or a socket on which no server listens.
pub async fn check_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => Err(SocketError::NotASocket(path.to_owned())),
        Ok(_) if is_live(path).await => Err(SocketError::InUse(path.to_owned())),
        _ => Ok(()),
    }
}

async fn is_live(path: &Path) -> bool {
    match timeout(ACCEPT_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) => !matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::NotFound
        ),
        Ok(Ok(_)) | Err(_) => true,
    }
}

/// Listens on `path`. `grant` sets the owner and mode of the socket's file before it gets this name. Also
/// returns the file's inode.
pub fn bind(
    path: &Path,
    grant: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<(UnixListener, u64)> {
    let new = beside(path, ".new");
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    let listener = UnixListener::bind(&new)?;
    listener.set_nonblocking(true)?;
    let granted = grant(&new).and_then(|()| {
        let inode = fs::symlink_metadata(&new)?.ino();
        fs::rename(&new, path)?;
        Ok((listener, inode))
    });
    granted.inspect_err(|_| {
        // If the file cannot be removed, ignore the error: no process uses it.
        let _ = fs::remove_file(&new);
    })
}

/// Returns the path with `ending` appended.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_whose_permissions_cannot_be_set_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let refused = |_: &Path| Err(io::Error::from(ErrorKind::PermissionDenied));
        assert!(bind(&path, refused).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(bind(&path, |_| Ok(())).is_ok());
    }
}
