//! Removing a folder in which containers wrote.
//!
//! Links are removed and not followed; what is mounted is taken off first and never gone into, as
//! it is not the pod's (a subPath of a `hostPath`, say).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::path::Arg;

/// How deep folders are gone into, each with an open file. What is deeper is moved to the top.
const DEEPEST: usize = 64;

/// How often the top is looked at again for what was moved there.
const MOST_ROUNDS: usize = 100_000;

/// Removes a folder with all that is in it. One that is not there has been removed.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = match parent.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        parent => parent?,
    };
    let path = parent.join(name);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(found) if !found.is_dir() => return fs::remove_file(&path),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    for point in super::mounts::below(&path)? {
        unmount(&point, UnmountFlags::NOFOLLOW)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = openat(CWD, &parent, flags, Mode::empty())?;
    let top = open_folder(parent.as_fd(), name)?;
    let mut moved = 0;
    for _ in 0..MOST_ROUNDS {
        empty(top.as_fd(), top.as_fd(), DEEPEST, &mut moved)?;
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            removed => return Ok(removed?),
        }
    }
    Err(io::Error::other("it fills faster than it is emptied"))
}

fn empty(
    folder: BorrowedFd<'_>,
    top: BorrowedFd<'_>,
    depth: usize,
    moved: &mut usize,
) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        if depth == 0 {
            *moved += 1;
            renameat(folder, name, top, format!(".moved-{moved}"))?;
            continue;
        }
        let inner = open_folder(folder, name)?;
        empty(inner.as_fd(), top, depth - 1, moved)?;
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            // What was moved to the top may be here, if this is the top: the next round sees it.
            Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Opens a folder that is one, and on the same mount as its parent.
fn open_folder(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(parent, name, flags, Mode::empty(), resolve) {
        Err(Errno::XDEV) => Err(io::Error::other("something is mounted in it")),
        // Linux before 5.6: what is mounted was taken off, and the name is no link.
        Err(Errno::NOSYS) => Ok(openat(parent, name, flags, Mode::empty())?),
        opened => Ok(opened?),
    }
}
