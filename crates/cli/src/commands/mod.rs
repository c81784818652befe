//! One file for each command.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::text::printable_path;

pub mod agent;
pub mod analyze;
pub mod completion;
pub mod doctor;
pub mod explain;
pub mod kubectl;
pub mod man_pages;
pub mod pods;
pub mod rules;
pub mod snapshot;
pub mod status;
pub mod timeline;
pub mod top;
pub mod watch;

/// Refuses a path that this user may not read, so that it is not reported as absent or
/// as a file of another kind.
fn check_permission(path: &Path) -> anyhow::Result<()> {
    // A pipe is not opened: that would take data from its reader.
    let read = path.metadata().and_then(|about| match about.is_dir() {
        true => fs::read_dir(path).map(drop),
        false if about.is_file() => File::open(path).map(drop),
        false => Ok(()),
    });
    if read.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        bail!(
            "{}: permission denied: only the user of the agent may read it; run this command as \
             root, for example with sudo",
            printable_path(path)
        );
    }
    Ok(())
}

/// Runs work that a hanging disk may block, with a time limit.
async fn on_disk<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    match timeout(limit, spawn_blocking(work)).await {
        Ok(done) => Ok(done?),
        Err(_) => bail!("the disk does not respond"),
    }
}
