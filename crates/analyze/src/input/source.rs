//! One source: a file, a pipe or standard input, read to its end.

use std::io::{self, Read as _};
use std::path::Path;

use pleg_text::WallTime;

use super::lines::each_line;
use super::zstd::{self, Frames};
use super::{Observer, Unreadable, open, pipe};
use crate::analysis::{Read, Reading};

/// How many files and subdirectories of a directory are read.
const MAX_FILES: usize = 10_000;
const MAX_DEPTH: usize = 8;

/// How many bytes of an input decide whether it is text.
const HEAD: u64 = 8 << 10;

/// A file is text if fewer than one byte in this many is a control character. A crash leaves NUL bytes in
/// logs, so these do not count.
const CONTROL_CHARACTERS: usize = 50;
/// A file whose beginning has more runs of NUL bytes is binary.
const MAX_NUL_RUNS: usize = 2;

#[derive(Debug)]
pub(super) enum Source {
    StandardInput,
    File(String),
    /// A directory whose files cannot all be listed.
    Folder(String, io::Error),
}

/// What was read of a source, and the error, if there was one.
pub(super) type Ended = (Read, Option<Unreadable>);

/// The sources that a path names: standard input (`-`), a file, or the files of a directory by name.
pub(super) fn sources(path: &str) -> Vec<Source> {
    if path == "-" {
        return vec![Source::StandardInput];
    }
    if !Path::new(path).is_dir() {
        return vec![Source::File(path.to_owned())];
    }
    let mut files = Vec::new();
    let failed = walk(Path::new(path), 0, &mut files).err();
    files.sort();
    let failed = failed.map(|error| Source::Folder(path.to_owned(), error));
    let files = files.iter().map(|file| file.to_string_lossy().into_owned());
    failed.into_iter().chain(files.map(Source::File)).collect()
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<std::path::PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if files.len() >= MAX_FILES {
            let why = format!("the directory contains more than {MAX_FILES} files");
            return Err(io::Error::other(why));
        }
        if kind.is_dir() && depth < MAX_DEPTH {
            walk(&entry.path(), depth + 1, files)?;
        } else if kind.is_file() || kind.is_symlink() && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

impl Source {
    pub(super) fn read(self, now: WallTime, observer: &mut dyn Observer) -> Ended {
        match self {
            Self::StandardInput => {
                observer.begins("standard input", None);
                let bytes = &mut Counting(&mut io::stdin().lock(), observer);
                feed("-", Reading::begin("-", now), bytes)
            }
            Self::File(path) => read_file(&path, now, observer),
            Self::Folder(path, error) => unreadable(path, error),
        }
    }
}

fn read_file(path: &str, now: WallTime, observer: &mut dyn Observer) -> Ended {
    let mut opened = match open::open(Path::new(path)) {
        Ok(opened) => opened,
        Err(error) => return unreadable(path.to_owned(), error),
    };
    let reading = Reading::begin(path, opened.modified.unwrap_or(now));
    observer.begins(path, opened.bytes);
    match opened.is_pipe {
        true => {
            let mut waiting = pipe::Waiting::new(opened.file, path, observer);
            feed(path, reading, &mut waiting)
        }
        false => feed(path, reading, &mut Counting(&mut opened.file, observer)),
    }
}

fn unreadable(path: String, source: io::Error) -> Ended {
    let read = Read::nothing(&path, source.to_string());
    (read, Some(Unreadable { path, source }))
}

/// Reads all lines of a source, which may be compressed. A binary source is not an error, because a
/// directory that was saved from a node has some.
fn feed(path: &str, mut reading: Reading, bytes: &mut dyn io::Read) -> Ended {
    let (says, failed) = match lines_of(bytes, |line, cut| reading.line(line, cut)) {
        Ok(Content::Text) => (None, None),
        Ok(Content::Binary) => (Some("skipped: it is a binary file".to_owned()), None),
        Err(error) => (Some(error.to_string()), Some(error)),
    };
    let path = path.to_owned();
    let failed = failed.map(|source| Unreadable { path, source });
    (reading.end(says), failed)
}

enum Content {
    Text,
    Binary,
}

fn lines_of(bytes: &mut dyn io::Read, line: impl FnMut(&[u8], bool)) -> io::Result<Content> {
    let mut magic = Vec::with_capacity(4);
    bytes.take(4).read_to_end(&mut magic)?;
    let whole = io::Cursor::new(magic.clone()).chain(bytes);
    if magic.starts_with(&[0x1f, 0x8b]) {
        let whole = io::BufReader::with_capacity(1 << 16, whole);
        lines_of_text(flate2::read::MultiGzDecoder::new(whole), line)
    } else if magic == zstd::MAGIC {
        lines_of_text(Frames::new(whole), line)
    } else {
        lines_of_text(whole, line)
    }
}

fn lines_of_text(mut bytes: impl io::Read, line: impl FnMut(&[u8], bool)) -> io::Result<Content> {
    let mut head = Vec::new();
    let failed = bytes.by_ref().take(HEAD).read_to_end(&mut head).err();
    if is_binary(&head) {
        return Ok(Content::Binary);
    }
    // What was read before a failure still counts.
    match failed {
        Some(error) => each_line(&*head, line).and(Err(error)),
        None => each_line(io::Cursor::new(head).chain(bytes), line).map(|()| Content::Text),
    }
}

fn is_binary(head: &[u8]) -> bool {
    let is_control = |byte: u8| matches!(byte, 1..=7 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let shown = head.iter().filter(|byte| **byte != 0).count();
    let control = head.iter().filter(|byte| is_control(**byte)).count();
    // A crash leaves one run of NUL bytes in a log.
    let ends = head.windows(2).filter(|two| two[0] == 0 && two[1] != 0);
    control * CONTROL_CHARACTERS > shown || ends.count() > MAX_NUL_RUNS
}

/// Reports to the observer how much is read.
struct Counting<'a, R: ?Sized>(&'a mut R, &'a mut dyn Observer);

impl<R: io::Read + ?Sized> io::Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.read(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Option<usize> {
        let mut lines = 0;
        match lines_of(&mut &*bytes, |_, _| lines += 1).unwrap() {
            Content::Text => Some(lines),
            Content::Binary => None,
        }
    }

    #[test]
    fn a_binary_file_is_skipped_and_a_log_with_nul_bytes_colours_or_foreign_letters_is_read() {
        assert_eq!(
            lines(&(0..=255).cycle().take(100_000).collect::<Vec<u8>>()),
            None
        );
        assert_eq!(
            lines(&std::fs::read(std::env::current_exe().unwrap()).unwrap()),
            None
        );
        let log = b"\x1b[31mE0505 13:59:56.872880 1 k.go:1] gr\xfc\xdfe\x1b[0m\n";
        assert_eq!(lines(log), Some(1));
        assert_eq!(lines(&[&[0; 20_000], &log[..]].concat()), Some(1));
        assert_eq!(
            lines(&"E0505 \u{444}\u{444} 中文\n".repeat(9).into_bytes()),
            Some(9)
        );
        assert_eq!(lines(b"name\0value\0name\0value\0"), None);
        assert_eq!(lines(b""), Some(0));
    }
}
