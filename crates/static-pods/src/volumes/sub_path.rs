//! `subPath`: a path in a volume that must not lead out of the volume.
//!
//! Containers write to volumes, so a path that is a folder when it is checked can be a link to the
//! host's `/` when the runtime mounts it. Therefore the path is opened once, with the kernel's
//! check that it does not leave the volume (`RESOLVE_BENEATH`, since Linux 5.6). The open file is
//! then bind-mounted in a folder that no container can change, and the runtime mounts that.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, mkdirat, openat, openat2,
};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::empty_dir::make_parents;
use super::mounts;

/// How many times a path is opened before the error is returned, if the kernel reports a concurrent
/// rename.
const MAX_OPEN_ATTEMPTS: usize = 16;

/// Opens a path in the volume. Missing folders are created with the mode of the volume.
pub(super) fn open(volume: &Path, sub_path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let volume = openat(CWD, volume, flags, Mode::empty())?;
    match beneath(&volume, Path::new(sub_path), OFlags::PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folders(&volume, Path::new(sub_path))?;
            beneath(&volume, Path::new(sub_path), OFlags::PATH)
        }
        opened => opened,
    }
}

/// Bind-mounts the open file at `place`, which is in a folder that no container can change.
pub(super) fn bind(opened: &OwnedFd, place: &Path) -> io::Result<()> {
    let wanted = fstat(opened)?;
    let is_folder = FileType::from_raw_mode(wanted.st_mode) == FileType::Directory;
    if place.symlink_metadata().is_ok() && mounts::is_mounted(place)? {
        let bound = fs::metadata(place)?;
        if (bound.dev(), bound.ino()) == (wanted.st_dev, wanted.st_ino) {
            return Ok(());
        }
        unmount(place, UnmountFlags::NOFOLLOW)?;
    }
    make_place(place, is_folder)?;
    // The kernel resolves this to the open file, not to its name.
    let opened = format!("/proc/self/fd/{}", opened.as_raw_fd());
    mount_bind(opened.as_str(), place)?;
    Ok(())
}

/// Creates the mount point: a folder for a folder, and a file for a file.
fn make_place(place: &Path, is_folder: bool) -> io::Result<()> {
    match place.symlink_metadata() {
        Ok(known) if known.is_dir() && is_folder => return Ok(()),
        Ok(known) if known.is_file() && !is_folder => return Ok(()),
        Ok(known) if known.is_dir() => fs::remove_dir(place)?,
        Ok(_) => fs::remove_file(place)?,
        Err(_) => {}
    }
    if is_folder {
        return make_parents(place);
    }
    if let Some(parent) = place.parent() {
        make_parents(parent)?;
    }
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(place)?;
    Ok(())
}

fn make_folders(volume: &OwnedFd, sub_path: &Path) -> io::Result<()> {
    let mode = Mode::from_raw_mode(fstat(volume)?.st_mode & 0o7777);
    let mut created = PathBuf::new();
    let mut parent = beneath(volume, Path::new("."), OFlags::PATH)?;
    for component in sub_path.components() {
        let Component::Normal(name) = component else {
            return Err(outside_volume());
        };
        created.push(name);
        let folder = OFlags::PATH | OFlags::DIRECTORY;
        parent = match beneath(volume, &created, folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match mkdirat(&parent, name, mode) {
                    // The name was created concurrently, or is a broken link.
                    Err(Errno::EXIST) => {}
                    result => {
                        result?;
                        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                        let folder = openat(&parent, name, flags | OFlags::CLOEXEC, Mode::empty())?;
                        // The mode of mkdirat is reduced by the process' umask.
                        fchmod(&folder, mode)?;
                    }
                }
                beneath(volume, &created, folder)?
            }
            opened => opened?,
        };
    }
    Ok(())
}

/// Opens a path in a folder. A path that leads out of the folder is an error.
fn beneath(folder: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut opened = Err(Errno::AGAIN);
    for _ in 0..MAX_OPEN_ATTEMPTS {
        opened = openat2(
            &folder,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        );
        if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    opened.map_err(|error| match error {
        Errno::XDEV => outside_volume(),
        Errno::NOSYS => io::Error::other("subPath needs Linux 5.6 or later (openat2)"),
        error => error.into(),
    })
}

fn outside_volume() -> io::Error {
    io::Error::other("it leads out of the volume")
}
