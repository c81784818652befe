//! Reads a snapshot from any source.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use doctor::bundle::{self, BundleError};
use doctor::facts::NodeFacts;
use flate2::read::MultiGzDecoder;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use serde::Deserialize;

use super::{BEGINNING, BUNDLE, End, Head, Parts, VERSION};
use crate::fold::Fold;
use crate::{Entry, Recorded, Status};

/// The maximum length of a line: a bundle has up to 32 MiB.
const MAX_LINE_BYTES: u64 = 40 << 20;

/// The maximum size of all lines together: a recording of 64 MB inflates to a few hundred MB.
const MAX_BYTES: u64 = 2 << 30;

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file is not a snapshot.
    #[error("it is not a snapshot of `pleg snapshot`")]
    Other,
    /// The file was written by a newer version of pleg.
    #[error(
        "it was written by a newer pleg, in version {0} of the format; this pleg reads version {VERSION}"
    )]
    Newer(u32),
}

/// A snapshot in memory.
#[derive(Debug)]
pub struct Snapshot {
    /// Which version of pleg wrote the snapshot, when, and what is missing.
    pub head: Head,
    /// The status, the pods and the facts.
    pub parts: Parts,
    /// Why the bundle in the snapshot could not be read.
    pub unreadable_bundle: Option<BundleError>,
    /// The recording, oldest first.
    pub entries: Vec<Entry>,
    /// The number of lines that were skipped, because this version of pleg does not know them or
    /// because they are damaged.
    pub skipped_lines: u64,
    /// Whether the file was read to its end; otherwise a part of it is missing.
    pub is_complete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Status(Box<StatusReport>),
    Pods(Vec<PodReport>),
    Entry(Box<Entry>),
    End(End),
}

/// Whether a file is a snapshot, by its first bytes.
pub fn is_snapshot(path: &Path) -> bool {
    // Reading from a pipe would take bytes from its reader.
    if !path.is_file() {
        return false;
    }
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut beginning = vec![0; BEGINNING.len()];
    let read = MultiGzDecoder::new(BufReader::new(file)).read_exact(&mut beginning);
    read.is_ok() && beginning == BEGINNING.as_bytes()
}

/// Reads a snapshot.
pub fn open(path: &Path) -> Result<Snapshot, ReadError> {
    let file = File::open(path).map_err(ReadError::Unreadable)?;
    let lines = MultiGzDecoder::new(BufReader::new(file)).take(MAX_BYTES);
    let mut lines = BufReader::new(lines);
    let mut line = Vec::new();
    // A file that is not gzip has no first line either.
    let first = next_line(&mut lines, &mut line);
    if !first.unwrap_or_default() || !line.starts_with(BEGINNING.as_bytes()) {
        return Err(ReadError::Other);
    }
    let head: Head = serde_json::from_slice(&line).map_err(|_| ReadError::Other)?;
    if head.version > VERSION {
        return Err(ReadError::Newer(head.version));
    }
    let mut snapshot = Snapshot {
        head,
        parts: Parts::default(),
        unreadable_bundle: None,
        entries: Vec::new(),
        skipped_lines: 0,
        is_complete: false,
    };
    // The decoder reports the end of a cut file as an error.
    while next_line(&mut lines, &mut line).unwrap_or_default() {
        snapshot.take(&line);
    }
    Ok(snapshot)
}

/// Reads the next line. Returns whether there is one; a line that is too long is cut.
fn next_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    lines
        .by_ref()
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', line)?;
    if line.last() != Some(&b'\n') && line.len() as u64 == MAX_LINE_BYTES {
        lines.skip_until(b'\n')?;
    }
    Ok(!line.is_empty())
}

impl Snapshot {
    /// The state when the snapshot was taken, as entries after its recording, which may not contain
    /// that state yet.
    pub fn observed(&self) -> Vec<Entry> {
        let Parts { status, pods, .. } = &self.parts;
        let examined = self.head.own_examination.then_some(Recorded::Examined);
        let status = status.clone().map(|report| {
            let left_out = 0;
            Recorded::Status(Box::new(Status { report, left_out }))
        });
        let pods = pods.clone().map(Recorded::Pods);
        let observed = examined.into_iter().chain(status).chain(pods);
        let time = self.head.taken;
        observed.map(|what| Entry { time, what }).collect()
    }

    /// Folds the recording and the state when the snapshot was taken. The entries are moved out.
    pub fn fold(&mut self) -> Fold {
        // A status before the first relist shows nothing.
        let has_observed = |entry: &Entry| match &entry.what {
            Recorded::Status(status) => status.report.relist.count > 0,
            _ => true,
        };
        let observed = self.observed().into_iter().filter(has_observed);
        let mut fold = Fold::default();
        let entries = std::mem::take(&mut self.entries).into_iter();
        entries.chain(observed).for_each(|entry| fold.take(entry));
        fold
    }

    fn take(&mut self, line: &[u8]) {
        if let Some(bundle) = bundle_of(line) {
            match bundle {
                Ok(facts) => self.parts.facts = Some(facts),
                Err(error) => self.unreadable_bundle = Some(error),
            }
            return;
        }
        match serde_json::from_slice(line) {
            Ok(Line::Status(status)) => self.parts.status = Some(*status),
            Ok(Line::Pods(pods)) => self.parts.pods = Some(pods),
            Ok(Line::Entry(entry)) => self.entries.push(*entry),
            Ok(Line::End(end)) => {
                let read = self.entries.len() as u64 + self.skipped_lines;
                self.is_complete = end.entries <= read;
            }
            Err(_) => self.skipped_lines += 1,
        }
    }
}

fn bundle_of(line: &[u8]) -> Option<Result<NodeFacts, BundleError>> {
    let bundle = line.trim_ascii_end().strip_prefix(BUNDLE.0)?;
    Some(bundle::read_from(bundle.strip_suffix(BUNDLE.1)?))
}
