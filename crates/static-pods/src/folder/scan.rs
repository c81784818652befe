//! Lists the folder and reads its files: all IO is here.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::ProblemKind;

/// The largest manifest that is read, in bytes.
pub const MAX_FILE_SIZE: u64 = 1 << 20;

/// The largest number of files in a folder.
const MAX_FILES: usize = 10_000;

/// The result of a scan, or why the folder cannot be read.
pub(super) type Listing = Result<Listed, String>;

/// The folder and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The device and inode of the folder. They differ if another folder is at this path.
    pub(super) folder: (u64, u64),
    pub(super) files: BTreeMap<Arc<str>, Entry>,
}

/// The stamp of a regular file in a scan, or why it cannot be read.
pub(super) type Entry = Result<Stamp, ProblemKind>;

/// The metadata that shows a change of a file. It includes the time at which the inode changed,
/// because tools that copy files set the time of modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[cfg(test)]
impl Stamp {
    /// A stamp that differs for each `inode`.
    pub(super) fn of(inode: u64) -> Self {
        Self {
            device: 0,
            inode,
            size: 0,
            modified: (0, 0),
            changed: (0, 0),
        }
    }
}

impl From<&Metadata> for Stamp {
    fn from(it: &Metadata) -> Self {
        Self {
            device: it.dev(),
            inode: it.ino(),
            size: it.size(),
            modified: (it.mtime(), it.mtime_nsec()),
            changed: (it.ctime(), it.ctime_nsec()),
        }
    }
}

/// The whole content of a file and its stamp after it was read, or why it cannot be read.
pub(super) type Content = Result<(Stamp, Vec<u8>), ProblemKind>;

pub(super) fn list(folder: &Path) -> Listing {
    let identity = || fs::metadata(folder).map(|it| (it.dev(), it.ino()));
    let before = identity().map_err(message)?;
    let files = files(folder)?;
    if identity().map_err(message)? != before {
        return Err("another directory has just taken its place".to_owned());
    }
    Ok(Listed {
        folder: before,
        files,
    })
}

fn files(folder: &Path) -> Result<BTreeMap<Arc<str>, Entry>, String> {
    let mut files = BTreeMap::new();
    for found in fs::read_dir(folder).map_err(message)? {
        let found = found.map_err(message)?;
        let name = found.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let entry = match name.to_str() {
            Some(_) => entry(&found.path()),
            None => Some(Err(unreadable("its name is not UTF-8"))),
        };
        if let Some(entry) = entry {
            files.insert(name.to_string_lossy().into(), entry);
        }
        if files.len() > MAX_FILES {
            return Err(format!("more than {MAX_FILES} files"));
        }
    }
    Ok(files)
}

/// The entry of a path; `None` if the path is a folder or no longer exists.
fn entry(path: &Path) -> Option<Entry> {
    match fs::metadata(path) {
        Ok(it) if it.is_dir() => None,
        Ok(it) if it.is_file() => Some(Ok(Stamp::from(&it))),
        Ok(_) => Some(Err(ProblemKind::NotAFile)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::symlink_metadata(path).ok()?;
            Some(Err(unreadable("the symbolic link is broken")))
        }
        Err(error) => Some(Err(unreadable(message(error)))),
    }
}

pub(super) fn read(folder: &Path, name: &str) -> Content {
    let read = try_read(&folder.join(name));
    read.unwrap_or_else(|error| Err(unreadable(message(error))))
}

fn try_read(path: &Path) -> io::Result<Content> {
    // The file may have been replaced by a FIFO. Opening it must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Ok(Err(ProblemKind::NotAFile));
    }
    let mut content = Vec::new();
    (&file).take(MAX_FILE_SIZE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_SIZE {
        return Ok(Err(ProblemKind::TooLarge));
    }
    Ok(Ok((Stamp::from(&file.metadata()?), content)))
}

fn unreadable(why: impl Into<String>) -> ProblemKind {
    ProblemKind::Unreadable(why.into())
}

/// The message of an error without its number.
fn message(error: io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}
