//! Reads the ids of containers and sandboxes from the host. If a list is stuck and no agent has observed
//! the node before, there is no other source of ids.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Blocking, id_directories, is_id};
use crate::id::{HostId, Id};

/// How long it may take to read the ids from disk.
const DEADLINE: Duration = Duration::from_secs(1);

/// A source of ids other than the runtime's lists, such as the runtime's state directories. It may return ids
/// that no longer exist. It must not block: see [`read_ids`].
pub type IdSource = Arc<dyn Fn() -> Ids + Send + Sync>;

/// The ids of a source: empty if it has none, `None` if they cannot be read now.
pub type Ids = Pin<Box<dyn Future<Output = Option<Vec<HostId>>> + Send>>;

/// A source without ids.
pub fn no_ids() -> IdSource {
    Arc::new(|| Box::pin(async { Some(Vec::new()) }))
}

/// The ids in the directories of the runtime that listens on `socket`, without owners. There are none if these
/// directories do not exist.
pub fn runtime_ids(socket: &Path) -> IdSource {
    let directories = id_directories(socket);
    read_ids(move || {
        let ids = ids_in(&directories)?;
        Ok(ids.into_iter().map(HostId::from).collect())
    })
}

/// A source that calls `read`, which may block, in another thread and with a deadline.
pub fn read_ids(read: impl Fn() -> io::Result<Vec<HostId>> + Send + Sync + 'static) -> IdSource {
    let read = Arc::new(read);
    let blocking = Blocking::default();
    Arc::new(move || {
        let (read, blocking) = (read.clone(), blocking.clone());
        Box::pin(async move {
            let ids = blocking.run(DEADLINE, move || read()).await;
            let ids = ids.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
            ids.inspect_err(|error| tracing::debug!("cannot read the ids on this host: {error}"))
                .ok()
        })
    })
}

/// The names in these directories that are ids. May block. A directory that does not exist, or that this process
/// may not read, has no ids. Fails if a directory cannot be read now, for example because of a disk error.
pub fn ids_in(directories: &[PathBuf]) -> io::Result<Vec<Id>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let mut ids = Vec::new();
    for directory in directories {
        let entries = match directory.read_dir() {
            Ok(entries) => entries,
            Err(error) => match error.kind() {
                NotFound | NotADirectory | PermissionDenied => continue,
                _ => return Err(error),
            },
        };
        for entry in entries {
            let name = entry?.file_name().into_string();
            ids.extend(name.ok().filter(|name| is_id(name)).map(Id::from));
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_that_are_ids_are_read_from_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let directories = [root.path().join("containers")];
        assert_eq!(ids_in(&directories).unwrap(), []);
        let id = "0123456789abcdef".repeat(4);
        std::fs::create_dir_all(directories[0].join(&id)).unwrap();
        std::fs::create_dir_all(directories[0].join("not-an-id")).unwrap();
        assert_eq!(ids_in(&directories).unwrap(), [Id::from(id)]);
    }

    /// A link to itself cannot be followed, not even by root.
    #[test]
    fn a_directory_that_cannot_be_read_is_not_an_empty_one() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("containers");
        std::os::unix::fs::symlink(&directory, &directory).unwrap();
        assert!(ids_in(&[directory]).is_err());
    }
}
