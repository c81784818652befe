//! Reads the entries of a folder or of one segment in order. It trusts no file: a segment may be
//! torn, damaged, forged, written to, or removed meanwhile. What is skipped is counted.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use pleg::model::wall_time::WallTime;

use super::frame::{Frames, Next};
use super::segment::{self, Content};
use crate::Entry;

/// The range of times of the wanted entries, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The earliest time; `None` for all.
    pub from: Option<WallTime>,
    /// The latest time; `None` for all.
    pub to: Option<WallTime>,
}

impl Range {
    /// All entries since this time.
    pub fn since(from: WallTime) -> Self {
        Self {
            from: Some(from),
            to: None,
        }
    }

    fn contains(&self, nanos: i64) -> bool {
        self.from.is_none_or(|from| from.as_unix_nanos() <= nanos)
            && self.to.is_none_or(|to| nanos <= to.as_unix_nanos())
    }
}

/// What was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Bytes in the middle of segments that are no frames.
    pub damaged_bytes: u64,
    /// Segments whose last frame was not completely written. This is usual: the writer was killed,
    /// or still writes.
    pub torn_segments: u64,
    /// Entries of a kind that this version of pleg does not know.
    pub unknown_entries: u64,
    /// Segments of a newer version of pleg.
    pub newer_segments: u64,
    /// Segments that were removed before they were read, because newer ones needed the space.
    pub removed_segments: u64,
    /// Files that cannot be read, or are no segments.
    pub unreadable_segments: u64,
}

/// Reads one entry after the other. One segment is in memory at a time.
#[derive(Debug)]
pub struct Reader {
    range: Range,
    segments: VecDeque<PathBuf>,
    entries: VecDeque<Entry>,
    skipped: Skipped,
}

/// Reads the entries in a folder, or in one segment.
pub fn read(path: &Path, range: Range) -> io::Result<Reader> {
    let segments = match path.metadata()?.is_dir() {
        true => segment::list(path)?.into_iter().map(|it| it.path).collect(),
        false => VecDeque::from([path.to_owned()]),
    };
    Ok(Reader {
        range,
        segments,
        entries: VecDeque::new(),
        skipped: Skipped::default(),
    })
}

impl Reader {
    /// What was skipped so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn load(&mut self, path: &Path) {
        match segment::load(path) {
            Ok(Content::Frames(bytes)) => self.decode(&bytes),
            Ok(Content::Newer) => self.skipped.newer_segments += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.skipped.removed_segments += 1;
            }
            Ok(Content::Other) | Err(_) => self.skipped.unreadable_segments += 1,
        }
    }

    fn decode(&mut self, bytes: &[u8]) {
        let mut frames = Frames::new(bytes);
        loop {
            match frames.next() {
                Next::Frame(frame) if !self.range.contains(frame.nanos) => {}
                Next::Frame(frame) => match frame.entry() {
                    Some(entry) => self.entries.push_back(entry),
                    None => self.skipped.unknown_entries += 1,
                },
                Next::Damaged(bytes) => self.skipped.damaged_bytes += bytes as u64,
                Next::Torn => self.skipped.torn_segments += 1,
                Next::End => return,
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Some(entry);
            }
            let segment = self.segments.pop_front()?;
            self.load(&segment);
        }
    }
}
