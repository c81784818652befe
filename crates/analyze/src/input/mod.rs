//! Files, pipes and folders become lines: the edge at which the analysis meets the machine.
//!
//! ```text
//!   path --open--> bytes --gunzip, zstd--> bytes --lines--> Analyzer
//!     |  folder: its files, by name
//! ```
//!
//! ```
//! use std::num::NonZeroUsize;
//!
//! use analyze::analysis::Analyzer;
//! use analyze::input::{NoObserver, read};
//! use analyze::kind::Kind;
//! use times::WallTime;
//!
//! let paths = ["tests/samples/dump-kubelet-1.11-relist-chansend-k8s72482.txt"];
//! let at_once = NonZeroUsize::MIN;
//! let mut analyzer = Analyzer::new();
//! let unreadable = read(&paths, WallTime::now(), at_once, &mut analyzer, &mut NoObserver);
//! assert!(unreadable.is_empty());
//! assert_eq!(analyzer.finish().inputs[0].kind, Kind::GoroutineDump);
//! ```

mod beside;
mod lines;
mod open;
mod pipe;
mod source;
mod zstd;

use std::io;
use std::num::NonZeroUsize;

use times::WallTime;

use crate::analysis::Analyzer;
use source::sources;

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

/// So many sources for each thread are read before what they tell is put together: the first waits
/// for the last of them.
const BATCH: usize = 4;

/// Reads files, pipes, folders and, as `-`, standard input to their ends, so many `at_once`. What they
/// tell is put together in the order of their names; what could not be read is told, too.
pub fn read(
    paths: &[impl AsRef<str>],
    now: WallTime,
    at_once: NonZeroUsize,
    analyzer: &mut Analyzer,
    observer: &mut dyn Observer,
) -> Vec<Unreadable> {
    let mut left = paths.iter().flat_map(|path| sources(path.as_ref()));
    let signs = analyzer.signs();
    let mut unreadable = Vec::new();
    loop {
        let batch: Vec<_> = left.by_ref().take(BATCH * at_once.get()).collect();
        if batch.is_empty() {
            return unreadable;
        }
        for (read, error) in beside::read_all(batch, now, at_once, &signs, observer) {
            analyzer.add(read);
            unreadable.extend(error);
        }
    }
}
