//! Rotation: a log that is too large is renamed, and the oldest rotated files are removed.
//!
//! ```text
//!   0.log > 10 MB  --rename-->  0.log.20060102-150405  --next rotation-->  ...-150405.gz
//!        ^--ReopenContainerLog: the runtime creates it again
//! ```
//!
//! A rotated file is compressed at the next rotation, when no reader follows it any more. [`plan`]
//! decides by names and sizes. [`rotate`] performs the plan, and completes a rotation that was
//! interrupted by a kill.

use std::fs;
use std::io;
use std::path::Path;

use pleg::model::wall_time::WallTime;

use super::compress::{COMPRESSED, UNFINISHED, compress};
use super::remove_file;
use crate::files::names;

/// The limits of a container's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size in bytes above which a log is rotated.
    pub size: u64,
    /// How many files are kept, including the current one. At least 2.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            size: 10 << 20,
            files: 5,
        }
    }
}

/// A log or one of its rotated files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogFile {
    pub(super) name: String,
    pub(super) size: u64,
}

/// A step of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RotationStep {
    Remove(String),
    Compress(String),
    /// Rename the log to this name, and make the runtime reopen the log.
    PutAside(String),
    /// Make the runtime reopen the log, because an earlier rotation was interrupted after its
    /// rename.
    Reopen,
}

/// The steps that rotate the log with the name `log`. `files` are the files in its folder.
pub(super) fn plan(
    log: &str,
    files: &[LogFile],
    limits: Limits,
    now: WallTime,
) -> Vec<RotationStep> {
    let Some(current) = files.iter().find(|file| file.name == log) else {
        return vec![RotationStep::Reopen];
    };
    if current.size <= limits.size {
        return Vec::new();
    }
    let is_there = |name: &str| files.iter().any(|file| file.name == name);
    let aside = format!("{log}.{}", now.timestamp().strftime("%Y%m%d-%H%M%S"));
    if is_there(&aside) || is_there(&format!("{aside}{COMPRESSED}")) {
        // A second rotation within a second would use the same name: leave it to the next check.
        return Vec::new();
    }
    let all = files.iter().map(|file| &*file.name);
    let of_log = |name: &&str| name.strip_prefix(log).is_some_and(|it| it.starts_with('.'));
    let mut rotated: Vec<&str> = all.filter(of_log).collect();
    rotated.sort_unstable();
    let is_unused =
        |name: &str| name.ends_with(UNFINISHED) || is_there(&format!("{name}{COMPRESSED}"));
    let (unused, used): (Vec<_>, Vec<_>) = rotated.into_iter().partition(|name| is_unused(name));
    // Two of the files to keep are the current log and the one that is renamed now. The names of
    // the others sort by age.
    let excess = used.len().saturating_sub(limits.files.saturating_sub(2));
    let (old, kept) = used.split_at(excess);
    let removed = unused.iter().chain(old);
    let removed = removed.map(|name| RotationStep::Remove((*name).to_owned()));
    let plain = kept.iter().filter(|name| !name.ends_with(COMPRESSED));
    let compressed = plain.map(|name| RotationStep::Compress((*name).to_owned()));
    removed
        .chain(compressed)
        .chain([RotationStep::PutAside(aside)])
        .collect()
}

/// Whether [`plan`] may return steps for this log.
pub(crate) fn is_due(log: &Path, limits: Limits) -> bool {
    match log.symlink_metadata() {
        Ok(file) => file.len() > limits.size,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether a log was rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// The log was small enough, or had been rotated within the last second.
    No,
    /// The log was rotated, or an interrupted rotation was completed.
    Yes,
}

/// Rotates the log of a running container, if the log is too large. `reopen` makes the runtime
/// reopen it. If the runtime does not, the log gets its name back.
pub fn rotate(
    log: &Path,
    limits: Limits,
    now: WallTime,
    reopen: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Rotated> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name().and_then(|it| it.to_str()))
    else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut files = Vec::new();
    for name in names(folder)? {
        match folder.join(&name).symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => files.push(LogFile {
                name,
                size: found?.len(),
            }),
        }
    }
    let steps = plan(name, &files, limits, now);
    let rotated = match steps.is_empty() {
        true => Rotated::No,
        false => Rotated::Yes,
    };
    for step in steps {
        match step {
            RotationStep::Remove(name) => remove_file(&folder.join(name))?,
            RotationStep::Compress(name) => compress(folder, &name)?,
            RotationStep::Reopen => reopen()?,
            RotationStep::PutAside(aside) => {
                let aside = folder.join(aside);
                fs::rename(log, &aside)?;
                if let Err(error) = reopen() {
                    // The runtime still writes to the renamed file, unless it reopened the log and only the
                    // answer is missing.
                    if !log.try_exists()? {
                        fs::rename(aside, log)?;
                    }
                    return Err(error);
                }
            }
        }
    }
    Ok(rotated)
}
