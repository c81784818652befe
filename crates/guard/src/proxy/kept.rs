//! The file in which a guard keeps what it knows: replaced whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::host::{Blocking, replace};

/// The largest node's rows are a few megabytes; what is longer is none of ours.
const LONGEST: u64 = 256 << 20;

/// A disk that takes longer holds up no kubelet.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was kept last; `None` where there is nothing, or it cannot be read in time.
pub(super) async fn read(path: PathBuf) -> Option<Vec<u8>> {
    let read = move || -> io::Result<Vec<u8>> {
        // A pipe in its place would be waited for.
        if !fs::symlink_metadata(&path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut kept = Vec::new();
        File::open(&path)?.take(LONGEST).read_to_end(&mut kept)?;
        Ok(kept)
    };
    match Blocking::default().run(PATIENCE, read).await? {
        Ok(kept) => Some(kept),
        Err(error) => {
            tracing::debug!("nothing is kept of an earlier guard: {error}");
            None
        }
    }
}

/// Replaces what is kept. Rows have labels, which others must not read.
pub(super) fn write(path: &Path, kept: &[u8]) -> io::Result<()> {
    replace(path, kept, 0o600)
}
