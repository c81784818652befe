//! Ids from the runtime's own folders. They are the only source of ids when a list is stuck and no
//! agent has observed the node before, which is when people start such a tool.

use std::io;
use std::path::PathBuf;

use super::is_id;
use crate::id::Id;

/// The ids that these folders show. May block. Fails if a folder cannot be read now, for want of
/// file descriptors or by a broken disk; one that is not there, or that we may never read, shows
/// none.
pub fn ids_in(folders: &[PathBuf]) -> io::Result<Vec<Id>> {
    let mut ids = Vec::new();
    for folder in folders {
        let entries = match folder.read_dir() {
            Ok(entries) => entries,
            Err(error) if is_not_for_us(&error) => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name().into_string();
            ids.extend(name.ok().filter(|name| is_id(name)).map(Id::from));
        }
    }
    Ok(ids)
}

fn is_not_for_us(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_the_folder_that_are_ids_are_the_ids() {
        let root = tempfile::tempdir().unwrap();
        let folders = [root.path().join("containers")];
        assert_eq!(ids_in(&folders).unwrap(), []);
        let id = "0123456789abcdef".repeat(4);
        std::fs::create_dir_all(folders[0].join(&id)).unwrap();
        std::fs::create_dir_all(folders[0].join("not-an-id")).unwrap();
        assert_eq!(ids_in(&folders).unwrap(), [Id::from(id)]);
    }

    /// A link to itself cannot be followed, not even by root.
    #[test]
    fn a_folder_that_is_there_and_cannot_be_read_is_not_an_empty_one() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("containers");
        std::os::unix::fs::symlink(&folder, &folder).unwrap();
        assert!(ids_in(&[folder]).is_err());
    }
}
