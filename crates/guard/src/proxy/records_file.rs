//! The file in which a guard saves its state. It is replaced atomically.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::host::{Blocking, replace};

/// How many bytes are read. The rows of the largest node are a few megabytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// How long reading may take: a slow disk must not delay a kubelet.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// The saved state; `None` if there is none, or if it cannot be read in time.
pub(super) async fn read(path: PathBuf) -> Option<Vec<u8>> {
    let read = move || -> io::Result<Vec<u8>> {
        // Opening a pipe would block.
        if !fs::symlink_metadata(&path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut saved = Vec::new();
        File::open(&path)?
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut saved)?;
        Ok(saved)
    };
    match Blocking::default().run(READ_TIMEOUT, read).await? {
        Ok(saved) => Some(saved),
        Err(error) => {
            tracing::debug!("cannot read the state saved by an earlier guard: {error}");
            None
        }
    }
}

/// Replaces the saved state. Other users must not read it, because rows have labels.
pub(super) fn write(path: &Path, saved: &[u8]) -> io::Result<()> {
    replace(path, saved, 0o600)
}
