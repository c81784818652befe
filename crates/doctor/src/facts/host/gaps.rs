//! Files of processes that could not be read.

use serde::{Deserialize, Serialize};

use crate::facts::Missing;

/// How many unread files are named.
const MAX_FILES: usize = 128;

/// Files of processes that could not be read, although everything else was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gaps {
    /// Files that could not be read.
    pub files: Vec<Gap>,
    /// How many files could not be read besides those in `files`.
    pub more: usize,
    /// How many processes were not read in time, in the first or the second sample.
    pub processes: usize,
}

/// A file of a process that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// Its path, `/proc/4711/cgroup`.
    pub file: String,
    /// Why the file could not be read.
    pub why: Missing,
}

impl Gaps {
    /// Adds a file, or counts it if there are too many.
    pub(crate) fn add(&mut self, gap: Gap) {
        match self.files.len() < MAX_FILES {
            true => self.files.push(gap),
            false => self.more += 1,
        }
    }

    /// Adds the gaps of another sample.
    pub(crate) fn extend(&mut self, other: Self) {
        other.files.into_iter().for_each(|gap| self.add(gap));
        self.more += other.more;
        self.processes += other.processes;
    }

    /// Whether everything could be read.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first file of this name that could not be read.
    pub fn first_of(&self, name: &str) -> Option<&Gap> {
        let mut files = self.files.iter();
        files.find(|gap| gap.file.rsplit('/').next() == Some(name))
    }
}
