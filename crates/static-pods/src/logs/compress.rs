//! Compression of a rotated log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The suffix of an unfinished file.
pub(super) const UNFINISHED: &str = ".tmp";

/// The suffix of a compressed file.
pub(super) const COMPRESSED: &str = ".gz";

/// Replaces `<name>` with `<name>.gz`. The compressed file gets its name when it is complete, so
/// nothing is lost if this process is killed.
pub(super) fn compress(folder: &Path, name: &str) -> io::Result<()> {
    let source = folder.join(name);
    let unfinished = folder.join(format!("{name}{UNFINISHED}"));
    let from = File::open(&source)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o640);
    let to = BufWriter::new(options.open(&unfinished)?);
    let mut encoder = GzEncoder::new(to, Compression::default());
    io::copy(&mut BufReader::new(from), &mut encoder)?;
    let mut to = encoder.finish()?;
    to.flush()?;
    drop(to);
    fs::rename(unfinished, folder.join(format!("{name}{COMPRESSED}")))?;
    fs::remove_file(source)
}
