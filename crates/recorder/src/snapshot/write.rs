//! Writes a snapshot, completely or not at all.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use doctor::bundle;
use doctor::facts::NodeFacts;
use flate2::Compression;
use flate2::write::GzEncoder;
use pleg::out::pods::PodReport;
use pleg::out::status_report::StatusReport;
use serde::Serialize;

use super::{BUNDLE, End, Head};
use crate::Entry;

/// The content of a snapshot, except the recording.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The status from the agent or from the runtime.
    pub status: Option<StatusReport>,
    /// The pods.
    pub pods: Option<Vec<PodReport>>,
    /// The facts of a diagnosis.
    pub facts: Option<NodeFacts>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Line<'a> {
    Status(&'a StatusReport),
    Pods(&'a [PodReport]),
    Entry(&'a Entry),
    End(End),
}

/// Writes a snapshot to `path`, readable by its owner only. Returns the number of entries in it.
pub fn write(
    path: &Path,
    head: &Head,
    parts: &Parts,
    entries: impl Iterator<Item = Entry>,
) -> io::Result<u64> {
    let mut file = tempfile::NamedTempFile::new_in(bundle::folder_of(path))?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    let written = write_to(&mut file, head, parts, entries)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(written)
}

/// Writes a compressed snapshot. Returns the number of entries in it.
pub fn write_to(
    file: impl Write,
    head: &Head,
    parts: &Parts,
    entries: impl Iterator<Item = Entry>,
) -> io::Result<u64> {
    let gzip = GzEncoder::new(file, Compression::default());
    let mut lines = Lines(BufWriter::new(gzip));
    lines.write(head)?;
    if let Some(status) = &parts.status {
        lines.write(&Line::Status(status))?;
    }
    if let Some(pods) = &parts.pods {
        lines.write(&Line::Pods(pods))?;
    }
    let mut written = 0;
    for entry in entries {
        lines.write(&Line::Entry(&entry))?;
        written += 1;
    }
    if let Some(facts) = &parts.facts {
        lines.0.write_all(BUNDLE.0)?;
        bundle::write_to(&mut lines.0, facts)?;
        lines.0.write_all(BUNDLE.1)?;
        lines.0.write_all(b"\n")?;
    }
    lines.write(&Line::End(End { entries: written }))?;
    let gzip = lines.0.into_inner();
    gzip.map_err(io::IntoInnerError::into_error)?.finish()?;
    Ok(written)
}

struct Lines<W: Write>(BufWriter<W>);

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, line)?;
        self.0.write_all(b"\n")
    }
}
