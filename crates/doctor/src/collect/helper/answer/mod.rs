//! The reads that a helper makes.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use analyze::kernel::KernelStackReader;
use serde::{Deserialize, Serialize};

use super::open_without_waiting;
use crate::facts::host::Filesystem;
use crate::limits::LOG_TAIL_BYTES;

mod cgroups;
mod program;
mod programs;

pub(crate) use cgroups::CgroupWalk;
pub(super) use cgroups::cgroups;
pub(super) use program::program_version;
pub(super) use programs::{journal, rpm};

/// The maximum number of bytes that are read from a file.
const MAX_FILE_BYTES: u64 = 256 * 1024;

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_without_waiting(path)?
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The end of a file, starting at the beginning of a line.
pub(super) fn tail(path: &Path) -> io::Result<String> {
    let mut file = open_without_waiting(path)?;
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(LOG_TAIL_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match skipped {
        0 => text.into_owned(),
        _ => text.split_once('\n').unwrap_or_default().1.to_owned(),
    })
}

pub(super) fn filesystem(path: &Path) -> io::Result<Filesystem> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(Filesystem {
        path: path.display().to_string(),
        bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        bytes_available: stat.f_bavail.saturating_mul(stat.f_frsize),
        inodes: stat.f_files,
        inodes_available: stat.f_favail,
        read_only: stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
    })
}

pub(super) fn stack(path: &Path) -> io::Result<Vec<String>> {
    let text = read(path)?;
    let mut reader = KernelStackReader::default();
    for line in text.lines() {
        reader.line(line, 0);
    }
    reader.finish();
    let stacks = reader.take_done().into_iter();
    Ok(stacks.flat_map(|stack| stack.functions).collect())
}

pub(super) fn link(path: &Path) -> io::Result<String> {
    Ok(std::fs::read_link(path)?.to_string_lossy().into_owned())
}

/// The marks of a fanotify group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FanotifyMarks {
    pub(crate) all: u64,
    /// Marks that make processes wait for permission to open, read or execute.
    pub(crate) permission: u64,
}

/// FAN_OPEN_PERM, FAN_ACCESS_PERM, FAN_OPEN_EXEC_PERM.
const PERMISSION: u64 = 0x10000 | 0x20000 | 0x40000;

/// Counts the marks in lines such as `fanotify mnt_id:1d mflags:0 mask:10000 ignored_mask:0`.
pub(super) fn fanotify(path: &Path) -> io::Result<FanotifyMarks> {
    let mut marks = FanotifyMarks::default();
    for line in read(path)?.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("fanotify")
            && let Some(mask) = words.find_map(|word| word.strip_prefix("mask:"))
        {
            let mask = u64::from_str_radix(mask, 16).unwrap_or(0);
            marks.all += 1;
            marks.permission += u64::from(mask & PERMISSION != 0);
        }
    }
    Ok(marks)
}
