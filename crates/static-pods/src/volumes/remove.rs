//! Removes a folder to which containers may have written.
//!
//! Links are removed but not followed. Mounts are unmounted first and never entered, because they
//! may be files of the host, such as a subPath of a `hostPath`.

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

/// How many levels of folders are open at once. Folders below that depth are moved to the top.
const MAX_DEPTH: usize = 64;

/// How many times the top is emptied, because folders may have been moved there.
const MAX_PASSES: usize = 100_000;

/// Removes a folder with its content. Succeeds if the folder does not exist.
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
    for _ in 0..MAX_PASSES {
        empty(top.as_fd(), top.as_fd(), MAX_DEPTH, &mut moved)?;
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
            // If this is the top, folders were moved here, and the next pass removes them.
            Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Opens a folder. A link or a mount point is an error.
fn open_folder(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(parent, name, flags, Mode::empty(), resolve) {
        Err(Errno::XDEV) => Err(io::Error::other("something is mounted in it")),
        // Linux before 5.6 has no openat2. Mounts are unmounted already, and links are not
        // followed.
        Err(Errno::NOSYS) => Ok(openat(parent, name, flags, Mode::empty())?),
        opened => Ok(opened?),
    }
}
