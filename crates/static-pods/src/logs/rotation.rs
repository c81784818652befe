//! Rotation: a log that has grown too long is put aside, and the oldest of those go.
//!
//! ```text
//!   0.log > 10 MB  --rename-->  0.log.20060102-150405  --next time-->  ...-150405.gz
//!        ^--ReopenContainerLog: the runtime makes it anew
//! ```
//!
//! What was put aside is compressed the next time only: by then nobody follows it any more.
//! [`plan`] decides by names and sizes alone; [`rotate`] does it, and begins with what an earlier
//! one was killed over.

use std::fs;
use std::io;
use std::path::Path;

use pleg::model::wall_time::WallTime;

use super::compress::{COMPRESSED, UNFINISHED, compress};
use super::{names, remove_file};

/// How much a container may log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size in bytes from which on a log is rotated.
    pub size: u64,
    /// How many files are kept, the one that is written to included. At least 2.
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

/// A file beside a log, or the log itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
}

/// A step of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationStep {
    /// A file is removed.
    Remove(String),
    /// A file is compressed.
    Compress(String),
    /// The log is renamed to this, and opened anew.
    PutAside(String),
    /// The log is not there, as it was renamed and nobody lived to say so: it is opened anew.
    Reopen,
}

/// The steps for the log of that name, of what is in its folder.
pub fn plan(log: &str, files: &[LogFile], limits: Limits, now: WallTime) -> Vec<RotationStep> {
    let Some(current) = files.iter().find(|file| file.name == log) else {
        return vec![RotationStep::Reopen];
    };
    if current.size <= limits.size {
        return Vec::new();
    }
    let is_there = |name: &str| files.iter().any(|file| file.name == name);
    let aside = format!("{log}.{}", now.timestamp().strftime("%Y%m%d-%H%M%S"));
    if is_there(&aside) || is_there(&format!("{aside}{COMPRESSED}")) {
        // It grew too long twice in a second; the next look is soon enough.
        return Vec::new();
    }
    let mut rotated: Vec<&str> = files
        .iter()
        .filter_map(|file| {
            file.name
                .strip_prefix(log)?
                .starts_with('.')
                .then_some(&*file.name)
        })
        .collect();
    rotated.sort_unstable();
    let is_unused =
        |name: &str| name.ends_with(UNFINISHED) || is_there(&format!("{name}{COMPRESSED}"));
    let (unused, used): (Vec<_>, Vec<_>) = rotated.into_iter().partition(|name| is_unused(name));
    // One is written to, and one is put aside now. The times in the names sort them by age.
    let excess = used.len().saturating_sub(limits.files.saturating_sub(2));
    let (old, kept) = used.split_at(excess);
    let removed = unused
        .iter()
        .chain(old)
        .map(|name| RotationStep::Remove((*name).to_owned()));
    let plain = kept.iter().filter(|name| !name.ends_with(COMPRESSED));
    let compressed = plain.map(|name| RotationStep::Compress((*name).to_owned()));
    removed
        .chain(compressed)
        .chain([RotationStep::PutAside(aside)])
        .collect()
}

/// Whether [`plan`] has steps for this log, as far as it alone shows.
pub(crate) fn is_due(log: &Path, limits: Limits) -> bool {
    match log.symlink_metadata() {
        Ok(file) => file.len() > limits.size,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// What the runtime is asked for while a log is rotated.
pub type Reopen<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// What a rotation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// The log was short enough.
    No,
    /// It was put aside, or was found to be.
    Yes,
}

/// Rotates the log of a container that runs, if it is too long. `reopen` asks the runtime to open
/// it anew; where that fails, the log gets its name back.
pub fn rotate(
    log: &Path,
    limits: Limits,
    now: WallTime,
    reopen: Reopen<'_>,
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
    let rotated = if steps.is_empty() {
        Rotated::No
    } else {
        Rotated::Yes
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
                    // The runtime writes to the file still, whatever it is called.
                    fs::rename(aside, log)?;
                    return Err(error);
                }
            }
        }
    }
    Ok(rotated)
}
