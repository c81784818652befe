//! Segment files: their names, their header, and the folder that they are in.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pleg::model::wall_time::WallTime;

/// The default directory of the recording.
pub const DIRECTORY: &str = "/var/lib/pleg/history";

/// The first bytes of a segment.
const MAGIC: [u8; 8] = *b"PLEGREC\0";

/// The version of the format. Kinds of entries may be added within a version: a reader counts the
/// kinds that it does not know.
const VERSION: u32 = 1;

/// The suffix of a segment's name.
const SUFFIX: &str = ".plegrec";

/// How many bytes of a segment are read. A segment is written with at most 4 MB, or with a single
/// write.
const MAX_READ_BYTES: u64 = 8 << 20;

/// How many segments of a folder are read. Far fewer are written.
const MAX_SEGMENTS: usize = 10_000;

/// The size of the header.
pub(super) const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>();

/// A segment in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    /// Its position in the order of all segments.
    pub(super) sequence: u64,
    pub(super) path: PathBuf,
}

/// The kind of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The bytes after the header.
    Frames(Vec<u8>),
    /// A segment of a newer version of pleg.
    Newer,
    /// Another file, or a segment whose header was not written.
    Other,
}

/// The header of every segment.
pub(super) fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// The name of the segment with this sequence number that begins at `time`. The time is only for
/// people.
pub(super) fn name(sequence: u64, time: WallTime) -> String {
    let time = time.timestamp().strftime("%Y%m%dT%H%M%SZ");
    format!("{sequence:010}-{time}{SUFFIX}")
}

fn sequence(name: &str) -> Option<u64> {
    let (sequence, _) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let is_number = sequence.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| sequence.parse().ok())?
}

/// The segments of a folder, oldest first.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder)?.take(10 * MAX_SEGMENTS) {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(sequence) = name.to_str().and_then(sequence) {
            let path = entry.path();
            segments.push(Segment { sequence, path });
        }
    }
    segments.sort();
    let surplus = segments.len().saturating_sub(MAX_SEGMENTS);
    segments.drain(..surplus);
    Ok(segments)
}

/// Reads the written part of a segment. Neither follows links nor waits for pipes.
pub(super) fn load(path: &Path) -> io::Result<Content> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(Content::Other);
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_READ_BYTES)
        .read_to_end(&mut bytes)?;
    let version = bytes
        .strip_prefix(&MAGIC)
        .and_then(|rest| rest.first_chunk());
    Ok(match version.map(|bytes| u32::from_le_bytes(*bytes)) {
        Some(VERSION) => {
            bytes.drain(..HEADER_BYTES);
            Content::Frames(bytes)
        }
        Some(_) => Content::Newer,
        None => Content::Other,
    })
}

/// Whether the file is a segment, by its first bytes.
fn is_segment(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == MAGIC
}

/// Whether this is a recording: a segment, or a folder of segments.
pub fn is_recording_file(path: &Path) -> bool {
    match path.is_dir() {
        true => list(path).is_ok_and(|segments| !segments.is_empty()),
        // Reading from a pipe would take bytes from its reader.
        false => path.is_file() && is_segment(path),
    }
}

/// Creates a file that only its owner can read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_in_the_order_of_their_numbers_even_if_the_clock_was_set() {
        let folder = tempfile::tempdir().unwrap();
        let time = |seconds: i64| WallTime::from_unix_nanos(seconds * 1_000_000_000).unwrap();
        let names = [
            name(9, time(1_900_000_000)),
            name(10, time(1_800_000_000)),
            name(10_000_000_000, time(5)),
        ];
        for name in names.iter().rev() {
            create(&folder.path().join(name)).unwrap();
        }
        for other in [
            "lock",
            "-x.plegrec",
            "x-1.plegrec",
            "+1-x.plegrec",
            "1.plegrec",
        ] {
            create(&folder.path().join(other)).unwrap();
        }
        let segments = list(folder.path()).unwrap();
        let found: Vec<_> = segments
            .iter()
            .map(|it| it.path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(found, names.each_ref().map(String::as_str));
        assert_eq!(names[1], "0000000010-20270115T080000Z.plegrec");
    }
}
