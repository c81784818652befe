//! The file in which a guard saves its state for the next start. It is replaced atomically.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use base::host::{Blocking, replace};

/// How many bytes are read. The rows of the largest node are a few megabytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// How long reading may take: a slow disk must not delay a kubelet.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// How long writing may take.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The file with the state of a guard.
pub(super) struct RecordsFile {
    path: PathBuf,
    /// One write at a time.
    disk: Blocking,
}

impl RecordsFile {
    pub(super) fn new(path: PathBuf) -> Self {
        let disk = Blocking::one_at_a_time();
        Self { path, disk }
    }

    /// The saved state; `None` if there is none, or if it cannot be read in time.
    pub(super) async fn read(&self) -> Option<Vec<u8>> {
        let path = self.path.clone();
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

    /// Replaces the saved state. The error is a sentence.
    pub(super) async fn write(&self, saved: Vec<u8>) -> Result<(), String> {
        let path = self.path.clone();
        // Other users must not read it, because rows have labels.
        let write = move || replace(&path, &saved, 0o600);
        let why = match self.disk.run(WRITE_TIMEOUT, write).await {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => error.to_string(),
            None => "the disk does not respond".to_owned(),
        };
        let path = self.path.display();
        Err(format!("cannot save the guard's records in {path}: {why}"))
    }
}
