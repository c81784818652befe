//! Opens a source without blocking, even a pipe without a writer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pleg_text::WallTime;
use rustix::fs::{Mode, OFlags};

pub(super) struct Opened {
    pub(super) file: File,
    /// Whether there is data only while a process writes.
    pub(super) is_pipe: bool,
    pub(super) modified: Option<WallTime>,
    /// The size of the file, if it has one.
    pub(super) bytes: Option<u64>,
}

pub(super) fn open(path: &Path) -> io::Result<Opened> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    let is_pipe = kind.is_fifo() || kind.is_char_device();
    let modified = metadata.modified().ok().filter(|_| !is_pipe);
    let modified = modified.and_then(|time| jiff::Timestamp::try_from(time).ok());
    Ok(Opened {
        file,
        is_pipe,
        modified: modified.map(WallTime::from),
        // Pipes and files of /proc have no size.
        bytes: Some(metadata.len()).filter(|bytes| *bytes > 0),
    })
}
