//! A note of each pod that has something on this host, so that whatever a kill leaves is found:
//! written before anything is made, and removed after everything is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pleg::kernel::replace;
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

/// Leaves the note of a pod's folder, if there is none.
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

/// The pods of this owner that have, or may have, something on this host.
pub fn noted(root: &Path, owner: &str) -> io::Result<Vec<Adopted>> {
    let entries = match root.join("pods").read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut pods = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|it| it != SUFFIX) {
            continue;
        }
        // One that cannot be read is nobody's.
        let note = fs::read(path).ok();
        let note = note.and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        pods.extend(note.filter(|note| note.owner == owner).map(|note| note.pod));
    }
    Ok(pods)
}
