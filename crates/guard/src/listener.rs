//! The socket that a kubelet connects to. It has the owner, group and mode of the runtime's socket.
//!
//! ```text
//!   systemd passes the socket --> it stays open while the guard restarts: a kubelet waits
//!   otherwise                 --> the guard binds it
//! ```

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use base::host::{SocketError, bind, check_free, make_directory};
use listenfd::ListenFd;

/// The mode if the runtime's socket does not exist: only root may connect.
const ROOT_ONLY: u32 = 0o600;

/// Why a guard cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The socket cannot be created, or is in use.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The path is the runtime's own socket: a guard there would pass calls on to itself.
    #[error("{} is the runtime's own socket; use --listen with another path", .0.display())]
    Runtime(PathBuf),
}

/// Listens on `path`, with the permissions of the socket at `runtime`. Uses the socket that systemd has
/// passed, if it has this path.
pub async fn listen_on(path: &Path, runtime: &Path) -> Result<UnixListener, ListenError> {
    let failed = |error| SocketError::Failed {
        path: path.to_owned(),
        error,
    };
    if is_same(path, runtime) {
        return Err(ListenError::Runtime(path.to_owned()));
    }
    if let Some(listener) = handed_over(path) {
        grant(path, runtime).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        return Ok(listener);
    }
    make_directory(path).map_err(failed)?;
    check_free(path).await?;
    let (listener, _) = bind(path, |new| grant(new, runtime)).map_err(failed)?;
    Ok(listener)
}

/// The socket with this path that systemd has passed (sd_listen_fds(3)).
fn handed_over(path: &Path) -> Option<UnixListener> {
    let mut handed = ListenFd::from_env();
    let of_path = |listener: &UnixListener| {
        let address = listener.local_addr().ok();
        let bound = address.as_ref().and_then(|address| address.as_pathname());
        bound.is_some_and(|bound| is_same(bound, path))
    };
    (0..handed.len())
        .filter_map(|place| handed.take_unix_listener(place).ok().flatten())
        .find(of_path)
}

/// Whether both paths lead to the same socket: `/var/run` is a link to `/run` on most systems.
fn is_same(path: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    path == other || real(path).is_some_and(|path| real(other) == Some(path))
}

/// Gives a socket the owner, group and mode of the runtime's.
fn grant(path: &Path, runtime: &Path) -> io::Result<()> {
    match fs::metadata(runtime) {
        Ok(theirs) => {
            chown(path, Some(theirs.uid()), Some(theirs.gid()))?;
            fs::set_permissions(path, Permissions::from_mode(theirs.mode() & 0o777))
        }
        Err(_) => fs::set_permissions(path, Permissions::from_mode(ROOT_ONLY)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Enforces G12.
    #[tokio::test]
    async fn the_socket_has_the_mode_of_the_runtimes_and_replaces_an_unused_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, runtime) = (
            folder.path().join("a/guard.sock"),
            folder.path().join("r.sock"),
        );
        let _runtime = UnixListener::bind(&runtime).unwrap();
        fs::set_permissions(&runtime, Permissions::from_mode(0o620)).unwrap();
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        let first = listen_on(&path, &runtime).await.unwrap();
        assert_eq!(mode(), 0o620);
        let again = listen_on(&path, &runtime).await;
        assert!(matches!(
            again,
            Err(ListenError::Socket(SocketError::InUse(_)))
        ));
        drop(first);
        let second = listen_on(&path, &runtime).await.unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop((second, fs::remove_file(&runtime)));
        let _third = listen_on(&path, &runtime).await.unwrap();
        assert_eq!(mode(), ROOT_ONLY, "the runtime's socket does not exist");
    }

    #[tokio::test]
    async fn the_runtimes_own_socket_and_other_files_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, runtime) = (folder.path().join("file"), folder.path().join("r.sock"));
        let _runtime = UnixListener::bind(&runtime).unwrap();
        fs::write(&file, "text").unwrap();
        assert!(matches!(
            listen_on(&file, &runtime).await,
            Err(ListenError::Socket(SocketError::NotASocket(_)))
        ));
        let link = folder.path().join("link.sock");
        std::os::unix::fs::symlink(&runtime, &link).unwrap();
        for same in [&runtime, &link] {
            let opened = listen_on(same, &runtime).await;
            assert!(matches!(
                opened,
                Err(ListenError::Runtime(_) | ListenError::Socket(SocketError::NotASocket(_)))
            ));
        }
    }
}
