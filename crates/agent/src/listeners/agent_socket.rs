//! The unix socket on which everything is served.
//!
//! ```text
//!   <path>.lock   held while we live: two agents never share a path
//!   <path>.new    bound, given its group and mode, then renamed to
//!   <path>        which replaces the socket of an agent that has gone
//! ```

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use axum::serve::Listener;
use base::host::{SocketError, beside, bind, check_free, make_directory};
use tokio::net::{UnixListener, UnixStream};

use super::is_trusted;

/// A listening unix socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct AgentSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
    is_for_group: bool,
    /// The lock is released when this file is closed.
    _lock: File,
}

impl AgentSocket {
    /// Listens on `path`, for root and our own user, and for `group` if there is one. Creates the
    /// directory. Replaces the socket of a server that has gone, and no other file.
    pub async fn open(path: &Path, group: Option<u32>) -> Result<Self, SocketError> {
        let failed = |error| SocketError::Failed {
            path: path.to_owned(),
            error,
        };
        let in_use = || SocketError::InUse(path.to_owned());
        make_directory(path).map_err(failed)?;
        let lock = lock_file(path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Another server may not use our lock.
        check_free(path).await?;
        let grant = |new: &Path| {
            if let Some(group) = group {
                chown(new, None, Some(group)).map_err(|error| not_granted(group, &error))?;
            }
            let mode = if group.is_some() { 0o660 } else { 0o600 };
            fs::set_permissions(new, Permissions::from_mode(mode))
        };
        let (listener, inode) = bind(path, grant).map_err(failed)?;
        Ok(Self {
            listener: UnixListener::from_std(listener).map_err(failed)?,
            path: path.to_owned(),
            inode,
            is_for_group: group.is_some(),
            _lock: lock,
        })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a connection is accepted. The kernel lets only those users connect that the file's
    /// mode admits. The user is checked as well, in case the mode was changed. For members of the
    /// group, only the mode is checked: the kernel checked all their groups when they connected,
    /// while `/proc/PID/status` may by now show another process, or one of another namespace.
    fn admits(&self, stream: &UnixStream) -> bool {
        match stream.peer_cred() {
            Ok(peer) if self.is_for_group || is_trusted(&peer) => true,
            Ok(peer) => {
                tracing::debug!("refused a connection of user {} on the socket", peer.uid());
                false
            }
            Err(error) => {
                tracing::debug!("refused a connection of an unknown user: {error}");
                false
            }
        }
    }
}

/// The error for a socket that cannot be given to `group`. Even root needs a capability for this,
/// which services and containers often lack.
fn not_granted(group: u32, error: &io::Error) -> io::Error {
    let why = format!(
        "cannot give the socket to group {group} (socketGroup): {error}; this needs the capability \
         CAP_CHOWN, or membership in that group"
    );
    io::Error::new(error.kind(), why)
}

impl Listener for AgentSocket {
    type Io = UnixStream;
    type Addr = ();

    async fn accept(&mut self) -> (UnixStream, ()) {
        loop {
            let (stream, _) = Listener::accept(&mut self.listener).await;
            if self.admits(&stream) {
                return (stream, ());
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        let file = fs::symlink_metadata(&self.path);
        if file.is_ok_and(|file| file.ino() == self.inode) {
            // A file that cannot be removed is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens the lock file, which only this user can open: any process that can open a file can lock
/// it.
fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(beside(path, ".lock"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener as StdListener;

    use tempfile::TempDir;

    use super::*;

    fn place() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/by/us/agent.sock");
        (folder, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[tokio::test]
    async fn the_socket_is_ours_alone_in_a_directory_that_is_open() {
        let (_folder, path) = place();
        let door = AgentSocket::open(&path, None).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o755);
        UnixStream::connect(&path).await.unwrap();
        drop(door);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_group_gets_the_socket_too() {
        let (_folder, path) = place();
        let group = rustix::process::getegid().as_raw();
        let _door = AgentSocket::open(&path, Some(group)).await.unwrap();
        assert_eq!(mode(&path), 0o660);
        assert_eq!(fs::symlink_metadata(&path).unwrap().gid(), group);
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_left_alone() {
        let (_folder, path) = place();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(StdListener::bind(&path).unwrap());
        let door = AgentSocket::open(&path, None).await.unwrap();
        let error = AgentSocket::open(&path, None).await.unwrap_err();
        assert!(matches!(error, SocketError::InUse(_)), "{error}");
        UnixStream::connect(&path).await.unwrap();
        drop(door);

        let _foreign = StdListener::bind(&path).unwrap();
        let error = AgentSocket::open(&path, None).await.unwrap_err();
        assert!(matches!(error, SocketError::InUse(_)), "{error}");
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_left_alone() {
        let (_folder, path) = place();
        fs::create_dir_all(&path).unwrap();
        let error = AgentSocket::open(&path, None).await.unwrap_err();
        assert!(matches!(error, SocketError::NotASocket(_)), "{error}");
        assert!(path.is_dir());
    }

    #[tokio::test]
    async fn the_socket_of_a_successor_outlives_us() {
        let (_folder, path) = place();
        let door = AgentSocket::open(&path, None).await.unwrap();
        fs::remove_file(&path).unwrap();
        let _successor = StdListener::bind(&path).unwrap();
        drop(door);
        assert!(path.exists());
    }
}
