//! A note of each pod that has files on this host, so that the next run finds them after a kill. It
//! is written before the first file and removed after the last one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pleg::kernel::{UNFINISHED, replace};
use serde::{Deserialize, Serialize};

use super::empty_dir::make_parents;
use crate::adopted::Adopted;

const SUFFIX: &str = "json";

#[derive(Serialize, Deserialize)]
struct Note {
    owner: String,
    #[serde(flatten)]
    pod: Adopted,
}

pub(super) fn path(folder: &Path) -> PathBuf {
    with_end(folder, SUFFIX)
}

/// Writes the note of a pod's folder, unless it exists.
pub(super) fn write(folder: &Path, owner: &str, pod: Adopted) -> io::Result<()> {
    let path = path(folder);
    if path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_parents(parent)?;
    }
    let note = Note {
        owner: owner.to_owned(),
        pod,
    };
    replace(&path, &serde_json::to_vec(&note)?, 0o600)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(end);
    path.into()
}

pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_file(path(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Reads the notes of the pods of this owner. Removes the notes that a killed run did not finish: such a
/// pod has no file yet. If another owner writes one at this moment, that fails and is tried again.
pub fn read_notes(root: &Path, owner: &str) -> io::Result<Vec<Adopted>> {
    let entries = match root.join("pods").read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut pods = Vec::new();
    for entry in entries {
        let path = entry?.path();
        match path.extension() {
            Some(end) if end == SUFFIX => {}
            Some(end) if end == UNFINISHED => {
                let _ = fs::remove_file(path);
                continue;
            }
            _ => continue,
        }
        // A note that cannot be read has no owner.
        let note = fs::read(path).ok();
        let note = note.and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        pods.extend(note.filter(|note| note.owner == owner).map(|note| note.pod));
    }
    Ok(pods)
}
