//! `emptyDir`: a folder or a tmpfs to which all users of the pod can write.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{CWD, Gid, Mode, OFlags, fchmod, fchown, openat};
use rustix::mount::{MountFlags, mount};

use super::mounts;
use crate::spec::Medium;

/// The mode of an `emptyDir`: all users can write.
const EMPTY_DIR_MODE: u32 = 0o777;

/// The mode bit by which new files in a folder belong to the folder's group.
const SET_GROUP_ID: u32 = 0o2000;

/// The mode of the folders of pods, which only root and its group can read.
const PARENT_DIRECTORY_MODE: u32 = 0o750;

/// Creates the volume. An existing volume is not changed, because containers may have changed its
/// mode and owner.
pub(super) fn make(path: &Path, medium: Medium, group: Option<i64>) -> io::Result<()> {
    let group = group.map(group_id).transpose()?;
    match medium {
        Medium::Disk => make_on_disk(path, group),
        Medium::Memory { size_limit } => make_in_memory(path, size_limit, group),
    }
}

/// Creates the folder under another name and renames it last, so that a folder with the final name
/// always has its group and its mode.
fn make_on_disk(path: &Path, group: Option<u32>) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    make_parents(parent)?;
    // The name of a volume cannot begin with a dot.
    let unfinished = parent.join(format!(".{}", name.to_string_lossy()));
    match fs::create_dir(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(CWD, &unfinished, flags, Mode::empty())?;
    if let Some(group) = group {
        fchown(&folder, None, Some(Gid::from_raw(group)))?;
    }
    fchmod(&folder, Mode::from_raw_mode(mode(group)))?;
    fs::rename(&unfinished, path)
}

fn make_in_memory(path: &Path, size_limit: Option<u64>, group: Option<u32>) -> io::Result<()> {
    make_parents(path)?;
    if mounts::is_mounted(path)? {
        return Ok(());
    }
    let mut options = format!("mode={:o}", mode(group));
    if let Some(group) = group {
        options += &format!(",gid={group}");
    }
    // Without a limit, the kernel's default is half of the memory.
    if let Some(bytes) = size_limit {
        options += &format!(",size={bytes}");
    }
    let options = CString::new(options)?;
    mount(
        "tmpfs",
        path,
        "tmpfs",
        MountFlags::empty(),
        options.as_c_str(),
    )?;
    Ok(())
}

pub(super) fn make_parents(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(PARENT_DIRECTORY_MODE)
        .create(path)
}

fn mode(group: Option<u32>) -> u32 {
    match group {
        Some(_) => EMPTY_DIR_MODE | SET_GROUP_ID,
        None => EMPTY_DIR_MODE,
    }
}

fn group_id(group: i64) -> io::Result<u32> {
    u32::try_from(group).map_err(|_| io::Error::other(format!("no group has the id {group}")))
}
