//! Reads files, pipes and directories as lines: the only IO of the analysis.
//!
//! ```text
//!   path --open--> bytes --gunzip, zstd--> bytes --lines--> Analyzer
//!     |  directory: its files, by name
//! ```
//!
//! ```
//! use std::num::NonZeroUsize;
//!
//! use analyze::analysis::Analyzer;
//! use analyze::input::{NoObserver, read};
//! use analyze::kind::Kind;
//! use pleg_text::WallTime;
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

use pleg_text::WallTime;

use crate::analysis::Analyzer;
use source::sources;

pub use lines::{MAX_LINE_BYTES, each_line};
pub use zstd::Frames;

/// Observes the progress of reading.
pub trait Observer: Send {
    /// An input begins, with its size in bytes if it is known.
    fn begins(&mut self, _path: &str, _bytes: Option<u64>) {}
    /// This many more (compressed) bytes were read.
    fn read(&mut self, _bytes: u64) {}
    /// A pipe is open, but has no data yet.
    fn waits(&mut self, _path: &str) {}
}

/// An observer that does nothing.
#[derive(Debug)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// An input that could not be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}")]
pub struct Unreadable {
    /// The path of the input, as given.
    pub path: String,
    /// Why the input could not be read.
    #[source]
    pub source: io::Error,
}

/// How many sources per thread are read before their results are merged. Until then, the results of the
/// first one are kept in memory.
const BATCH: usize = 4;

/// Reads files, pipes, directories and, as `-`, standard input, `at_once` of them in parallel. The
/// results are merged in the order of the paths. Returns the inputs that could not be read.
pub fn read(
    paths: &[impl AsRef<str>],
    now: WallTime,
    at_once: NonZeroUsize,
    analyzer: &mut Analyzer,
    observer: &mut dyn Observer,
) -> Vec<Unreadable> {
    let mut left = paths.iter().flat_map(|path| sources(path.as_ref()));
    let mut unreadable = Vec::new();
    loop {
        let batch: Vec<_> = left.by_ref().take(BATCH * at_once.get()).collect();
        if batch.is_empty() {
            return unreadable;
        }
        for (read, error) in beside::read_all(batch, now, at_once, observer) {
            analyzer.add(read);
            unreadable.extend(error);
        }
    }
}
