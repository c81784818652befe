//! File helpers that volumes, logs and cgroups share.

use std::fs::ReadDir;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The result, or the default if the file does not exist.
pub(crate) fn if_exists<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
        result => result,
    }
}

/// Whether a name cannot lead out of its folder. Ids and labels must be checked, because the runtime
/// chose them.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// The names of the entries of a folder; empty if the folder does not exist.
pub(crate) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = |entries: ReadDir| {
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    };
    if_exists(folder.read_dir().and_then(names))
}

/// The folders in a folder, without symbolic links to folders.
pub(crate) fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}
