//! A note of each pod that has files on this host, so that the next run finds them after a kill. It
//! is written before the first file and removed after the last one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pleg::kernel::{UNFINISHED, replace};
use serde::{Deserialize, Serialize};

use super::empty_dir::make_parents;
use crate::adopted::Adopted;
use crate::files::{if_exists, names};

const SUFFIX: &str = "json";

#[derive(Serialize, Deserialize)]
struct Note {
    owner: String,
    #[serde(flatten)]
    pod: Adopted,
}

pub(super) fn path(folder: &Path) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(".");
    path.push(SUFFIX);
    path.into()
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

pub(super) fn remove(folder: &Path) -> io::Result<()> {
    if_exists(fs::remove_file(path(folder)))
}

/// Reads the notes of the pods of this owner. Removes each note that a killed run did not finish
/// writing: its pod has no file yet. If another process is writing such a note now, its write fails
/// and is repeated.
pub fn read_notes(root: &Path, owner: &str) -> io::Result<Vec<Adopted>> {
    let folder = root.join("pods");
    let mut pods = Vec::new();
    for name in names(&folder)? {
        let path = folder.join(name);
        match path.extension() {
            Some(end) if end == SUFFIX => {}
            Some(end) if end == UNFINISHED => {
                let _ = fs::remove_file(path);
                continue;
            }
            _ => continue,
        }
        // A note that cannot be read belongs to no owner.
        let note = fs::read(path).ok();
        let note = note.and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        pods.extend(note.filter(|note| note.owner == owner).map(|note| note.pod));
    }
    Ok(pods)
}
