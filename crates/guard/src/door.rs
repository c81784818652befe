//! The socket that a kubelet connects to. Who may is who may connect to the runtime's own:
//! owner, group and mode are taken over from it.
//!
//! ```text
//!   <path>.new   bound, given the runtime's owner and mode, then renamed to
//!   <path>       which replaces the socket of a guard that has gone
//! ```

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Somebody serves there.
    #[error("{} is in use: a guard is running already?", .0.display())]
    InUse(PathBuf),
    /// It is something else, and left alone.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The guard would pass calls on to itself.
    #[error("{} is the runtime's own socket: name another one with --listen", .0.display())]
    Runtime(PathBuf),
    /// It cannot be made.
    #[error("{} cannot be made: {error}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// Only root, where the runtime's socket is not there to be asked.
const ROOT_ONLY: u32 = 0o600;

/// Listens on `path`, for those who may connect to the runtime at `runtime`.
pub fn open(path: &Path, runtime: &Path) -> Result<UnixListener, DoorError> {
    let failed = |error| DoorError::Io {
        path: path.to_owned(),
        error,
    };
    let is_same = |path: &Path| fs::canonicalize(path).ok();
    if path == runtime || is_same(path).is_some_and(|path| is_same(runtime) == Some(path)) {
        return Err(DoorError::Runtime(path.to_owned()));
    }
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            return Err(DoorError::NotASocket(path.to_owned()));
        }
        Ok(_) if is_live(path) => return Err(DoorError::InUse(path.to_owned())),
        _ => {}
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o755).create(folder);
        made.map_err(failed)?;
    }
    bind(path, runtime).map_err(failed)
}

/// Whether somebody accepts there, or would if he were not busy.
fn is_live(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::NotFound
        ),
    }
}

fn bind(path: &Path, runtime: &Path) -> io::Result<UnixListener> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    // Nobody can find it before its name is the right one.
    match fs::metadata(runtime) {
        Ok(theirs) => {
            chown(&new, Some(theirs.uid()), Some(theirs.gid()))?;
            fs::set_permissions(&new, Permissions::from_mode(theirs.mode() & 0o777))?;
        }
        Err(_) => fs::set_permissions(&new, Permissions::from_mode(ROOT_ONLY))?,
    }
    fs::rename(&new, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_that_of_the_runtimes_socket_and_a_dead_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, runtime) = (
            folder.path().join("a/guard.sock"),
            folder.path().join("r.sock"),
        );
        let _runtime = UnixListener::bind(&runtime).unwrap();
        fs::set_permissions(&runtime, Permissions::from_mode(0o620)).unwrap();
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        let first = open(&path, &runtime).unwrap();
        assert_eq!(mode(), 0o620);
        assert!(matches!(open(&path, &runtime), Err(DoorError::InUse(_))));
        drop(first);
        let second = open(&path, &runtime).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop((second, fs::remove_file(&runtime)));
        let _third = open(&path, &runtime).unwrap();
        assert_eq!(mode(), ROOT_ONLY, "nobody says who else may");
    }

    #[test]
    fn the_runtimes_own_socket_and_what_is_no_socket_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (file, runtime) = (folder.path().join("file"), folder.path().join("r.sock"));
        let _runtime = UnixListener::bind(&runtime).unwrap();
        fs::write(&file, "text").unwrap();
        assert!(matches!(
            open(&file, &runtime),
            Err(DoorError::NotASocket(_))
        ));
        let link = folder.path().join("link.sock");
        std::os::unix::fs::symlink(&runtime, &link).unwrap();
        for same in [&runtime, &link] {
            let opened = open(same, &runtime);
            assert!(matches!(
                opened,
                Err(DoorError::Runtime(_) | DoorError::NotASocket(_))
            ));
        }
    }
}
