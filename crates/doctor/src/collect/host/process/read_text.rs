//! The text of a file of a process.

use std::fs::File;
use std::path::Path;

use crate::collect::helper::Reads;
use crate::collect::host::file::text_of;
use crate::facts::Missing;

/// The text of a file. Opening it may block: the worker is then abandoned.
pub(super) fn read_text(reads: &Reads, path: &Path) -> Result<String, Missing> {
    reads.at(path, || text_of(File::open(path)?))
}
