//! Opens a source without blocking, even a pipe without a writer.

use std::fs::File;
use std::io;
use std::path::Path;

use pleg_text::WallTime;
use rustix::fs::{FileType, Mode, OFlags};

pub(super) struct Opened {
    pub(super) kind: Kind,
    pub(super) modified: Option<WallTime>,
    /// Its size, if it has one.
    pub(super) bytes: Option<u64>,
}

pub(super) enum Kind {
    File(File),
    /// A pipe: there is no data while no process writes.
    Pipe(File),
}

pub(super) fn open(path: &Path) -> io::Result<Opened> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let stat = rustix::fs::fstat(&file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind == FileType::Fifo || kind == FileType::CharacterDevice {
        return Ok(Opened {
            kind: Kind::Pipe(file),
            modified: None,
            bytes: None,
        });
    }
    let metadata = file.metadata()?;
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok());
    Ok(Opened {
        kind: Kind::File(file),
        modified: modified.map(WallTime::from),
        // Files of /proc have none.
        bytes: Some(metadata.len()).filter(|bytes| *bytes > 0),
    })
}
