//! Files, pipes and folders become lines: the edge at which the analysis meets the machine.
//!
//! ```text
//!   path --open--> bytes --gunzip, zstd--> bytes --lines--> Analyzer
//!     |  folder: its files, by name
//! ```
//!
//! ```
//! use analyze::analysis::Analyzer;
//! use analyze::input::{NoObserver, read};
//! use analyze::kind::Kind;
//! use times::WallTime;
//!
//! let path = "tests/samples/dump-kubelet-1.11-relist-chansend-k8s72482.txt";
//! let mut analyzer = Analyzer::new();
//! let unreadable = read(path, WallTime::now(), &mut analyzer, &mut NoObserver);
//! assert!(unreadable.is_empty());
//! assert_eq!(analyzer.finish().inputs[0].kind, Kind::GoroutineDump);
//! ```

mod lines;
mod open;
mod pipe;
mod zstd;

use std::io::{self, Read};
use std::path::Path;

use times::WallTime;

use crate::analysis::Analyzer;

pub use lines::{LONGEST_LINE, each_line};
pub use zstd::Frames;

/// Who is told how far the reading is.
pub trait Observer {
    /// An input begins, of so many bytes where that is known.
    fn begins(&mut self, _path: &str, _bytes: Option<u64>) {}
    /// So many more bytes were read, as they are stored.
    fn read(&mut self, _bytes: u64) {}
    /// A pipe is open, but nothing comes.
    fn waits(&mut self, _path: &str) {}
}

/// For whom it is all the same.
#[derive(Debug)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// An input that could not be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}")]
pub struct Unreadable {
    /// As it was named.
    pub path: String,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Files of one folder, its folders included; more are not read.
const MOST_FILES: usize = 10_000;
const DEEPEST: usize = 8;

/// Reads a file, a pipe, a folder or, as `-`, standard input, to its end. What could not be
/// read is told to the analyzer, too.
pub fn read(
    path: &str,
    now: WallTime,
    analyzer: &mut Analyzer,
    observer: &mut dyn Observer,
) -> Vec<Unreadable> {
    let mut unreadable = Vec::new();
    if path == "-" {
        observer.begins("standard input", None);
        let result = feed(
            "-",
            now,
            &mut Counting(&mut io::stdin().lock(), observer),
            analyzer,
        );
        note(path, result, analyzer, &mut unreadable);
        return unreadable;
    }
    match Path::new(path).is_dir() {
        true => {
            let mut files = Vec::new();
            if let Err(source) = walk(Path::new(path), 0, &mut files) {
                fail(path, source, analyzer, &mut unreadable);
            }
            files.sort();
            for file in files {
                let file = file.to_string_lossy();
                read_file(&file, now, analyzer, observer, &mut unreadable);
            }
        }
        false => read_file(path, now, analyzer, observer, &mut unreadable),
    }
    unreadable
}

fn read_file(
    path: &str,
    now: WallTime,
    analyzer: &mut Analyzer,
    observer: &mut dyn Observer,
    unreadable: &mut Vec<Unreadable>,
) {
    let opened = match open::open(Path::new(path)) {
        Ok(opened) => opened,
        Err(source) => return fail(path, source, analyzer, unreadable),
    };
    let latest = opened.modified.unwrap_or(now);
    observer.begins(path, opened.bytes);
    let result = match opened.kind {
        open::Kind::Pipe(file) => {
            let mut waiting = pipe::Patient::new(file, path, observer);
            feed(path, latest, &mut waiting, analyzer)
        }
        open::Kind::File(mut file) => {
            feed(path, latest, &mut Counting(&mut file, observer), analyzer)
        }
    };
    note(path, result, analyzer, unreadable);
}

fn note(
    path: &str,
    result: io::Result<()>,
    analyzer: &mut Analyzer,
    unreadable: &mut Vec<Unreadable>,
) {
    match result {
        Ok(()) => analyzer.end(None),
        Err(source) => {
            analyzer.end(Some(source.to_string()));
            unreadable.push(Unreadable {
                path: path.to_owned(),
                source,
            });
        }
    }
}

fn fail(path: &str, source: io::Error, analyzer: &mut Analyzer, unreadable: &mut Vec<Unreadable>) {
    analyzer.unreadable(path, source.to_string());
    unreadable.push(Unreadable {
        path: path.to_owned(),
        source,
    });
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<std::path::PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if files.len() >= MOST_FILES {
            return Err(io::Error::other(format!(
                "it has more than {MOST_FILES} files"
            )));
        }
        if kind.is_dir() && depth < DEEPEST {
            walk(&entry.path(), depth + 1, files)?;
        } else if kind.is_file() || kind.is_symlink() && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Feeds all lines of what may be compressed.
fn feed(
    path: &str,
    latest: WallTime,
    bytes: &mut dyn Read,
    analyzer: &mut Analyzer,
) -> io::Result<()> {
    analyzer.begin(path, latest);
    let mut magic = Vec::with_capacity(4);
    bytes.take(4).read_to_end(&mut magic)?;
    let whole = io::Cursor::new(magic.clone()).chain(bytes);
    let line = |line: &[u8], cut: bool| analyzer.line(line, cut);
    if magic.starts_with(&[0x1f, 0x8b]) {
        each_line(
            flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, whole)),
            line,
        )
    } else if magic == zstd::MAGIC {
        each_line(Frames::new(whole), line)
    } else {
        each_line(whole, line)
    }
}

/// Tells the observer what is read.
struct Counting<'a, R: ?Sized>(&'a mut R, &'a mut dyn Observer);

impl<R: Read + ?Sized> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.read(read as u64);
        Ok(read)
    }
}
